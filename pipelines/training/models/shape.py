"""Sizes of a model trained from scratch, and presets of them. Imports no torch, so that settings can use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from pipelines.errors import ConfigError

MIN_CONTEXT_LENGTH: Final = 8


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Sizes of a decoder-only transformer.

    Attributes:
        num_layers: number of transformer blocks.
        num_heads: number of attention heads in each block. It divides ``embedding_size``.
        embedding_size: width of the residual stream.
        context_length: longest record, in tokens, with its control tokens.

    Raises:
        ConfigError: the sizes contradict each other.
    """

    num_layers: int
    num_heads: int
    embedding_size: int
    context_length: int

    def __post_init__(self) -> None:
        if min(self.num_layers, self.num_heads, self.embedding_size) < 1:
            raise ConfigError("train: num_layers, num_heads and embedding_size must be at least 1")
        if self.embedding_size % self.num_heads:
            raise ConfigError(
                f"train: embedding_size ({self.embedding_size}) must be a multiple of num_heads ({self.num_heads})"
            )
        if self.context_length < MIN_CONTEXT_LENGTH:
            raise ConfigError(
                f"train: context_length is {self.context_length} tokens. A record needs at least {MIN_CONTEXT_LENGTH} "
                "(begin, speaker, text, end)"
            )


RecurrentKind = Literal["lstm", "gru"]
RECURRENT: Final[tuple[str, ...]] = get_args(RecurrentKind)


def num_states(kind: str) -> int:
    """Returns the number of states that a recurrent layer passes on: 2 of an LSTM, 1 of a GRU.

    Other networks have none. For them it is 2 as well, which no accountant reads and which would overcount.
    """
    return 1 if kind == "gru" else 2


_TINY: Final = ModelShape(num_layers=2, num_heads=4, embedding_size=128, context_length=128)
PRESETS: Final[Mapping[str, ModelShape]] = {
    "scratch": _TINY,
    "tiny": _TINY,
    "mini": ModelShape(num_layers=4, num_heads=4, embedding_size=256, context_length=256),
    "distilgpt2": ModelShape(num_layers=6, num_heads=12, embedding_size=768, context_length=1024),
    **dict.fromkeys(RECURRENT, ModelShape(num_layers=1, num_heads=1, embedding_size=200, context_length=128)),
}


def resolve_shape(preset: str, **sizes: int | None) -> ModelShape:
    """Returns the preset's sizes, each replaced by the explicit size of that name if there is one.

    Raises:
        ConfigError: the preset is unknown, or the sizes contradict each other.
    """
    if preset not in PRESETS:
        raise ConfigError(f"train.model: no model is named {preset!r}. Choose one of {', '.join(PRESETS)}")
    return replace(PRESETS[preset], **{name: size for name, size in sizes.items() if size is not None})
