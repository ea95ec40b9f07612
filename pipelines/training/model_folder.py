"""Reads a model folder that a training wrote: the network, and the vocabulary of its records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError

from pipelines import memory_files
from pipelines.errors import ConfigError
from pipelines.quiet import quiet_transformers
from pipelines.training.data.vocabulary import TextEncoder, Vocabulary
from pipelines.training.description import read_description
from pipelines.training.devices import choose_device
from pipelines.training.models.loading import MODEL_CLASSES, LoadedModel, ModelKind
from pipelines.training.models.recurrent import load_recurrent
from pipelines.training.models.saving import PREFIX_FOLDER


def open_folder(
    folder: Path,
    *,
    device: str,
    task: str | None,
    kind: ModelKind = "causal",
    attention: str | None = None,
    check: Callable[[str], None] = lambda task: None,
) -> tuple[LoadedModel, Mapping[str, Any]]:
    """Reads the model of a folder, in float32, and what `read_description` returns. Nothing is downloaded.

    Args:
        folder: model folder.
        device: device, as in ``runtime.device``.
        task: task that the model was trained for. Needed only if the folder does not say it.
        kind: kind of the model's output.
        attention: attention of ``transformers``. None for its default.
        check: function that receives the task before the weights are read. It refuses a task with a `ConfigError`.

    Raises:
        UntoldEncodingError: a folder of version 0.1.0 does not say how records were encoded.
        ConfigError: the folder holds no model that Reticent trained, or a damaged one, or there is no such device.
    """
    if not folder.is_dir():
        raise ConfigError("there is no model folder at the given path")
    where = choose_device(device)
    try:
        with memory_files.readable(folder) as opened:
            tokenizer, is_recurrent = tokenizer_of(opened)
            document, control = read_description(opened, tokenizer, task)
            check(document["task"])
            model = load_recurrent(opened) if is_recurrent else _transformer(opened, kind, attention)
    except (OSError, ValueError, ImportError, KeyError, RuntimeError, SafetensorError) as error:
        raise ConfigError("the model folder cannot be read: files are missing or damaged") from error
    model.requires_grad_(False)
    model.to(where).eval()
    vocabulary = Vocabulary(
        tokenizer=tokenizer,
        control=control,
        encoder=TextEncoder(tokenizer.backend_tokenizer, control, tokenizer.unk_token_id),
        kind=document["vocabulary"],
        trained_on=document["trained_on"],
    )
    length = document["context_length"]
    loaded = LoadedModel(model=model, vocabulary=vocabulary, kind=kind, context_length=length, num_new_tokens=0)
    return loaded, document


def tokenizer_of(folder: Path) -> tuple[Any, bool]:
    """Returns the tokenizer of a model folder, and true if the model is an LSTM or a GRU."""
    is_recurrent = "architecture" in json.loads((folder / "config.json").read_text("utf-8"))
    read = transformers.PreTrainedTokenizerFast if is_recurrent else transformers.AutoTokenizer
    with quiet_transformers():
        return read.from_pretrained(folder, local_files_only=True), is_recurrent


def _transformer(folder: Path, kind: ModelKind, attention: str | None) -> Any:
    how = {} if attention is None else {"attn_implementation": attention}
    with quiet_transformers():
        model = MODEL_CLASSES[kind].from_pretrained(folder, local_files_only=True, dtype=torch.float32, **how)
        if kind == "causal":
            model.config.pad_token_id = None  # with it, the model would look for padding in every input
        if (folder / PREFIX_FOLDER).is_dir():
            import peft

            model = peft.PeftModel.from_pretrained(model, folder / PREFIX_FOLDER)
    return model
