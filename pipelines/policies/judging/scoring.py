"""Scores policies on labelled text: token and span recall, precision and F2, with intervals.

Recall is by gold label, whatever label the policy gave, because a masked name is masked. Precision is by the policy's
label: the share of its masks under that label that have any gold label. A span counts as found if all its tokens are
masked. F2 weighs recall four times as much as precision. Spans of one text tend to be missed together, so the intervals
treat texts as clusters. The interval of F2 combines the ends of the other two intervals, which is wide enough because
F2 grows with both. The interval of the share of missed texts is Clopper and Pearson's, for independent texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pipelines.intervals import ClusteredCounts, clopper_pearson, korn_graubard
from pipelines.policies.judging.texts import JudgedText
from pipelines.policies.protocol import Sentence
from pipelines.policies.redact import masked_runs, token_mask

ALL: Final = "ALL"


@dataclass
class _Clusters:
    """The hits and units of one measure, by text."""

    hits: list[int] = field(default_factory=list)
    units: list[int] = field(default_factory=list)

    def add(self, hits: int, units: int) -> None:
        if units:
            self.hits.append(hits)
            self.units.append(units)

    def rate(self, confidence: float) -> dict[str, Any]:
        """Returns the value and its interval. They are None if nothing was counted."""
        hits, units = sum(self.hits), sum(self.units)
        if not units:
            return {"value": None, "low": None, "high": None, "num_hits": 0, "num_units": 0}
        low, high = korn_graubard(ClusteredCounts.of(self.hits, self.units), confidence)
        return {"value": hits / units, "low": low, "high": high, "num_hits": hits, "num_units": units}


class Scores:
    """The scores of policies, added up text by text.

    Args:
        confidence: two-sided confidence of every interval.
    """

    def __init__(self, confidence: float = 0.95) -> None:
        self._confidence = confidence
        self._measures: dict[tuple[str, str], _Clusters] = {}
        self._missed: Counter[str] = Counter()
        self._missed_tokens: Counter[str] = Counter()
        self._num_texts = self._num_tokens = self._num_masked = self._num_gold = 0
        self._num_failed = 0
        self._untouched = self._bearing = self._bearing_untouched = 0

    def add(self, judged: JudgedText, gold: Iterable[tuple[int, int, str]]) -> None:
        """Adds one text.

        Args:
            judged: finds of the policies.
            gold: character spans ``(start, end, label)`` that should be masked.
        """
        num_tokens = len(judged.starts)
        sentence = Sentence(judged.text, judged.starts, judged.ends)
        mask = judged.mask()
        spans = [(tokens, label) for start, end, label in gold if (tokens := sentence.widen(start, end)) is not None]
        by_label: dict[str, list[tuple[int, int]]] = {}
        for tokens, label in spans:
            by_label.setdefault(label, []).append(tokens)
        all_ranges = [tokens for tokens, _ in spans]
        is_gold = token_mask(num_tokens, all_ranges)
        for label, ranges in [*by_label.items(), (ALL, all_ranges)]:
            labelled = token_mask(num_tokens, ranges)
            num_found = sum(all(mask[first:last]) for first, last in ranges)
            num_hits = sum(a & b for a, b in zip(labelled, mask, strict=True))
            self._add(label, "token_recall", num_hits, sum(labelled))
            self._add(label, "span_recall", num_found, len(ranges))
            if label != ALL:
                self._missed[label] += len(ranges) - num_found
                self._missed_tokens[label] += sum(labelled) - num_hits
        masks = {ALL: mask}
        for label in {span.label for span in judged.spans}:
            masks[label] = token_mask(num_tokens, [span for span in judged.spans if span.label == label])
        for label, masked in masks.items():
            self._add(label, "token_precision", sum(a & b for a, b in zip(masked, is_gold, strict=True)), sum(masked))
            runs = masked_runs(judged.text, judged.starts, judged.ends, masked)
            self._add(label, "span_precision", sum(any(is_gold[a:b]) for a, b in runs), len(runs))
        self._num_texts += 1
        self._num_tokens += num_tokens
        self._num_masked += sum(mask)
        self._num_gold += sum(is_gold)
        self._num_failed += judged.failed_closed
        is_untouched = not any(mask)
        self._untouched += is_untouched
        self._bearing += bool(spans)
        self._bearing_untouched += is_untouched and bool(spans)

    def _add(self, label: str, measure: str, hits: int, units: int) -> None:
        self._measures.setdefault((label, measure), _Clusters()).add(hits, units)

    def document(self) -> dict[str, Any]:
        """Returns all figures as JSON values, without text."""
        labels = sorted({label for label, _ in self._measures} - {ALL})
        low, high = clopper_pearson(self._bearing_untouched, self._bearing, self._confidence)
        missed = [
            {
                "label": label,
                "num_missed_spans": count,
                "num_missed_tokens": self._missed_tokens[label],
                "share_of_all_missed_spans": count / self._missed.total(),
            }
            for label, count in sorted(self._missed.items(), key=lambda item: (-item[1], item[0]))
            if count
        ]
        return {
            "num_texts": self._num_texts,
            "num_tokens": self._num_tokens,
            "num_failed_closed": self._num_failed,
            "coverage": self._num_masked / self._num_tokens if self._num_tokens else None,
            "gold_coverage": self._num_gold / self._num_tokens if self._num_tokens else None,
            "confidence": self._confidence,
            "overall": self._row(ALL),
            "by_label": {label: self._row(label) for label in labels},
            "most_missed": missed,
            # The texts that a conservative policy would leave public.
            "texts": {
                "share_without_a_find": self._untouched / self._num_texts if self._num_texts else None,
                "num_bearing_a_secret": self._bearing,
                "num_bearing_a_secret_without_a_find": self._bearing_untouched,
                "missed": self._bearing_untouched / self._bearing if self._bearing else None,
                "missed_low": low if self._bearing else None,
                "missed_high": high if self._bearing else None,
            },
        }

    def _row(self, label: str) -> dict[str, Any]:
        row = {
            measure: self._measures.get((label, measure), _Clusters()).rate(self._confidence)
            for measure in ("token_recall", "token_precision", "span_recall", "span_precision")
        }
        for unit in ("token", "span"):
            recall, precision = row[f"{unit}_recall"], row[f"{unit}_precision"]
            row[f"{unit}_f2"] = {end: f2(precision[end], recall[end]) for end in ("value", "low", "high")}
        return row


def f2(precision: float | None, recall: float | None) -> float | None:
    """Returns 5PR / (4P + R), the F measure that treats recall as twice as important. None if either is unknown."""
    if precision is None or recall is None:
        return None
    return 5 * precision * recall / (4 * precision + recall) if precision + recall > 0 else 0.0
