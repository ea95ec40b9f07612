"""Masked strings that stand in synthetic rows: what the gate would find there. Private: counted on private text.

The gate does not search the table before the stage `synthesize` publishes it. A find is no proof of a leak:
a model that never saw the text writes common names, too. So the same is counted in what it writes at its start weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.attacks.rates import Rate
from pipelines.gate.index import indexes_to_search
from pipelines.gate.strings import words_of
from pipelines.tables import Table


@dataclass(frozen=True, kw_only=True)
class Finds:
    """The masked strings that stand in some texts.

    Attributes:
        rows: rows with a find.
        num_by_label: rows with a find of each label.
        num_distinct: distinct strings that were found.
    """

    rows: Rate
    num_by_label: dict[str, int]
    num_distinct: int

    def document(self) -> dict[str, Any]:
        """Returns a JSON document of labels and counts."""
        return {
            "rows": self.rows.document(),
            "num_by_label": dict(sorted(self.num_by_label.items())),
            "num_distinct": self.num_distinct,
        }


def finds_in(
    texts: Callable[[], Iterable[str]],
    index: Table,
    *,
    case_sensitive: bool,
    confidence: float = 0.95,
    tell: Callable[[int, str, str], None] | None = None,
) -> Finds:
    """Looks for the strings of the gate's index in texts.

    Args:
        texts: function that gives the texts, anew each time.
        index: the table that the gate wrote.
        case_sensitive: flag that case counts, as when the index was made.
        confidence: confidence of the interval.
        tell: function that takes the number of the text, the string and its label. Private.
    """
    hit: set[int] = set()
    by_label: Counter[tuple[int, str]] = Counter()
    distinct: set[str] = set()
    num = 0

    def words() -> Iterator[list[str]]:
        return (words_of(text, case_sensitive=case_sensitive) for text in texts())

    for strings, _ in indexes_to_search(index, words):
        num = 0
        for number, said in enumerate(words()):
            num += 1
            for string in sorted(strings.find(said)):
                hit.add(number)
                distinct.add(string)
                by_label[number, strings.labels[string]] += 1
                if tell is not None:
                    tell(number, string, strings.labels[string])
    return Finds(
        rows=Rate.of(len(hit), num, confidence),
        num_by_label=dict(Counter(label for _, label in by_label)),
        num_distinct=len(distinct),
    )
