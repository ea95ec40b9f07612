"""A GPT-2 trained from scratch."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from pipelines.training.data.control import ControlTokens
from pipelines.training.models.shape import ModelShape


def build_model(shape: ModelShape, vocab_size: int, control: ControlTokens, seed: int) -> GPT2LMHeadModel:
    """Builds a GPT-2 with random weights that depend on the shape and the seed only.

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
    # The padding id is set on saving only. With it, the model would look for padding in each input; `collate` makes
    # that needless.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        return GPT2LMHeadModel(config)
