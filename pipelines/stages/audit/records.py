"""Audit: the records that membership attacks are tried on, as the model's training read them.

Members and non-members must differ in nothing but the training. So both are private records whose text occurs once in
the whole corpus: copies of a repeated text that were trained on would be among the members only. Public records are
not used, because a tokenizer may have been trained on them, and a model without them would read other tokens.

If people are judged (`audit.owner_records`, ``train.unit = "owner"``), all such records of a person are drawn together.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import Final

from pipelines.context import StageContext
from pipelines.corpus.tables import DOCUMENTS, SENTENCES
from pipelines.policies.sharding import is_private
from pipelines.policies.tables import REDACTED
from pipelines.settings.audit import records_of_person
from pipelines.tables import schema
from pipelines.training.data.row_store import RecordRows, RowStore, StoredRecords, document_lengths
from pipelines.training.data.rows import original_rows

MEMBERS: Final = schema(
    "members", "record: uint32, doc_id: string, sentence_index: uint32", optional="digest: string", hashes=("digest",)
)
"""The rows of each record that the audit's model was not trained on, with digests of their text."""

HELD_OUT: Final = ("test", "valid")
_LARGEST_SHARE: Final = 4
"""At most one record in four of the training fold is left out, so that the audit's model resembles the released one."""


def left_out_rows(ctx: StageContext) -> frozenset[tuple[str, int]]:
    """Returns the rows that the audit's model was not trained on, by document and sentence index.

    An upgrade may have changed where sentences end. Then another text may stand at the place of a row, and the row is
    not returned. Models that Reticent 0.3.0 trained have no digests of their rows, so all of these are returned.
    """
    rows = list(ctx.input("audit_model").table(MEMBERS).rows())
    places = frozenset((row["doc_id"], row["sentence_index"]) for row in rows)
    if not rows or "digest" not in rows[0]:
        return places
    now = digests_of_rows(ctx, places)
    return frozenset(place for row in rows if now.get(place := (row["doc_id"], row["sentence_index"])) == row["digest"])


def digests_of_rows(ctx: StageContext, places: Container[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Returns digests of the text (32 hexadecimal digits) of the rows that stand at these places now."""
    found = {}
    for artifact in ctx.inputs["split"]:
        for row in artifact.table(SENTENCES).rows(("doc_id", "sentence_index", "text")):
            if (place := (row["doc_id"], row["sentence_index"])) in places:
                found[place] = _digest((row["text"],)).hex()
    return found


class Records:
    """The records of the corpus as original text, in the unit of the training."""

    def __init__(self, ctx: StageContext) -> None:
        self._folds = {fold: _stored(ctx, fold) for fold in ("train", *HELD_OUT)}
        self._owners = _owners(ctx)
        texts: Counter[bytes] = Counter()
        digests = {
            fold: [_digest(stored[number].texts) for number in range(len(stored))]
            for fold, stored in self._folds.items()
        }
        for of_fold in digests.values():
            texts.update(of_fold)
        self._is_usable = {
            fold: [bool(p) and texts[d] == 1 for p, d in zip(stored.is_private, digests[fold], strict=True)]
            for fold, stored in self._folds.items()
        }

    def members(self, most: int) -> list[list[tuple[str, int]]]:
        """Draws at most ``most`` records to leave out, whatever their text, and returns the rows of each."""
        stored = self._folds["train"]
        most = min(most, len(stored) // _LARGEST_SHARE)
        return [stored.keys(number) for number in self._drawn("train", most)]

    def left_out(self, places: frozenset[tuple[str, int]]) -> dict[str, RecordRows]:
        """Returns the records of the training fold that begin at one of these rows, by document and place."""
        stored = self._folds["train"]
        return {
            _name(stored, number): stored[number] for number in range(len(stored)) if stored.keys(number)[0] in places
        }

    def non_members(self, most: int) -> dict[str, RecordRows]:
        """Returns at most ``most`` held-out records, first of the test fold."""
        records: dict[str, RecordRows] = {}
        for fold in HELD_OUT:
            stored = self._folds[fold]
            records |= {_name(stored, number): stored[number] for number in self._drawn(fold, most - len(records))}
        return records

    def people(self, names: Iterable[str]) -> dict[str, str] | None:
        """Returns the person of each record by its name; None if no people are judged."""
        if self._owners is None:
            return None
        return {name: self._owners[name.rpartition("/")[0]] for name in names}

    def _drawn(self, fold: str, most: int) -> list[int]:
        stored, is_usable = self._folds[fold], self._is_usable[fold]
        numbers = [number for number in stored.sample(len(stored)).tolist() if is_usable[number]]
        if self._owners is None:
            return numbers[:most]
        of_people: dict[str, list[int]] = defaultdict(list)
        for number in numbers:
            of_people[self._owners[stored.keys(number)[0][0]]].append(number)
        drawn: list[int] = []
        for _, own in sorted(of_people.items()):  # the order of pseudonyms is random, and tells nothing of sizes
            drawn += own if len(drawn) + len(own) <= most else []
        return drawn


def _owners(ctx: StageContext) -> dict[str, str] | None:
    """Returns the owner of each document; None if no people are judged, or documents have no owners."""
    if records_of_person(ctx.configs) is None:
        return None
    owners: dict[str, str] = {}
    for table in (artifact.table(DOCUMENTS) for artifact in ctx.inputs["split"]):
        with table.open() as file:
            if "owner" not in file.schema_arrow.names:
                return None
        for batch in table.batches(("doc_id", "owner")):
            owners.update(zip(*(batch.column(name).to_pylist() for name in ("doc_id", "owner")), strict=True))
    return owners


def _stored(ctx: StageContext, fold: str) -> StoredRecords:
    config, split = ctx.configs["train"], ctx.inputs["split"]
    redacted = [artifact.table(REDACTED) for artifact in ctx.inputs["redact"]]
    lengths = document_lengths(a.table(DOCUMENTS) for a in split if config.conversation_tokens)
    store = RowStore(ctx.out.scratch.below("records"), fold, config.record_unit(), lengths)
    rows = original_rows([a.table(SENTENCES) for a in split], fold, redacted if config.view().marks_tokens else None)
    for row, is_private_row in zip(rows, _is_private(ctx, fold), strict=True):
        store.add((row,), is_private=is_private_row, hashed=False)
    return store.records()


def _is_private(ctx: StageContext, fold: str) -> Iterator[bool]:
    flags = ("num_masked_tokens", "is_duplicate", "failed_closed", "flagged_by_conservative")
    columns = ("redacted_text", *flags, "fold")
    for artifact in ctx.inputs["redact"]:
        for row in artifact.table(REDACTED).rows(columns):
            if row["fold"] == fold:
                yield is_private(row)


def _digest(texts: Iterable[str]) -> bytes:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).digest()


def _name(stored: StoredRecords, number: int) -> str:
    doc_id, sentence_index = stored.keys(number)[0]
    return f"{doc_id}/{sentence_index}"
