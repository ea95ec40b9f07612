"""Linking of documents to rows of a table of people by the clues that both hold: an attack, for an estimate.

A shared word or date weighs ``-log`` of the chance that an unrelated row, or an unrelated document, holds it. The
larger of these two chances counts. For a long number, a code or a mail address it is the product of both. A row scores
the sum of its shared clues (I. P. Fellegi, A. B. Sunter, *A Theory for Record Linkage*, 1969, with one chance for all
rows). One row fits best if it scores more than every other row.

Chance can make a row fit best. So the same documents are compared with shuffled tables, whose cells are moved to other
rows within their column, and whose long numbers and mail addresses match nothing. The lead that a best row must exceed
to count as a link is that which at most 5 % of documents reach with shuffled tables. Other shuffled tables measure how
many do.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.miss_rate.clues import IDENTIFIER, clues_of

FALSE_LINKS: Final = 0.05
"""Share of documents that may reach the lead with shuffled tables."""

_DENSE: Final = 8
"""An array of all rows is faster than sorting if more than one row in this many has a shared clue."""

_SHUFFLES: Final = 20
"""Shuffled tables. One half sets the lead, and the other half measures it."""


class Best(NamedTuple):
    """The row that fits a document best: its number (-1 if no row fits best), and its lead over the second."""

    row: int
    lead: float


class People:
    """A table of people, as far as it shares clues with documents.

    Args:
        rows: cells of each row, all rows of the same length.
        documents: clues of each original document.
    """

    def __init__(self, rows: Iterable[Sequence[str]], documents: Sequence[Set[str]]) -> None:
        in_documents = Counter(clue for clues in documents for clue in clues)
        self._places: dict[str, list[tuple[int, NDArray[np.int64]]]] = {}
        self.num_columns = self.num_rows = 0
        places = {clue: array("q") for clue in in_documents}
        for cells in rows:
            self.num_columns = len(cells)
            for column, cell in enumerate(cells):
                for clue in clues_of(cell) & places.keys():
                    places[clue].append(self.num_rows * self.num_columns + column)
            self.num_rows += 1
        self._weights: dict[str, float] = {}
        for clue, found in places.items():
            if found:
                cell_rows, columns = np.divmod(np.frombuffer(found, dtype=np.int64), self.num_columns)
                self._places[clue] = [(int(c), cell_rows[columns == c]) for c in np.unique(columns)]
                chances = len(np.unique(cell_rows)) / self.num_rows, in_documents[clue] / len(documents)
                chance = math.prod(chances) if clue.startswith(IDENTIFIER) else max(chances)
                self._weights[clue] = -math.log(chance)

    def best(self, clues: Set[str], shuffle: NDArray[np.int64] | None = None) -> Best:
        """Returns the row that fits best.

        Args:
            clues: clues of a document.
            shuffle: ``(columns, rows)`` new row of each cell, for a shuffled table.
        """
        rows, weights = [], []
        for clue in sorted(clues & self._places.keys()):
            if not self._weights[clue] or (shuffle is not None and clue.startswith(IDENTIFIER)):
                continue
            found = [places if shuffle is None else shuffle[column, places] for column, places in self._places[clue]]
            rows.append(found[0] if len(found) == 1 else np.unique(np.concatenate(found)))
            weights.append(self._weights[clue])
        if not rows:
            return Best(-1, 0.0)
        if sum(map(len, rows)) * _DENSE > self.num_rows:
            scores = np.zeros(self.num_rows)
            for places, weight in zip(rows, weights, strict=True):
                scores[places] += weight
            distinct = None
        else:
            distinct, position = np.unique(np.concatenate(rows), return_inverse=True)
            scores = np.zeros(len(distinct))
            np.add.at(scores, position, np.repeat(weights, [len(places) for places in rows]))
        first = int(np.argmax(scores))
        score, scores[first] = float(scores[first]), 0.0
        lead = round(score - float(np.max(scores)), 9)
        return Best(first if distinct is None else int(distinct[first]), lead) if lead > 0 else Best(-1, 0.0)

    def least_lead(self, documents: Sequence[Set[str]], seed: int) -> tuple[float, float]:
        """Returns the lead that a link must exceed, and the share of documents that exceed it with shuffled tables."""
        leads = np.empty((_SHUFFLES, len(documents)))
        generator = np.random.default_rng(seed)
        for number in range(_SHUFFLES):
            shuffle = np.stack([generator.permutation(self.num_rows) for _ in range(self.num_columns)])
            leads[number] = [self.best(clues, shuffle).lead for clues in documents]
        setting, measuring = leads[::2].ravel(), leads[1::2].ravel()
        least = float(np.sort(setting)[math.ceil((1 - FALSE_LINKS) * setting.size) - 1])
        return least, float((measuring > least).mean())


def linked(
    people: People, documents: Sequence[Set[str]], truth: Sequence[Set[int]] | None, seed: int
) -> tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]:
    """Links documents to rows.

    Args:
        people: the table.
        documents: clues of each document.
        truth: numbers of the rows that each document belongs to. None if it is unknown.
        seed: seed of the shuffled tables.

    Returns:
        Figures: ``num_best`` (one row fits best), ``num_linked`` (its lead exceeds ``least_lead``), ``false_links``
        (share of documents with such a lead in shuffled tables), ``num_correct`` (the best row is a true one; None if
        unknown). And the number of each linked document, with its row and whether it is a true one.
    """
    least, false_links = people.least_lead(documents, seed)
    best = [people.best(clues) for clues in documents]
    correct = None if truth is None else [row in rows for (row, _), rows in zip(best, truth, strict=True)]
    figures: dict[str, Any] = {
        "num_best": sum(row >= 0 for row, _ in best),
        "num_linked": sum(lead > least for _, lead in best),
        "num_correct": None if correct is None else sum(correct),
        "least_lead": least,
        "false_links": false_links,
    }
    links: list[tuple[int, dict[str, Any]]] = [
        (number, {"row": row + 1, "is_correct": None if correct is None else correct[number]})
        for number, (row, lead) in enumerate(best)
        if lead > least
    ]
    return figures, links
