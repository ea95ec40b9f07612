"""Stability of caught secrets: a secret is stable if masking it by hand would leave all other training text unchanged.

Confidentiality compares the corpus with one in which a mask replaced the secret before the pipeline began (CRT,
Definition 2). A masked secret costs epsilon 0 because both worlds are the same once redacted (the proof of Proposition
5). They differ if other masks depend on the secret: a model that finds entities reads their neighbours. Such a secret
changes a record although it is masked, so it counts as missed.

*The neighbouring world.* Sentences are those of the split stage. In one sentence the secret is overwritten in two ways,
because both are "the secret masked by hand": its own characters, or the whole tokens that it touches, since tokens
count as masked. Tokens are cut as in the pipeline. Everything else is redacted again with the same policies and
compared, character by character, with the redacted table. The other columns that training reads (speaker, domain,
label) are not redacted. The row is private in both worlds, because it holds a mask in both. So an unstable secret never
escapes to the public set. It changes a private record, as a missed one does. A policy that reads whole documents gets
the whole document, and its other rows are compared too. Copies in it that deduplication masked whole are overwritten
together with the sentence.

*Several secrets.* Each secret is masked alone. For claims about groups, every set of caught secrets of a sentence (of a
document, if policies read documents) is also masked together, up to `MAX_TOGETHER` secrets. With more, a secret is not
known to be stable together with others. Sentences do not affect each other, so a group over several sentences is stable
if its part in each sentence is.

*Limits.* The check does not cover that the sentence masked by hand equals another one of the corpus, so that
deduplication would mask one of the two (claims assume that it does not). With ``dedup.min_tokens``, a sentence that
crosses that length counts as unstable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, groupby
from typing import Any, Final, NamedTuple

from pipelines.miss_rate.gold_labels import gold_rows, labelled_documents
from pipelines.miss_rate.review import REASONS, Reason, StabilityVerdict
from pipelines.miss_rate.sampling import Partition, SentenceId, joined
from pipelines.policies.detectors.finds import Range
from pipelines.policies.judging.by_hand import Tokenise, mask_by_hand, whole_tokens
from pipelines.policies.judging.judge import Request
from pipelines.tables import Table

MAX_TOGETHER: Final = 6
"""Most secrets of a sentence whose sets (63) are all tried; a sentence with more is rare."""

_BATCH_ROWS: Final = 2_048

Redact = Callable[[Sequence[Sequence[Request]]], Sequence[Sequence[str]]]
"""Function that returns the redacted texts of the rows of several documents."""
_GOLD: Final = ("doc_id", "sentence_index", "start", "end", "start_token", "end_token", "secret_id")
_CARRIED: Final = ("redacted_text",)


class SecretPiece(NamedTuple):
    """A secret, or the part of one in one row.

    Attributes:
        row: number of the row in its scope.
        start, end: range of characters of the row's text.
        start_token, end_token: range of the tokens that it touches.
    """

    row: int
    start: int
    end: int
    start_token: int
    end_token: int


@dataclass(frozen=True)
class Scope:
    """Rows that are redacted together, and the caught secrets in them.

    Attributes:
        rows: rows with the columns of the sentences and the redacted table; one row, or a document. If a policy is
            told the names of speakers, a row has the ``names`` of its document's speakers, too.
        secrets: pieces of each secret.
    """

    rows: Sequence[Mapping[str, Any]]
    secrets: Sequence[Sequence[SecretPiece]]


@dataclass
class _World:
    """A way to mask some secrets of a scope by hand."""

    secrets: tuple[int, ...]
    rows: dict[int, Request]


@dataclass
class _Found:
    """The results of the worlds of one scope."""

    alone: dict[int, Reason] = field(default_factory=dict)
    loose: set[int] = field(default_factory=set)

    def add(self, secrets: tuple[int, ...], reason: Reason) -> None:
        if reason == "stable":
            return
        self.loose.update(secrets)
        if len(secrets) == 1:
            self.alone[secrets[0]] = max(self.alone.get(secrets[0], reason), reason, key=REASONS.index)


def judge_all(
    scopes: Iterable[Scope], redact: Redact, tokenise: Tokenise, *, min_tokens: int = 0
) -> Iterator[tuple[Scope, list[StabilityVerdict]]]:
    """Masks every caught secret by hand, redacts again, and compares.

    Args:
        scopes: scopes with the rows as they were redacted.
        redact: policies of the run. For unchanged rows it must return the redacted table's texts.
        tokenise: tokeniser of the split stage.
        min_tokens: ``dedup.min_tokens``.

    Yields:
        Each scope, in order, with a verdict for each secret. Memory holds the worlds of some scopes at a time.
    """
    waiting: list[tuple[Scope, list[_World]]] = []
    num_rows = 0
    for scope in scopes:
        worlds = list(_worlds(scope, tokenise))
        waiting.append((scope, worlds))
        num_rows += len(worlds) * len(scope.rows)
        if num_rows >= _BATCH_ROWS:
            yield from _judged(waiting, redact, min_tokens)
            waiting, num_rows = [], 0
    yield from _judged(waiting, redact, min_tokens)


def _judged(
    waiting: Sequence[tuple[Scope, Sequence[_World]]], redact: Redact, min_tokens: int
) -> Iterator[tuple[Scope, list[StabilityVerdict]]]:
    if not waiting:
        return
    texts = iter(
        redact(
            [
                [world.rows.get(i) or _request(row) for i, row in enumerate(scope.rows)]
                for scope, worlds in waiting
                for world in worlds
            ]
        )
    )
    for scope, worlds in waiting:
        found = _Found()
        for world in worlds:
            found.add(world.secrets, _difference(scope, world, next(texts), min_tokens))
        is_tried = len(scope.secrets) <= MAX_TOGETHER
        yield (
            scope,
            [
                StabilityVerdict(
                    number not in found.alone, number not in found.loose and is_tried, found.alone.get(number, "stable")
                )
                for number in range(len(scope.secrets))
            ],
        )


def _worlds(scope: Scope, tokenise: Tokenise) -> Iterator[_World]:
    numbers = range(len(scope.secrets))
    most = len(scope.secrets) if len(scope.secrets) <= MAX_TOGETHER else 1
    for size in range(1, most + 1):
        for together in combinations(numbers, size):
            pieces = [piece for number in together for piece in scope.secrets[number]]
            by_characters = _masked(scope, pieces, tokenise, widen=False)
            by_tokens = _masked(scope, pieces, tokenise, widen=True)
            yield _World(together, by_characters)
            if by_tokens != by_characters:
                yield _World(together, by_tokens)


def _masked(scope: Scope, pieces: Iterable[SecretPiece], tokenise: Tokenise, *, widen: bool) -> dict[int, Request]:
    """Returns the rows that change if these pieces are masked by hand."""
    ranges: dict[int, list[Range]] = {}
    for piece in pieces:
        for number in (piece.row, *_copies(scope, piece.row)):
            ranges.setdefault(number, []).append((piece.start, piece.end))
    changed = {}
    for number, secrets in ranges.items():
        sentence = _request(scope.rows[number])
        wide = [whole_tokens(sentence, secret) for secret in secrets] if widen else secrets
        changed[number] = mask_by_hand(sentence, wide, tokenise)
    return changed


def _copies(scope: Scope, number: int) -> Iterator[int]:
    text = scope.rows[number]["text"]
    if len(scope.rows) > 1:
        yield from (
            i for i, row in enumerate(scope.rows) if i != number and row["is_duplicate"] and row["text"] == text
        )


def _request(row: Mapping[str, Any]) -> Request:
    return Request(row["text"], row["token_starts"], row["token_ends"], names=row.get("names", ()))


def _difference(scope: Scope, world: _World, texts: Sequence[str], min_tokens: int) -> Reason:
    """Returns the worst change of the world in the training text."""
    changed = {
        number
        for number, (row, text) in enumerate(zip(scope.rows, texts, strict=True))
        if not row["is_duplicate"] and row["redacted_text"] != text  # a duplicate is one mask in both worlds
    }
    if not changed <= world.rows.keys():
        return "document"
    if changed:
        return "sentence"
    for number, request in world.rows.items():
        if (len(scope.rows[number]["token_starts"]) < min_tokens) != (len(request.starts) < min_tokens):
            return "length"
    return "stable"


class Mark(NamedTuple):
    """A secret, or a piece of one, in one row.

    Attributes:
        secret: identity of the secret in its document; pieces with the same value are one secret.
        start, end: range of characters of the row's text.
        start_token, end_token: range of the tokens that it touches.
    """

    secret: tuple[str, int]
    start: int
    end: int
    start_token: int
    end_token: int


MarkRow = Callable[[Mapping[str, Any]], Iterable[Mark]]
"""Function that returns the secrets that people see in a row of the sentences table."""


def gold_marks(gold: Table, documents: Table, chosen: Collection[SentenceId]) -> dict[SentenceId, list[Mark]]:
    """Returns all pieces of every labelled secret with a piece in a chosen sentence of a labelled training document."""
    labelled = labelled_documents(documents)
    found: dict[SentenceId, list[Mark]] = {}
    for row in gold_rows(gold, _GOLD, {row for row in chosen if row[0] in labelled}):
        mark = Mark(("gold", row["secret_id"]), row["start"], row["end"], row["start_token"], row["end_token"])
        found.setdefault((row["doc_id"], row["sentence_index"]), []).append(mark)
    return found


def scopes(
    partition: Partition,
    chosen: Collection[SentenceId],
    gold: Mapping[SentenceId, Sequence[Mark]],
    marks_of: MarkRow,
    *,
    whole_documents: bool,
) -> Iterator[Scope]:
    """Yields the caught secrets, by the rows that they can change, in corpus order.

    Args:
        partition: tables of the partition.
        chosen: sampled sentences.
        gold: marks from `gold_marks`.
        marks_of: function that returns the secrets that people see in a chosen sentence.
        whole_documents: true if policies read whole documents, so that all rows of a document belong together.

    Raises:
        StageError: a row is missing from a table.
    """
    wanted = {*chosen, *gold}
    if whole_documents:
        wanted = _rows_of_documents(partition.redacted, {doc_id for doc_id, _ in wanted})
    rows = chain.from_iterable(joined(partition, dict.fromkeys(wanted), _CARRIED))
    for _, group in groupby(rows, key=lambda row: row["doc_id"]):
        for together in [list(group)] if whole_documents else ([row] for row in group):
            scope = Scope(together, _caught(together, chosen, gold, marks_of))
            if scope.secrets:
                yield scope


def _rows_of_documents(redacted: Table, documents: Collection[str]) -> set[SentenceId]:
    found: set[SentenceId] = set()
    for batch in redacted.batches(["doc_id", "sentence_index"]):
        rows = zip(batch.column("doc_id").to_pylist(), batch.column("sentence_index").to_pylist(), strict=True)
        found.update(row for row in rows if row[0] in documents)
    return found


def _caught(
    rows: Sequence[Mapping[str, Any]],
    chosen: Collection[SentenceId],
    gold: Mapping[SentenceId, Sequence[Mark]],
    marks_of: MarkRow,
) -> list[list[SecretPiece]]:
    secrets: dict[tuple[str, int], list[SecretPiece]] = {}
    for number, row in enumerate(rows):
        identity = row["doc_id"], row["sentence_index"]
        if row["is_duplicate"]:
            continue
        marks = [*gold.get(identity, ()), *(marks_of(row) if identity in chosen else ())]
        if not marks:
            continue
        masked = {token for span in row["spans"] for token in range(span["start_token"], span["end_token"])}
        for mark in marks:
            tokens = range(mark.start_token, mark.end_token)
            if mark.start < mark.end and (row["failed_closed"] or (tokens and masked.issuperset(tokens))):
                secrets.setdefault(mark.secret, []).append(SecretPiece(number, *mark[1:]))
    # Equal marks of two sources are one secret here: masked together, they give the same world twice.
    return list({tuple(pieces): pieces for pieces in secrets.values()}.values())
