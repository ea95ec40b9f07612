"""Saves a trained model as a folder that the ``Auto`` classes of ``transformers`` load offline."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import torch

from pipelines.dp.language import has_prefix
from pipelines.quiet import quiet_transformers

PREFIX_FOLDER: Final = "prefix"
CARD: Final = "README.md"


def save_model(model: Any, tokenizer: Any, folder: Path, *, context_length: int) -> None:
    """Writes safetensors weights, config and tokenizer.

    Low-rank additions are merged into the weights. A prefix cannot be merged: the folder then holds the base model and,
    in its folder ``prefix``, what ``peft.PeftModel.from_pretrained(model, folder / "prefix")`` adds.

    Args:
        model: trained model, left as it is.
        tokenizer: tokenizer of the model, of ``transformers``, with a padding token.
        folder: folder to write to, made if missing.
        context_length: longest input that the model was trained on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with quiet_transformers(), torch.no_grad():
        if has_prefix(model):
            _save_prefix(model, folder / PREFIX_FOLDER)
            model = model.get_base_model()
        elif hasattr(model, "merge_and_unload"):
            model = copy.deepcopy(model).merge_and_unload()
        _save_with_pad(model, tokenizer.pad_token_id, folder)
        tokenizer.model_max_length = context_length
        tokenizer.save_pretrained(folder)
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o644)  # safetensors writes files that only their owner can read


def _save_prefix(model: Any, folder: Path) -> None:
    settings = model.active_peft_config
    before = settings.base_model_name_or_path
    settings.base_model_name_or_path = ".."  # hides the path of the base model on this machine
    try:
        model.save_pretrained(folder, save_embedding_layers=False)
    finally:
        settings.base_model_name_or_path = before
    (folder / CARD).unlink(missing_ok=True)  # an empty form


def _save_with_pad(model: Any, pad: int, folder: Path) -> None:
    # The padding id of a causal model is set on saving only (see `loading`).
    before = model.config.pad_token_id
    model.config.pad_token_id = pad
    if model.can_generate():
        model.generation_config.pad_token_id = pad
    try:
        model.save_pretrained(folder)
    finally:
        model.config.pad_token_id = before
