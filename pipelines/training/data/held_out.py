"""Held-out records, as models are scored on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pipelines.training.data.ragged import RaggedArray
from pipelines.training.data.records import Examples, IntArray
from pipelines.training.data.row_store import RecordRows


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
