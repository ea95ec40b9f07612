"""Samples for the page of the full report: rows before and after redaction, and texts that the model writes.

They quote secrets, so only ``report.show_samples`` asks for them. `reticent forget` removes the page that holds them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pipelines.corpus.tables import SENTENCES
from pipelines.policies.tables import REDACTED
from pipelines.store.place.roots import Roots

_NUM_ROWS: Final = 3
_FEWEST_TOKENS: Final = 8
_MOST_CHARACTERS: Final = 120
_NUM_TEXTS: Final = 4
_MOST_TOKENS: Final = 30
TEMPERATURE: Final = 0.5
"""Divisor of the model's logits. It is below 1, because a small model draws unlikely tokens too often."""


class SampledFrom(NamedTuple):
    """The text and the model that samples come from.

    Attributes:
        partitions: keys of the sentences and of the redacted text of each partition.
        model: folder of the published model. It is missing if the method publishes none.
    """

    partitions: Sequence[tuple[str, str]]
    model: Path


def redacted_rows(roots: Roots, sampled: SampledFrom, seed: str) -> tuple[tuple[str, str], ...]:
    """Draws training rows with masks from one partition, and returns each as it was written and as it was redacted."""
    draw = random.Random(seed)  # noqa: S311
    sentences, redacted = draw.choice(sampled.partitions)
    columns = ["redacted_text", "num_tokens", "num_masked_tokens", "is_duplicate", "fold"]
    texts = roots.private_files("split", sentences).table(SENTENCES).rows(["text"])
    rows = roots.private_files("redact", redacted).table(REDACTED).rows(columns)
    found = [
        (before["text"], after["redacted_text"])
        for before, after in zip(texts, rows, strict=True)
        if after["fold"] == "train"
        and not after["is_duplicate"]
        and 0 < after["num_masked_tokens"] < after["num_tokens"]
        and after["num_tokens"] >= _FEWEST_TOKENS
        and len(before["text"]) <= _MOST_CHARACTERS
    ]
    return tuple(draw.sample(found, min(_NUM_ROWS, len(found))))


def written_texts(sampled: SampledFrom) -> tuple[str, ...]:
    """Returns texts that the model writes as turns of the speakers it knows. Empty if it continues no plain text."""
    if not sampled.model.is_dir():
        return ()
    from pipelines.training.encoded import Record
    from pipelines.training.trained import open_trained

    trained = open_trained(sampled.model, device="cpu")
    if trained.task != "language_modelling":
        return ()
    speakers: list[str | None] = [*sorted(trained.control.speakers)] or [None]
    prompts = [Record(texts=[""], speakers=[speaker]) for speaker in speakers[:_NUM_TEXTS]]
    num = -(-_NUM_TEXTS // len(prompts))
    texts = trained.generate(prompts, num=num, max_new_tokens=_MOST_TOKENS, temperature=TEMPERATURE, seed=0)
    return tuple(dict.fromkeys(text for each in texts for text in each if text))
