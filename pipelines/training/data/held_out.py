"""Held-out records, on which models are scored."""

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
        records: records of the same unit as those of training.
        documents: (n,) number of the document of each record, for standard errors.
        num_available: number of records in the fold, of which ``len(records)`` were taken.
        num_words: (n,) number of kept words of each record, split at white space, and one more if its end was kept.
            None if the targets of a task are only a part of the record.
        word_of_token: word of each token, one row per record, `NO_WORD` for a token that is no text.
        places: row of the record, first character, end, and bytes added, of each token, in one flat row per record. For
            a token that is no text: -1, -1, -1 and 0. Present with ``word_of_token`` only.
        keys: document and sentence index of the rows of each record. Present with ``places`` only.
        starts_word: (V + 1,) true for tokens that begin a word (`alignment.starts_word`). Present with
            ``word_of_token`` only.
        rows: texts of the records, for tasks that generate text from them. Otherwise empty.
        references: texts of the whole fold by the input of ``rows`` that they describe, for table-to-text. Otherwise
            empty.
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
    """Encodes stored records for a model. A part of `pipelines.training.tasks.base.Task`."""

    def encode(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, name: str, *, marked: bool = False
    ) -> Examples:
        """Encodes the chosen records, in that order.

        Args:
            stored: records with their rows.
            chosen: numbers of the records to encode.
            scratch, name: folder and name of the files to write.
            marked: true if private pieces are encoded separately and their ids marked.
        """
        ...

    def encode_held_out(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, *, marked: bool = False
    ) -> HeldOut:
        """Encodes the chosen records to be scored."""
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

    The records with the smallest digest of their identity are taken. The digest does not depend on their text, so that
    copies of one sentence are not drawn together. ``lengths`` come from `row_store.document_lengths`.
    """
    store = RowStore(scratch, "held_out", unit, lengths)
    store.add(original_rows(sentences, fold, redacted), is_private=True, hashed=False)
    stored = store.records()
    chosen = stored.sample(most)
    return encoder.encode_held_out(stored, chosen, scratch, marked=redacted is not None)
