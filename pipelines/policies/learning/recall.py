"""What a detector finds on texts that were held out, and thresholds for a wanted recall."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipelines.policies.detectors.token_encoder import EncoderReader
from pipelines.policies.learning.examples import Spans
from pipelines.policies.protocol import Sentence

LEAST: Final = 0.01
MOST: Final = 0.99
"""Thresholds stay between these."""

USUAL: Final = 0.2
"""Threshold of a label that the held-out texts do not have."""

Judged = Sequence[tuple[Sentence, Spans]]
"""Held-out sentences and their spans, in tokens."""


def thresholds_for(reader: EncoderReader, held_out: Judged, recall: float) -> dict[str, float]:
    """For every label, the highest threshold at which so many of its held-out tokens are found.

    Args:
        reader: the model; its own thresholds do not count.
        held_out: texts that it was not trained on.
        recall: the wanted share.
    """
    scores: dict[str, list[float]] = {label: [] for label in reader.thresholds}
    for sentence, spans in held_out:
        found, _ = reader.scores(sentence)
        for start, end, label in spans:
            if label in scores:
                scores[label] += found[label][start:end]
    made = {}
    for label, values in scores.items():
        values.sort(reverse=True)
        needed = math.ceil(recall * len(values) - 1e-9)
        made[label] = min(MOST, max(LEAST, values[needed - 1])) if needed else USUAL
    return made


def measured(finds: Sequence[Sequence[tuple[int, int, str, float]]], held_out: Judged) -> dict[str, Any]:
    """Token recall by label and precision, over all labels: what is masked and is of any label counts as right.

    Args:
        finds: of the detector, for every held-out sentence.
        held_out: those sentences and their spans.
    """
    of_label: dict[str, list[int]] = {}
    right = masked = total = tokens = found_any = 0
    for runs, (sentence, spans) in zip(finds, held_out, strict=True):
        mask = {token for start, end, *_ in runs for token in range(start, end)}
        gold: set[int] = set()
        for start, end, label in spans:
            counts = of_label.setdefault(label, [0, 0])
            counts[0] += len(mask & set(range(start, end)))
            counts[1] += end - start
            gold |= set(range(start, end))
        right, masked, total = right + len(mask & gold), masked + len(mask), total + len(gold)
        found_any, tokens = found_any + len(mask & gold), tokens + sentence.num_tokens
    return {
        "num_texts": len(held_out),
        "num_tokens": tokens,
        "token_recall": _share(found_any, total),
        "token_precision": _share(right, masked),
        "masked_share": _share(masked, tokens),
        "recall_by_label": {label: _share(*counts) for label, counts in sorted(of_label.items())},
        "tokens_by_label": {label: counts[1] for label, counts in sorted(of_label.items())},
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def by_label(figures: Mapping[str, Any]) -> list[tuple[str, float | None, int]]:
    """Label, recall and number of held-out tokens, for tables."""
    return [(label, recall, figures["tokens_by_label"][label]) for label, recall in figures["recall_by_label"].items()]
