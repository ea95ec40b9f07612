"""Continues prompts by beam search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pipelines.errors import ConfigError
from pipelines.quiet import quiet_transformers
from pipelines.training.data.control import ControlTokens


@dataclass(frozen=True, kw_only=True)
class BeamSearch:
    """How to generate.

    Attributes:
        num_beams: hypotheses that are kept; 1 is greedy.
        max_new_tokens: the longest continuation.
        length_penalty: exponent of the length that scores are divided by.
        no_repeat_ngram_size: n-grams of that size occur once at most; 0 allows all.
        batch_size: prompts at a time; no influence on what is generated but by rounding.
    """

    num_beams: int = 5
    max_new_tokens: int = 100
    length_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    batch_size: int = 8

    def __post_init__(self) -> None:
        if min(self.num_beams, self.max_new_tokens, self.batch_size) < 1:
            raise ConfigError("generation: num_beams, max_new_tokens and batch_size must be at least 1")


def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    control: ControlTokens,
    how: BeamSearch,
    progress: Callable[[int, int | None, str], None] | None = None,
) -> list[str]:
    """The text that follows each prompt, up to the end token. Control tokens are never generated.

    Args:
        model: a causal language model.
        tokenizer: its tokenizer, of ``transformers``.
        prompts: token ids, each at least one long; with ``max_new_tokens`` they must fit into the context.
        control: the control tokens.
        how: the search.
        progress: told how many prompts are done.
    """
    device = next(model.parameters()).device
    texts: list[str] = [""] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))  # less padding
    with torch.no_grad(), quiet_transformers():
        for start in range(0, len(order), how.batch_size):
            rows = order[start : start + how.batch_size]
            longest = max(len(prompts[at]) for at in rows)
            ids = torch.full((len(rows), longest), control.pad)  # on the left: a continuation follows its prompt
            mask = torch.zeros((len(rows), longest), dtype=torch.int64)
            for line, at in enumerate(rows):
                ids[line, longest - len(prompts[at]) :] = torch.tensor(list(prompts[at]))
                mask[line, longest - len(prompts[at]) :] = 1
            found = model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                do_sample=False,
                num_beams=how.num_beams,
                max_new_tokens=how.max_new_tokens,
                length_penalty=how.length_penalty,
                no_repeat_ngram_size=how.no_repeat_ngram_size,
                eos_token_id=control.eos,
                pad_token_id=control.pad,
                suppress_tokens=sorted({*control.never_predicted.tolist(), *(control.ends - {control.eos})}) or None,
            )
            for line, at in enumerate(rows):
                texts[at] = tokenizer.decode(_until_end(found[line, longest:].tolist(), control.eos)).strip()
            if progress is not None:
                progress(start + len(rows), len(order), "generating")
    return texts


def _until_end(ids: list[int], end: int) -> list[int]:
    return ids[: ids.index(end)] if end in ids else ids
