"""BERTScore (Zhang et al. 2020) of generated text, by the optional package bert-score and a model of this machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.pretrained import hub_folder, is_hub_name


def check_bert_score(model: str) -> Path:
    """Checks that BERTScore can be measured. Imports neither the package nor the model.

    Args:
        model: name of an encoder on the hub.

    Returns:
        The folder of the model in the local Hugging Face cache.

    Raises:
        ConfigError: ``bert-score`` is not installed, or the cache lacks the model.
    """
    if importlib.util.find_spec("bert_score") is None:
        raise ConfigError(
            "train.bert_score_model needs the package bert-score. Install it with: pip install 'reticent[bert-score]', "
            "or leave the setting out"
        )
    folder = hub_folder(model, None) if is_hub_name(model) else None
    if folder is None:
        raise ConfigError(
            f"train.bert_score_model: {model if is_hub_name(model) else 'the name'} is no model in the local Hugging "
            "Face cache. Name one of the hub, and fetch it once with `hf download OWNER/NAME`"
        )
    return folder


def bert_score(outputs: Sequence[str], references: Sequence[Sequence[str]], model: str) -> dict[str, Any]:
    """Returns the mean of the best BERTScore F1 over each output's references, without idf weights and rescaling.

    The layer is the one that bert-score prefers for the model, or the last one of a model that it does not know. An
    output without text scores 0, as bert-score documents it (with transformers 5 it stops at such a text).

    Args:
        outputs: texts of a model, at least one.
        references: references of each output.
        model: name of an encoder on the hub, which lies in the local cache.

    Returns:
        ``bert_score``, at most 1, and ``bert_score_layer``.

    Raises:
        ConfigError: as `check_bert_score`.
    """
    folder = str(check_bert_score(model))
    from bert_score import score
    from bert_score.utils import model2layers
    from transformers import AutoConfig

    last = AutoConfig.from_pretrained(folder, local_files_only=True).num_hidden_layers
    layer = int(model2layers.get(model, model2layers.get(model.rpartition("/")[2], last)))
    groups = [[text for text in group if text.strip()] for group in references]
    scored = [pair for pair in zip(outputs, groups, strict=True) if pair[0].strip() and pair[1]]
    total = 0.0
    if scored:
        texts, their = map(list, zip(*scored, strict=True))
        _, _, best = score(texts, their, model_type=folder, num_layers=layer)
        total = float(best.double().sum())
    return {"bert_score": total / len(outputs), "bert_score_layer": layer}
