"""Held-out records, as models are scored on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pipelines.artifacts import Target
from pipelines.tables import Table
from pipelines.training.data.ragged import RaggedArray
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.data.records import Examples, IntArray
from pipelines.training.data.row_store import RecordRows, RowStore, StoredRecords
from pipelines.training.data.rows import original_rows


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Encoded held-out records, original text.

    Attributes:
        records: the records, of the same unit as those that were trained on.
        documents: (n,) the number of the document that each belongs to, for standard errors.
        num_available: records in the fold, of which ``len(records)`` were taken.
        num_words: (n,) words of what was kept of each, split at white space; one more where its end was kept. None
            where a task asks for a part of the record only.
        word_of_token: as long as each record, the word of each token, `NO_WORD` where it is no text.
        places: as long as each record, times four: row of the record, first character, end, and bytes added, of each
            token; -1, -1, -1 and 0 where it is no text. With ``word_of_token``, or neither.
        keys: document and sentence index of the rows of each record; with ``places``, or neither.
        starts_word: (V + 1,) which tokens begin a word (`alignment.starts_word`); with ``word_of_token``, or neither.
        rows: what the records say, for tasks that generate text from it; else empty.
        references: what the whole fold says of what each of ``rows`` gives, by it; for table-to-text, else empty.
    """

    records: Examples
    documents: IntArray
    num_available: int
    num_words: IntArray | None = None
    word_of_token: RaggedArray | None = None
    places: RaggedArray | None = None
    keys: Sequence[list[tuple[str, int]]] = ()
    starts_word: npt.NDArray[np.bool_] | None = None
    rows: Sequence[RecordRows] = ()
    references: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Encoder(Protocol):
    """How records become what a model reads; a part of `pipelines.training.tasks.base.Task`."""

    def encode(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, name: str, *, marked: bool = False
    ) -> Examples:
        """Encodes the chosen records, in that order.

        Args:
            stored: where their rows are.
            chosen: which records.
            scratch, name: where its files go, and what they are called.
            marked: whether to encode private pieces apart and mark their ids.
        """
        ...

    def encode_held_out(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, *, marked: bool = False
    ) -> HeldOut:
        """Encodes the chosen records to be scored on."""
        ...


def read_held_out(
    sentences: Sequence[Table],
    redacted: Sequence[Table] | None,
    *,
    fold: str,
    most: int,
    unit: RecordUnit,
    encoder: Encoder,
    scratch: Target,
    lengths: Mapping[bytes, int] | None = None,
) -> HeldOut:
    """Encodes at most ``most`` records of ``fold``, original text.

    Those with the smallest digest of their identity are taken: it is no function of what they say, so that copies of
    one sentence are not drawn together. ``lengths`` are those of `row_store.document_lengths`.
    """
    store = RowStore(scratch, "held_out", unit, lengths)
    store.add(original_rows(sentences, fold, redacted), is_private=True, hashed=False)
    stored = store.records()
    chosen = stored.sample(most)
    return encoder.encode_held_out(stored, chosen, scratch, marked=redacted is not None)
