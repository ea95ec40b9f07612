"""Searching the rows that are about to be public, in bounded memory."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from pipelines.artifacts import Target
from pipelines.errors import PrivacyGateError
from pipelines.gate.strings import Choice, StringIndex, words_of
from pipelines.gate.tables import GATE_HITS
from pipelines.policies.sharding import is_private
from pipelines.tables import Table, TableWriter, side_by_side

CHUNK_STRINGS: Final = 500_000
"""Strings held at once (about 150 MB); more take another pass over the rows."""
TAGS: Final = ("speaker", "domain", "label")
"""The columns of a public row that quote the corpus, beside its text; other rows have the same, so none can be held."""
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
        """The same without those of some strings."""
        left = Hits()
        for hit in self.kept:
            if hit.string not in strings:
                left.add(hit)
        return left

    def refuse(self, what: str, failures: Target, why: str = "") -> PrivacyGateError:
        """Writes the kept hits to a private table ``hits``, and makes the error that tells counts only.

        Args:
            what: says what is not published because of them.
            failures: where the table goes.
            why: says more of where they stand.
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


def chunks_of(
    tables: Sequence[Table],
    choice: Choice,
    left_out: Counter[str],
    searched: Counter[str],
    dismissed: Set[str] = frozenset(),
) -> Iterator[dict[str, str]]:
    """The strings of all partitions, at most `CHUNK_STRINGS` distinct ones at a time.

    Args:
        tables: ``gate_strings`` tables.
        choice: what is searched for.
        left_out: counts strings that are not searched for by reason, once a table.
        searched: counts those that are by label, once a table.
        dismissed: further strings that are not searched for.

    Yields:
        String to labels, several joined by ``+``, in the order of their first occurrence.
    """
    chunk: dict[str, str] = {}
    for table in tables:
        for batch in table.batches(("string", "label")):
            columns = (batch.column(name).to_pylist() for name in ("string", "label"))
            for string, label in zip(*columns, strict=True):
                reason = choice.reason_against(string, label)
                if reason is not None or string in dismissed:
                    left_out[reason or "judged"] += 1
                    continue
                searched[label] += 1
                known = chunk.get(string)
                if known is None:
                    if len(chunk) == CHUNK_STRINGS:
                        yield chunk
                        chunk = {}
                    chunk[string] = label
                elif label not in known.split("+"):
                    chunk[string] = "+".join(sorted([*known.split("+"), label]))
    yield chunk


def spans_of(sentences: Table, redacted: Table) -> Iterator[dict[str, Any]]:
    """Every sentence's place and original text with the spans that were masked in it.

    Raises:
        StageError: the two tables do not hold the same rows in the same order.
    """
    row = ("doc_id", "sentence_index")
    for left, right in side_by_side(sentences, (*row, "text"), redacted, (*row, "spans"), made_by="redact"):
        for ours, spans in zip(left.to_pylist(), right.column("spans").to_pylist(), strict=True):
            yield {**ours, "spans": spans}


def training_rows(redacted: Table) -> Iterator[dict[str, Any]]:
    """The rows of a redacted table's training fold."""
    columns = ("doc_id", "sentence_index", "redacted_text", *TAGS, *_FLAGS)
    yield from (row for row in redacted.rows(columns) if row["fold"] == "train")


def public_rows(redacted: Table) -> Iterator[dict[str, Any]]:
    """Those of them that are on the public side, unless the gate holds them, by the shard stage's rule."""
    yield from (row for row in training_rows(redacted) if not is_private(row))


def finds_in_tags(row: dict[str, Any], index: StringIndex, choice: Choice) -> Iterator[Hit]:
    """The strings that stand in a public row's speaker, domain or label."""
    for column in TAGS:
        if value := row[column]:
            words = tag_words(value, choice.case_sensitive)
            for string in sorted(index.find(words)):
                place = {"doc_id": row["doc_id"], "sentence_index": row["sentence_index"]}
                yield Hit(
                    file=f"public.parquet, {column}", string=string, label=index.labels[string], text=value, **place
                )


@functools.lru_cache(maxsize=1_024)
def tag_words(text: str, case_sensitive: bool) -> tuple[str, ...]:
    """The words of a speaker, domain or label: these repeat in every row."""
    return tuple(words_of(text, case_sensitive=case_sensitive))


def write_index(writer: TableWriter, chunks: Iterable[tuple[dict[str, str], set[str]]]) -> int:
    """Writes what was searched for, for later stages. Returns the number of strings.

    Args:
        writer: of the table ``gate_index``.
        chunks: strings with their labels, and those of them that are a part of some public word.
    """
    for strings, parts in chunks:
        for string in sorted(strings):
            writer.append(string=string, label=strings[string], is_part_of_public_word=string in parts)
    return writer.num_rows


def read_index(table: Table) -> Iterator[tuple[StringIndex, set[str]]]:
    """The inverse of `write_index`: indexes of at most `CHUNK_STRINGS` strings, with the parts of public words."""
    if table.num_rows <= CHUNK_STRINGS:
        yield _only_index(table, table.path.stat().st_mtime_ns)
    else:
        for batch in table.batches(batch_rows=CHUNK_STRINGS):
            yield _index_of(batch.to_pylist())


@functools.lru_cache(maxsize=1)
def _only_index(table: Table, mtime_ns: int) -> tuple[StringIndex, set[str]]:
    """Partitions are published one after the other by the same process."""
    return _index_of(list(table.rows()))


def _index_of(rows: list[dict[str, Any]]) -> tuple[StringIndex, set[str]]:
    index = StringIndex({row["string"]: row["label"] for row in rows})
    return index, {row["string"] for row in rows if row["is_part_of_public_word"]}
