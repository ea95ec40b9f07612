"""Measures a detector on held-out texts, and sets thresholds for a wanted recall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pipelines.policies.learning.examples import Spans
from pipelines.policies.protocol import Sentence

if TYPE_CHECKING:
    from pipelines.policies.detectors.token_encoder import EncoderReader

MIN_THRESHOLD: Final = 0.01
MAX_THRESHOLD: Final = 0.99

UNSEEN_THRESHOLD: Final = 0.2
"""Threshold of a label that the held-out texts do not have."""

HeldOut = Sequence[tuple[Sentence, Spans]]
"""Held-out sentences and their spans, in tokens."""


def choose_thresholds(reader: EncoderReader, held_out: HeldOut, recall: float) -> dict[str, float]:
    """Returns for every label the highest threshold at which the model finds a share of the label's held-out tokens.

    Args:
        reader: model whose probabilities count. Its own thresholds do not count.
        held_out: texts that the model was not trained on.
        recall: wanted share of the tokens.
    """
    scores: dict[str, list[float]] = {label: [] for label in reader.thresholds}
    for sentence, spans in held_out:
        probabilities, _ = reader.scores(sentence)
        for start, end, label in spans:
            if label in scores:
                scores[label] += probabilities[label][start:end]
    thresholds = {}
    for label, values in scores.items():
        values.sort(reverse=True)
        needed = math.ceil(recall * len(values) - 1e-9)
        highest = values[needed - 1] if needed else UNSEEN_THRESHOLD
        thresholds[label] = min(MAX_THRESHOLD, max(MIN_THRESHOLD, highest))
    return thresholds


def measure_finds(finds: Sequence[Sequence[tuple[int, int, str, float]]], held_out: HeldOut) -> dict[str, Any]:
    """Returns token recall by label, and recall and precision over all labels.

    A masked token counts as correct if it has any label.

    Args:
        finds: finds of the detector in every held-out sentence.
        held_out: held-out sentences and their spans.
    """
    of_label: dict[str, list[int]] = {}
    correct = masked = total = tokens = 0
    for runs, (sentence, spans) in zip(finds, held_out, strict=True):
        mask = {token for start, end, *_ in runs for token in range(start, end)}
        gold: set[int] = set()
        for start, end, label in spans:
            counts = of_label.setdefault(label, [0, 0])
            counts[0] += len(mask & set(range(start, end)))
            counts[1] += end - start
            gold |= set(range(start, end))
        correct, masked, total = correct + len(mask & gold), masked + len(mask), total + len(gold)
        tokens += sentence.num_tokens
    return {
        "num_texts": len(held_out),
        "num_tokens": tokens,
        "token_recall": _share(correct, total),
        "token_precision": _share(correct, masked),
        "masked_share": _share(masked, tokens),
        "recall_by_label": {label: _share(*counts) for label, counts in sorted(of_label.items())},
        "tokens_by_label": {label: counts[1] for label, counts in sorted(of_label.items())},
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
