"""Model folders for loaders that do not know Reticent: ``transformers`` itself, and tools that read its layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

from pipelines.files import encode_json
from pipelines.training.description import read_description
from pipelines.training.model_folder import tokenizer_of
from pipelines.training.models.saving import PREFIX_FOLDER
from pipelines.training.scoring.generation import never_written

Loader = Literal["transformers", "peft", "recurrent"]
OPEN_TRAINED: Final = "recurrent"
_GENERATION: Final = "generation_config.json"
_NOTES: Final[dict[Loader, str]] = {
    "transformers": "from_pretrained of transformers opens it, and whatever reads that layout",
    "peft": (
        "a trained prefix cannot be merged into weights: from_pretrained opens the model that it began with, which "
        f"learnt nothing here; peft.PeftModel.from_pretrained(model, FOLDER + '/{PREFIX_FOLDER}') adds what was trained"
    ),
    "recurrent": (
        "this LSTM or GRU is no model of transformers: reticent.open_trained(FOLDER) opens it. Weights are "
        "safetensors, sizes stand in config.json, the tokenizer is one of transformers"
    ),
}


def prepare(folder: Path) -> tuple[Loader, list[str]]:
    """Completes a copy of a model folder, so that plain generation writes what `TrainedModel.generate` does.

    The weights need no change: low-rank additions were merged when the folder was written (`saving.save_model`).
    ``generation_config.json`` gets the ids that begin, end and pad a text, and the ids that are never written.

    Returns:
        Loader of the folder, and notes for people.

    Raises:
        ConfigError: the folder holds no model that Reticent trained.
    """
    tokenizer, is_recurrent = tokenizer_of(folder)
    if is_recurrent:
        return OPEN_TRAINED, [_NOTES[OPEN_TRAINED]]
    loader: Loader = "peft" if (folder / PREFIX_FOLDER).is_dir() else "transformers"
    path = folder / _GENERATION
    if path.is_file():
        _, control = read_description(folder, tokenizer)
        settings: dict[str, Any] = json.loads(path.read_text("utf-8"))
        settings |= {"bos_token_id": control.bos, "eos_token_id": control.eos, "pad_token_id": control.pad}
        if suppressed := never_written(control):
            settings["suppress_tokens"] = suppressed
        path.write_bytes(encode_json(settings))
    return loader, [_NOTES[loader]]
