"""Continues prompts, by beam search or by sampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from pipelines.errors import ConfigError
from pipelines.quiet import quiet_transformers
from pipelines.training.data.control import ControlTokens


@dataclass(frozen=True, kw_only=True)
class BeamSearch:
    """Settings of a beam search.

    Attributes:
        num_beams: number of hypotheses that are kept. 1 is greedy.
        max_new_tokens: longest continuation, in tokens.
        length_penalty: exponent of the length that scores are divided by.
        no_repeat_ngram_size: size of n-grams that occur at most once. 0 allows all.
        batch_size: number of prompts at a time. It changes generated text by rounding only.
    """

    num_beams: int = 5
    max_new_tokens: int = 100
    length_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    batch_size: int = 8

    def __post_init__(self) -> None:
        if min(self.num_beams, self.max_new_tokens, self.batch_size) < 1:
            raise ConfigError("generation: num_beams, max_new_tokens and batch_size must be at least 1")

    @property
    def num(self) -> int:
        """Number of texts for each prompt."""
        return 1

    def options(self) -> dict[str, Any]:
        """Returns the arguments of ``generate`` of ``transformers``."""
        return {
            "do_sample": False,
            "num_beams": self.num_beams,
            "length_penalty": self.length_penalty,
            "no_repeat_ngram_size": self.no_repeat_ngram_size,
        }


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Settings of drawing texts.

    Attributes:
        num: number of texts for each prompt.
        temperature: divisor of the logits, above 0.
        top_k: number of likeliest tokens to draw among. 0 draws among all.
        top_p: total probability of the likeliest tokens to draw among. 1 draws among all (Holtzman et al. 2020).
        max_new_tokens: longest continuation, in tokens.
        batch_size: number of texts at a time.
    """

    num: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 64
    batch_size: int = 64

    def __post_init__(self) -> None:
        if min(self.num, self.max_new_tokens, self.batch_size) < 1 or self.top_k < 0:
            raise ConfigError("generation: num, max_new_tokens and batch_size must be at least 1, and top_k at least 0")
        if not (0 < self.temperature < math.inf and 0 < self.top_p <= 1):
            raise ConfigError(
                "generation: temperature must be a finite number above 0, and top_p above 0 and at most 1"
            )

    def options(self) -> dict[str, Any]:
        """Returns the arguments of ``generate`` of ``transformers``."""
        return {
            "do_sample": True,
            "num_return_sequences": self.num,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
        }


def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    control: ControlTokens,
    how: BeamSearch,
    progress: Callable[[int, int | None, str], None] | None = None,
) -> list[str]:
    """Returns the text that follows each prompt (see `generate_each`)."""
    return [texts[0] for texts in generate_each(model, tokenizer, prompts, control, how, progress)]


def generate_each(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    control: ControlTokens,
    how: BeamSearch | Sampling,
    progress: Callable[[int, int | None, str], None] | None = None,
) -> list[list[str]]:
    """Returns texts that follow each prompt, up to the end token. Control tokens are never generated.

    Args:
        model: causal language model.
        tokenizer: tokenizer of the model, of ``transformers``.
        prompts: token ids of prompts, each at least one long. With ``max_new_tokens`` they must fit into the context.
        control: control tokens.
        how: settings of the search, or of the draw, which uses torch's own generator.
        progress: callback that receives the number of finished prompts.
    """
    device = next(model.parameters()).device
    texts: list[list[str]] = [[] for _ in prompts]
    at_once = max(1, how.batch_size // how.num)
    order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))  # less padding
    with torch.no_grad(), quiet_transformers():
        for start in range(0, len(order), at_once):
            rows = order[start : start + at_once]
            ids, mask = padded_on_the_left([prompts[at] for at in rows], control.pad)
            written = model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                max_new_tokens=how.max_new_tokens,
                eos_token_id=control.eos,
                pad_token_id=control.pad,
                suppress_tokens=never_written(control) or None,
                **how.options(),
            )
            for line, continuation in enumerate(written[:, ids.shape[1] :].tolist()):
                texts[rows[line // how.num]].append(text_of(tokenizer, continuation, control.eos))
            if progress is not None:
                progress(start + len(rows), len(order), "generating")
    return texts


def padded_on_the_left(prompts: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (B, T) ids and (B, T) 1 for each that is no padding, so that a continuation follows its prompt."""
    rows = [torch.tensor(list(prompt)) for prompt in prompts]
    masks = [torch.ones_like(row) for row in rows]
    return pad_sequence(rows, True, pad, "left"), pad_sequence(masks, True, 0, "left")


def never_written(control: ControlTokens) -> list[int]:
    """Returns the ids of control tokens that no text may hold: all except the end."""
    return sorted({*control.never_predicted.tolist(), *(control.ends - {control.eos})})


def text_of(tokenizer: Any, ids: list[int], end: int) -> str:
    """Decodes ids up to the end token, and strips white space."""
    return str(tokenizer.decode(ids[: ids.index(end)] if end in ids else ids).strip())
