"""Unit of one training record, which is the unit of privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipelines.errors import ConfigError

UnitKind = Literal["sentence", "dialogue", "block"]


@dataclass(frozen=True, kw_only=True)
class RecordUnit:
    """Unit of one record: the unit of privacy, named in every claim.

    ``sentence``: one row. ``dialogue``: all rows of a document. ``block``: ``sentences_per_block`` consecutive rows of
    a document, whole sentences, counted by sentence index from the document's start. Document and sentence index alone
    decide which rows share a record, never lengths, so one longer secret changes one record. A record that is too long
    for the context loses its own end. The last block of a document may be short. Batches are padded.

    This holds only as far as sentence indices do: a change that gives a document more sentences (a full stop, or so
    many words that split has to cut) moves the borders of that document's later blocks, and of no other document's.

    Raises:
        ConfigError: a block has no size, or another kind has one.
    """

    kind: UnitKind = "sentence"
    sentences_per_block: int | None = None

    def __post_init__(self) -> None:
        if (self.kind == "block") != (self.sentences_per_block is not None):
            raise ConfigError("train: sentences_per_block belongs to records of the kind block, and to those only")
        if self.sentences_per_block is not None and self.sentences_per_block < 1:
            raise ConfigError(f"train: sentences_per_block must be at least 1, not {self.sentences_per_block}")

    @property
    def num_sentences(self) -> int:
        """Number of sentence indices that one record spans."""
        if self.kind == "dialogue":
            return 2**32
        return self.sentences_per_block or 1
