"""Searching the rows that are about to be public, in bounded memory."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.artifacts import Target
from pipelines.corpus.speakers import MADE
from pipelines.errors import PrivacyGateError
from pipelines.gate.strings import Choice, StringIndex, words_of
from pipelines.gate.tables import GATE_HITS
from pipelines.policies.sharding import is_private
from pipelines.tables import Table, side_by_side

TAGS: Final = ("speaker", "domain", "label")
"""The columns of a public row that quote the corpus, beside its text; other rows have the same, so none can be held."""
_APART: Final = "\n"
"""No word, so that nothing is found across it."""
_FLAGS: Final = ("num_masked_tokens", "is_duplicate", "failed_closed", "flagged_by_conservative", "fold")
_MAX_HITS: Final = 100_000


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A masked string that stands unmasked in what is about to be published, as in `GATE_HITS`. Private."""

    file: str
    string: str
    label: str
    text: str
    doc_id: str | None = None
    sentence_index: int | None = None
    masked_doc_id: str | None = None
    masked_sentence_index: int | None = None


@dataclass
class Hits:
    """Collects hits: all are counted, the first hundred thousand are kept to be looked at."""

    kept: list[Hit] = field(default_factory=list)
    by_label: Counter[str] = field(default_factory=Counter)

    def add(self, hit: Hit) -> None:
        """Counts, and keeps, a hit."""
        self.by_label[hit.label] += 1
        if len(self.kept) < _MAX_HITS:
            self.kept.append(hit)

    def without(self, strings: Set[str]) -> Hits:
        """Returns the hits without those of some strings."""
        left = Hits()
        for hit in self.kept:
            if hit.string not in strings:
                left.add(hit)
        return left

    def refuse(self, what: str, failures: Target, why: str = "") -> PrivacyGateError:
        """Writes the kept hits to a private table ``hits``, and makes the error that tells counts only.

        Args:
            what: words for what is not published because of them.
            failures: folder that the table goes to.
            why: words for where they stand.
        """
        with failures.table(GATE_HITS, "hits") as writer:
            for hit in self.kept:
                writer.append(**vars(hit))
        counts = ", ".join(f"{label} {count}" for label, count in sorted(self.by_label.items()))
        return PrivacyGateError(
            f"strings that were masked elsewhere stand unmasked in what was about to be published ({counts}){why}; "
            f"{what} was published. The private table {failures.blob('hits.parquet')} shows which and where "
            "(pl.read_parquet; of an encrypted store, `reticent export` first). Then let the policies find them, or "
            "a stricter redact.conservative; or, if they are no secrets, name them in gate.ignore or choose gate.labels"
        )


def spans_of(sentences: Table, redacted: Table) -> Iterator[dict[str, Any]]:
    """Yields every sentence's place and original text with the spans that were masked in it.

    Raises:
        StageError: the two tables do not hold the same rows in the same order.
    """
    row = ("doc_id", "sentence_index")
    for left, right in side_by_side(sentences, (*row, "text"), redacted, (*row, "spans"), made_by="redact"):
        for ours, spans in zip(left.to_pylist(), right.column("spans").to_pylist(), strict=True):
            yield {**ours, "spans": spans}


def num_training_rows(redacted: Table) -> int:
    """Returns the number of rows of a redacted table's training fold."""
    return sum(pc.sum(_is_training(batch)).as_py() or 0 for batch in redacted.batches(("fold",)))


def public_rows(redacted: Table) -> Iterator[dict[str, Any]]:
    """Yields the training rows on the public side, by the shard stage's rule, unless the gate holds them."""
    for batch in redacted.batches(("doc_id", "sentence_index", "redacted_text", *TAGS, *_FLAGS)):
        is_unmasked = pc.equal(batch.column("num_masked_tokens"), 0)  # the most of the others, which cost no time so
        rows = batch.filter(pc.and_(_is_training(batch), is_unmasked)).to_pylist()
        yield from (row for row in rows if not is_private(row))


def _is_training(batch: pa.RecordBatch) -> pa.BooleanArray:
    return pc.equal(batch.column("fold"), "train")


def finds_in_tags(row: dict[str, Any], index: StringIndex, choice: Choice) -> Iterator[Hit]:
    """Yields the strings that stand in a public row's speaker, domain or label."""
    for column, value in _quoted(row):
        words = tag_words(value, choice.case_sensitive)
        for string in sorted(index.find(words)):
            place = {"doc_id": row["doc_id"], "sentence_index": row["sentence_index"]}
            yield Hit(file=f"public.parquet, {column}", string=string, label=index.labels[string], text=value, **place)


def _quoted(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the column and value of each tag that quotes the corpus. ``SPEAKER_110`` quotes nothing."""
    for column in TAGS:
        if (value := row[column]) and not (column == "speaker" and MADE.fullmatch(value)):
            yield column, value


@functools.lru_cache(maxsize=1_024)
def tag_words(text: str, case_sensitive: bool) -> tuple[str, ...]:
    """The words of a speaker, domain or label: these repeat in every row."""
    return tuple(words_of(text, case_sensitive=case_sensitive))


def row_words(table: Table, choice: Choice) -> Iterator[list[str]]:
    """The words of `words_of_row`, of each public row as one text in which nothing stands across two of its own."""
    for row in public_rows(table):
        yield [word for words in words_of_row(row, choice) for word in (*words, _APART)]


def words_of_row(row: dict[str, Any], choice: Choice) -> Iterator[Sequence[str]]:
    """The words of each text of a public row: what it says, and its speaker, domain and label."""
    yield choice.words(row["redacted_text"])
    for _, value in _quoted(row):
        yield tag_words(value, choice.case_sensitive)
