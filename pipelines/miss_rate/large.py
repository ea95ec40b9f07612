"""Large sentences, which may hold many secrets each, and the part of the sample that is drawn among them.

A list of thirty names is one sentence. If 1 % of the sentences are such lists, a simple random sample of 30 sentences
holds none in 74 % of all draws, and no bound from such a sample can cover the secrets in the lists. A list is long, or
full of capitals and digits, and both are known for every sentence before a review. So in addition to its replicates the
sample takes more sentences among the large ones, and estimates weight each sentence by 1 / its inclusion probability.

The size of a sentence is its number of tokens plus four times its number of words with a capital, a digit or an @. A
sentence is large if its size is over twice the mean. Large sentences are sorted into classes by size. Each class has
its own simple random sample, and shares are proportional to the sums of the squares of sizes in the classes.

If the large part of a sample was not reviewed, `Unseen` bounds the misses in large sentences by their tokens.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines import intervals
from pipelines.tables import Table

LARGE_STREAM: Final = 1_000_001
"""Random stream of the large part. Replicates have the streams from 0, and the screening set the one before this."""

COLUMNS: Final = ("token_starts", "text")
_MARKED_WORDS: Final = r"[^\s,;:|/]*[\p{Lu}\p{N}@][^\s,;:|/]*"
_PER_MARKED_WORD: Final = 4
_FROM: Final = 2.0  # times the mean
_STEP: Final = 1.5
_NUM_CLASSES: Final = 12
_FIGURES: Final = {
    "above": "above",
    "num_population_sentences": "num_population",
    "num_population_tokens": "num_tokens",
    "most_tokens": "most_tokens",
    "num_sentences": "size",
}
"""The figures of a class in the sample stage, with the attributes of `LargeClass`."""


def sizes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Returns the size of each sentence of a batch with the columns `COLUMNS`."""
    tokens = pc.list_value_length(batch.column("token_starts")).to_numpy(zero_copy_only=False)
    words = pc.count_substring_regex(batch.column("text"), _MARKED_WORDS).to_numpy(zero_copy_only=False)
    found: NDArray[np.int64] = tokens.astype(np.int64) + _PER_MARKED_WORD * words.astype(np.int64)
    return found


def size_of(row: Mapping[str, Any]) -> int:
    """Returns the size of one row, as `sizes`."""
    return len(row["token_starts"]) + _PER_MARKED_WORD * int(
        pc.count_substring_regex(pa.scalar(row["text"]), _MARKED_WORDS).as_py()
    )


@dataclass(frozen=True, kw_only=True)
class LargeClass:
    """Training sentences of similar size, all of them large.

    Attributes:
        above: size that all of them exceed.
        num_population: number of training sentences in it.
        num_tokens: number of tokens of all of them.
        most_tokens: number of tokens of the longest.
        squares: sum of the squares of their sizes.
        size: number of sentences drawn from it, in addition to those of the replicates.
    """

    above: float
    num_population: int
    num_tokens: int
    most_tokens: int
    squares: int
    size: int = 0


