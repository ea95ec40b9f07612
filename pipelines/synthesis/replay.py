"""Verbatim replay: synthetic rows that repeat a passage of the private text word by word.

A passage is an n-gram of words, in the form in which the gate compares text, held as a keyed digest (BLAKE2b, 64 bits):
what is in memory, 12 bytes a passage, tells nobody the text who lacks the store's secret. What counts is a passage that
stands in one document only: what several documents say, such as a greeting, a model may say without giving one of them
away. Private: figures here are counted on private text.

Two models that never saw the training text say what is to be expected. One is the model at its start weights, to the
same plan. The other costs nothing: held-out documents were not trained on either. If the split was drawn at random and
the model replays nothing that it read, training documents are among the replayed ones as often as held-out ones are, so
that their number is hypergeometric (Fisher's exact test, one-sided), however the rows hang together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from pipelines.attacks.rates import Rate
from pipelines.gate.strings import words_of

UInt64Array = npt.NDArray[np.uint64]
IntArray = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the private text: its document, whether it was trained on, and its words. Private."""

    document: str
    is_trained_on: bool
    text: str


class Passages:
    """The passages of a private text. Private.

    Attributes:
        num_documents: numbers of documents that are trained on, and held out.

    Args:
        lines: rows, those of a document one after the other.
        key: key of the digests.
        size: words of a passage.
        published: rows that are published as they were written.
    """

    def __init__(self, lines: Iterable[Line], key: bytes, size: int, published: Iterable[str] = ()) -> None:
        self._key, self._size = key, size
        digests: list[UInt64Array] = []
        owners: list[IntArray] = []
        trained: list[bool] = []
        for (_, is_trained_on), rows in groupby(lines, lambda line: (line.document, line.is_trained_on)):
            found = np.unique(np.concatenate([self.digests(row.text) for row in rows]))
            digests.append(found)
            owners.append(np.full(len(found), len(trained), dtype=np.int32))
            trained.append(is_trained_on)
        self._is_trained_on = np.array(trained, dtype=np.bool_)
        all_digests = np.concatenate([np.zeros(0, dtype=np.uint64), *digests])
        order = np.argsort(all_digests, kind="stable")
        self._digests = all_digests[order]
        self._owners = np.concatenate([np.zeros(0, dtype=np.int32), *owners])[order]
        differs = np.concatenate([[True], self._digests[1:] != self._digests[:-1], [True]])
        self._is_single = differs[:-1] & differs[1:] if len(self._digests) else np.zeros(0, dtype=np.bool_)
        open_digests = np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *map(self.digests, published)]))
        self._is_published = np.isin(self._digests, open_digests)
        self.num_documents = (int(self._is_trained_on.sum()), int((~self._is_trained_on).sum()))

    def digests(self, text: str) -> UInt64Array:
        """Returns the digests of a text's passages."""
        words = words_of(text)
        found = (
            hashlib.blake2b(" ".join(words[at : at + self._size]).encode(), digest_size=8, key=self._key).digest()
            for at in range(len(words) - self._size + 1)
        )
        return np.frombuffer(b"".join(found), dtype=np.uint64)

    def owners(self, text: str) -> tuple[IntArray, IntArray, bool]:
        """Returns the documents whose passages a text repeats.

        Returns:
            The documents that alone hold one of them; those of these whose passage stands in no published row; and
            whether any training document holds one at all.
        """
        digests = self.digests(text)
        if not len(self._digests) or not len(digests):
            return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), False
        at = np.minimum(np.searchsorted(self._digests, digests), len(self._digests) - 1)
        at = at[self._digests[at] == digests]
        last = np.searchsorted(self._digests, self._digests[at], side="right")
        any_trained = any(
            self._is_trained_on[self._owners[first:end]].any() for first, end in zip(at, last, strict=True)
        )
        single = at[self._is_single[at]]
        return (
            np.unique(self._owners[single]),
            np.unique(self._owners[single[~self._is_published[single]]]),
            any_trained,
        )

    def is_trained_on(self, documents: IntArray) -> npt.NDArray[np.bool_]:
        """Tells of each document if it was trained on."""
        found: npt.NDArray[np.bool_] = self._is_trained_on[documents]
        return found


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The passages that were replayed.

    Attributes:
        rows: rows with a passage of one training document only; rows are taken for independent.
        rows_unpublished: those of them with such a passage that stands in no published row.
        rows_of_any: rows with a passage of some training document, common ones included.
        documents, held_out_documents: replayed documents, of the training and of the held-out ones.
        p_value: probability that so many replayed documents are training ones, if the model replays none that it read.
    """

    rows: Rate
    rows_unpublished: Rate
    rows_of_any: Rate
    documents: Rate
    held_out_documents: Rate
    p_value: float

    def document(self) -> dict[str, Any]:
        """Returns a JSON document of counts."""
        rates = ("rows", "rows_unpublished", "rows_of_any", "documents", "held_out_documents")
        return {**{name: getattr(self, name).document() for name in rates}, "p_value": self.p_value}


def replayed(texts: Iterable[str], passages: Passages) -> Replay:
    """Counts replay in texts, which stream by. Intervals have a confidence of 95 %."""
    num_rows = num_single = num_unpublished = num_any = 0
    hit: set[int] = set()
    for text in texts:
        num_rows += 1
        owners, unpublished, any_trained = passages.owners(text)
        num_any += any_trained
        num_single += bool(passages.is_trained_on(owners).any())
        num_unpublished += bool(passages.is_trained_on(unpublished).any())
        hit.update(owners.tolist())
    of_hit = passages.is_trained_on(np.array(sorted(hit), dtype=np.int32))
    num_trained, num_held_out = passages.num_documents
    hits = int(of_hit.sum())
    return Replay(
        rows=Rate.of(num_single, num_rows, 0.95),
        rows_unpublished=Rate.of(num_unpublished, num_rows, 0.95),
        rows_of_any=Rate.of(num_any, num_rows, 0.95),
        documents=Rate.of(hits, num_trained, 0.95),
        held_out_documents=Rate.of(len(hit) - hits, num_held_out, 0.95),
        p_value=float(stats.hypergeom.sf(hits - 1, num_trained + num_held_out, num_trained, len(hit))),
    )


def lines_of(rows: Iterable[dict[str, Any]], trained_on: Sequence[str] = ("train",)) -> Iterator[Line]:
    """Yields lines of rows of a sentences table."""
    for row in rows:
        yield Line(document=row["doc_id"], is_trained_on=row["fold"] in trained_on, text=row["text"])
