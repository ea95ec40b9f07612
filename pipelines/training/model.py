"""A GPT-2 trained from scratch: building it, its loss for each example, and saving it for ``transformers``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging as transformers_logging

from pipelines.training.engine.head import fused_losses
from pipelines.training.records import Batch
from pipelines.training.shape import ModelShape
from pipelines.training.tokenizer import ControlTokens


def build_model(shape: ModelShape, vocab_size: int, control: ControlTokens, seed: int) -> GPT2LMHeadModel:
    """A GPT-2 with random weights that depend on the shape and the seed only.

    Dropout is off: the loss of an example is then a function of the example and the weights.
    """
    config = GPT2Config(
        vocab_size=vocab_size,
        n_positions=shape.context_length,
        n_embd=shape.embedding_size,
        n_layer=shape.num_layers,
        n_head=shape.num_heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=control.bos,
        eos_token_id=control.eos,
    )
    # The padding id is set on saving only: with it, the model looks for padding in each input, which `collate` makes
    # needless.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        return GPT2LMHeadModel(config)


def token_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy at every position.

    Args:
        logits: (..., T, V).
        labels: (..., T) int64.

    Returns:
        (..., T) natural-log losses, targets or not.
    """
    flat = functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), reduction="none")
    return flat.reshape(labels.shape)


def example_losses(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """(B,) the mean cross-entropy over each example's own targets; 0 for an example without targets."""
    network: Any = model
    hidden = network.base_model(input_ids=batch.inputs, use_cache=False).last_hidden_state
    return fused_losses(hidden, network.get_output_embeddings(), batch.labels, batch.weights)


def save_model(model: GPT2LMHeadModel, tokenizer: Any, folder: Path) -> None:
    """Writes safetensors weights, config and tokenizer: a folder that the ``Auto`` classes load offline."""
    model.config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        model.to("cpu").save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for path in folder.iterdir():
            path.chmod(0o644)  # safetensors makes files that only their owner can read
    finally:
        if bars:
            transformers_logging.enable_progress_bar()