@dataclass(frozen=True)
class Large:
    """The classes of large sentences, in ascending order of size; empty if no sentence is large."""

    classes: tuple[LargeClass, ...] = ()

    @property
    def num_drawn(self) -> int:
        """The number of sentences drawn from all classes."""
        return sum(c.size for c in self.classes)

    @property
    def num_population(self) -> int:
        """The number of large training sentences."""
        return sum(c.num_population for c in self.classes)

    def class_of(self, size: int) -> int:
        """Returns the number of a sentence's class, by its size; -1 if it is not large."""
        return bisect_left([c.above for c in self.classes], size) - 1

    def classes_of(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Returns `class_of` for a batch with the columns `COLUMNS`."""
        found = np.searchsorted([c.above for c in self.classes], sizes(batch), side="left") - 1
        return found.astype(np.int64)

    def chance(self, size: int) -> float:
        """Returns the probability that the large part holds a sentence, by its size."""
        number = self.class_of(size)
        return 0.0 if number < 0 else self.classes[number].size / self.classes[number].num_population

    def draw(self, num_sentences: int) -> Large:
        """Returns the classes with this many sentences to draw, or with all of their sentences if they hold fewer."""
        wanted = min(num_sentences, self.num_population)
        total = sum(c.squares for c in self.classes)
        fair = [wanted * c.squares / total for c in self.classes]
        drawn = [min(int(share), c.num_population) for share, c in zip(fair, self.classes, strict=True)]
        while sum(drawn) < wanted:
            open_classes = [i for i, c in enumerate(self.classes) if drawn[i] < c.num_population]
            drawn[max(open_classes, key=lambda i: (fair[i] - drawn[i], i))] += 1
        return Large(tuple(dataclasses.replace(c, size=n) for c, n in zip(self.classes, drawn, strict=True)))

    def figures(self) -> list[dict[str, Any]]:
        """Returns the classes as figures of the sample stage."""
        return [{figure: getattr(c, name) for figure, name in _FIGURES.items()} for c in self.classes]

    @classmethod
    def of_figures(cls, rows: Sequence[Mapping[str, Any]]) -> Large:
        """Reads classes written by `figures`."""
        classes = ({name: row[figure] for figure, name in _FIGURES.items()} for row in rows)
        return cls(tuple(LargeClass(squares=0, **values) for values in classes))


def find_large(tables: Sequence[Table], fold: str) -> Large:
    """Finds the classes of the large sentences of one fold.

    Memory grows with the number of different sizes, not with the corpus.
    """
    found: dict[int, list[int]] = {}
    for table in tables:
        for batch in table.batches([*COLUMNS, "fold"]):
            kept = batch.filter(pc.equal(batch.column("fold"), fold))
            tokens = pc.list_value_length(kept.column("token_starts")).to_numpy(zero_copy_only=False)
            _count(found, sizes(kept), tokens)
    return _classes(found)


def classes_of_sizes(sizes: NDArray[np.int64], tokens: NDArray[np.int64]) -> Large:
    """Returns the classes of sentences with these sizes and numbers of tokens."""
    found: dict[int, list[int]] = {}
    _count(found, sizes, tokens)
    return _classes(found)


def _count(found: dict[int, list[int]], sizes: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
    """Adds the numbers of sentences, of their tokens, and of the most tokens of one, for each size, to ``found``."""
    different, which = np.unique(sizes, return_inverse=True)
    number = np.bincount(which, minlength=len(different))
    most, total = np.zeros((2, len(different)), dtype=np.int64)
    np.maximum.at(most, which, tokens)
    np.add.at(total, which, tokens)
    for size, n, t, m in zip(different.tolist(), number.tolist(), total.tolist(), most.tolist(), strict=True):
        row = found.setdefault(size, [0, 0, 0])
        row[0], row[1], row[2] = row[0] + n, row[1] + t, max(row[2], m)


def _classes(found: dict[int, list[int]]) -> Large:
    num_sentences = sum(row[0] for row in found.values())
    if not num_sentences:
        return Large()
    mean = sum(size * row[0] for size, row in found.items()) / num_sentences
    borders = [_FROM * mean * _STEP**i for i in range(_NUM_CLASSES)]
    classes = []
    for border, end in zip(borders, [*borders[1:], float("inf")], strict=True):
        here = {size: row for size, row in found.items() if border < size <= end}
        if here:
            classes.append(
                LargeClass(
                    above=border,
                    num_population=sum(row[0] for row in here.values()),
                    num_tokens=sum(row[1] for row in here.values()),
                    most_tokens=max(row[2] for row in here.values()),
                    squares=sum(row[0] * size**2 for size, row in here.items()),
                )
            )
    return Large(tuple(classes))


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """Possible misses in large sentences, if the large part of the sample was not reviewed.

    The limit is one secret a token. A sentence of the replicates is large or not, and holds a miss or not, so the share
    of the large sentences with a miss has an exact binomial bound. All tokens of that many large sentences, the longest
    first, then count as missed secrets. This holds for any spread of secrets over sentences.

    Attributes:
        large: classes of large sentences.
        num_population: number of training sentences.
        num_seen: number of reviewed large sentences.
        num_missed, num_escaped: numbers of those with a missed secret, and with an escaped one.
        num_sentences: number of reviewed sentences, weighted.
    """

    large: Large
    num_population: int
    num_seen: float
    num_missed: float
    num_escaped: float
    num_sentences: float

    def most(self, kind: str, confidence: float) -> float:
        """Returns the most missed or escaped secrets in all large sentences."""
        hits = self.num_missed if kind == "missed" else self.num_escaped
        left = intervals.clopper_pearson_upper(hits, self.num_seen, confidence) * self.large.num_population
        found = 0.0
        for c in reversed(self.large.classes):
            found += min(float(c.num_tokens), min(left, c.num_population) * c.most_tokens)
            left = max(0.0, left - c.num_population)
        return found

    def added(self, kind: str, num_units: float, confidence: float) -> float:
        """Returns the largest increase of a rate over that of the other sentences.

        Args:
            kind: ``missed`` or ``escaped``.
            num_units: number of secrets in the reviewed sentences, weighted.
            confidence: confidence of the bound.
        """
        if not self.large.num_population:
            return 0.0
        if not num_units:
            return 1.0
        return self.most(kind, confidence) * self.num_sentences / (self.num_population * num_units)
