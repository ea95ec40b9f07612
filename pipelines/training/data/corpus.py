"""Reads the text that a method's view asks for, and encodes it as records in files of the scratch folder.

`pipelines.methods.view` describes the views. `pipelines.training.data.row_store` describes the use of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipelines.artifacts import Source, Target
from pipelines.corpus.tables import DOCUMENTS, SENTENCES
from pipelines.dp.owners import Owners
from pipelines.methods.view import View
from pipelines.policies.held import held_rows
from pipelines.policies.sharding import SHARD
from pipelines.policies.tables import REDACTED
from pipelines.tables import Schema, Table
from pipelines.training.data.control import RESERVED, common_names, name_token
from pipelines.training.data.held_out import Encoder, HeldOut, read_held_out
from pipelines.training.data.overlay import EXCLUDED, Exclusion
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.data.records import Examples
from pipelines.training.data.row_store import IntArray, RowStore, StoredRecords, document_lengths, owners_of
from pipelines.training.data.rows import TrainingRow, original_rows, shard_rows, typed_rows
from pipelines.training.data.vocabulary import Vocabulary

VocabularyMaker = Callable[[tuple[str, ...], tuple[str, ...], Iterable[str] | None], Vocabulary]
"""Makes a vocabulary from names of speakers, names of domains, and texts of public rows (None if there are none)."""


@dataclass(frozen=True, kw_only=True)
class TrainingCorpus:
    """Vocabulary and records that training and evaluation read.

    Attributes:
        vocabulary: tokenizer, which saw no private row, and its control tokens.
        nonprivate_order: order of ``nonprivate_examples``: ``content_hash`` if the records were checked to be in that
            order, ``none`` if the method never has any, ``unknown`` otherwise.
        nonprivate_examples: records of steps without noise, as the method's view says: public rows, the redacted text
            of all rows (both in the order of their content hash), or, without any promise, original text.
        num_private_without_noise: number of ``nonprivate_examples`` that hold a private row.
        private_examples: records that private steps sample, in an order that depends on no text.
        held_out: records to evaluate on.
        owners: people of ``private_examples``, if private steps sample people.
        owner_bound: largest number of ``private_examples`` of one person, if further ones were left out.
        num_over_bound: number of those that were left out.
    """

    vocabulary: Vocabulary
    nonprivate_order: str
    nonprivate_examples: Examples
    num_private_without_noise: int
    private_examples: Examples
    held_out: HeldOut
    owners: Owners | None = None
    owner_bound: int | None = None
    num_over_bound: int = 0

    @property
    def num_private(self) -> int:
        """Number of private records: those of private steps, or else those of nonprivate steps.

        If private steps sample people, it is the number of people.
        """
        if self.owners is not None:
            return self.owners.count
        return len(self.private_examples) or self.num_private_without_noise


@dataclass(frozen=True, kw_only=True)
class TrainingTables:
    """Tables that a corpus is read from, one per partition. A field is empty if the view does not read its tables.

    Attributes:
        public: public shards, the only rows that may shape the vocabulary.
        private: private shards.
        sentences: original sentences, for the held-out fold and for methods that train on original text.
        redacted: redacted tables in the order of ``sentences``, for methods that mark tokens.
        screened: rows that people screened, for views of them.
        documents: documents tables, if a record shows that it ends its conversation, private steps sample people, or
            people have a largest number of records.
        excluded: rows that are not trained on (`pipelines.training.data.overlay`). None in a release.
        held: table of rows that the gate holds, for methods that read masks beside the shards.
    """

    public: Sequence[Table]
    private: Sequence[Table]
    sentences: Sequence[Table]
    redacted: Sequence[Table] = ()
    screened: Sequence[Table] = ()
    documents: Sequence[Table] = ()
    excluded: Sequence[Table] = ()
    held: Sequence[Table] = ()

    def with_overlay(self, overlay: Source) -> TrainingTables:
        """Returns the tables with an overlay's rows, as one more partition, and without the rows that it leaves out."""

        def beside(tables: Sequence[Table], schema: Schema, name: str | None = None) -> Sequence[Table]:
            return [*tables, overlay.table(schema, name)] if tables else tables

        return replace(
            self,
            public=beside(self.public, SHARD, "public"),
            private=beside(self.private, SHARD, "private"),
            sentences=beside(self.sentences, SENTENCES),
            redacted=beside(self.redacted, REDACTED),
            documents=beside(self.documents, DOCUMENTS),
            excluded=[overlay.table(EXCLUDED)],
        )


@dataclass(frozen=True, kw_only=True)
class CorpusSettings:
    """Settings of reading a corpus.

    Attributes:
        view: text that the method reads.
        unit: unit that makes one record.
        speakers, domains: names from the settings. If empty, the names come from public rows, if the view allows it.
        min_speaker_rows: number of public rows that a speaker, or a domain, needs for its own control token.
        evaluate_fold: fold to evaluate on.
        max_eval_sentences: largest number of records to evaluate on.
        owner_records: number of records that a drawn person brings; None if private steps sample records.
        owner_bound: largest number of private records of a person; None without a bound.
    """

    view: View
    unit: RecordUnit
    speakers: Sequence[str] = ()
    domains: Sequence[str] = ()
    min_speaker_rows: int
    evaluate_fold: str
    max_eval_sentences: int
    owner_records: int | None = None
    owner_bound: int | None = None


def read_corpus(
    tables: TrainingTables,
    settings: CorpusSettings,
    *,
    make_vocabulary: VocabularyMaker,
    make_encoder: Callable[[Vocabulary], Encoder],
    scratch: Target,
    progress: Callable[[int, int | None, str], None],
) -> TrainingCorpus:
    """Makes the vocabulary, from public rows at most, and encodes the records to train on and the held-out records.

    Args:
        tables: tables with the rows.
        settings: settings of reading.
        make_vocabulary: function that makes the vocabulary from names of speakers and domains and from public texts.
        make_encoder: function that makes the encoder of records for a vocabulary.
        scratch: private folder for intermediate files.
        progress: callback that receives the current phase.

    Raises:
        StageError: the tables do not belong together, or a row that must be left out is missing.
    """
    progress(0, None, "reading rows")
    reader = _Reader(tables, settings, scratch)
    shards = reader.shards()
    speakers, domains = _names(settings, shards)
    progress(0, None, "making the vocabulary")
    vocabulary = make_vocabulary(speakers, domains, None if shards.is_private_row.all() else shards.public_texts())
    vocabulary = replace(vocabulary, control=replace(vocabulary.control, asks_for_mask=settings.view.asks_for_masks))
    encoder = make_encoder(vocabulary)
    progress(0, None, "encoding rows")
    original = reader.original()
    masks = tuple(vocabulary.control.typed_masks)
    nonprivate, nonprivate_records, order = _nonprivate(reader, shards, original, masks)
    if settings.view.nonprivate != "screened":  # people screened some rows only
        reader.excluded.check()
    private, private_records = _private(settings.view, shards, original)
    owners, num_private = None, len(private_records)
    if settings.owner_records is not None:
        owners = owners_of(tables.documents, private.document_digests(private_records), settings.owner_records)
    if settings.owner_bound is not None:
        of_records = owners_of(tables.documents, private.document_digests(private_records), 1).of_records
        private_records = private.at_most(settings.owner_bound, private_records, of_records)
    return TrainingCorpus(
        vocabulary=vocabulary,
        nonprivate_order=order,
        num_private_without_noise=int(nonprivate.is_private[nonprivate_records].sum()),
        nonprivate_examples=encoder.encode(nonprivate, nonprivate_records, scratch, "plain"),
        private_examples=encoder.encode(private, private_records, scratch, "noised", marked=settings.view.marks_tokens),
        held_out=read_held_out(
            tables.sentences,
            reader.redacted,
            fold=settings.evaluate_fold,
            most=settings.max_eval_sentences,
            unit=settings.unit,
            encoder=encoder,
            scratch=scratch,
            lengths=reader.lengths,
        ),
        owners=owners,
        owner_bound=settings.owner_bound,
        num_over_bound=num_private - len(private_records),
    )


class _Reader:
    """Reads the rows that a view needs into stores of records, without the rows that are left out."""

    def __init__(self, tables: TrainingTables, settings: CorpusSettings, scratch: Target) -> None:
        self.view = settings.view
        self.lengths = document_lengths(tables.documents)
        self.redacted = tables.redacted if self.view.marks_tokens else None
        self.excluded = Exclusion.of(tables.excluded)
        self._tables, self._unit, self._scratch = tables, settings.unit, scratch
        self._held = held_rows(tables.held)

    def shards(self) -> StoredRecords:
        """Reads the public rows, and the private ones if the view needs them."""
        store = self._store("shards")
        store.add(self.excluded.kept(shard_rows(self._tables.public)), is_private=False)
        if self.view.reads_shards:
            rows = self.excluded.kept(shard_rows(self._tables.private))
            store.add(rows, is_private=True, hashed=self.view.nonprivate == "redacted")
        return store.records()

    def original(self) -> StoredRecords:
        """Reads the original rows of the training fold; none if the view does not need them."""
        store = self._store("original")
        if self.view.reads_original:
            rows = original_rows(self._tables.sentences, "train", self.redacted, self._held)
            store.add(self.excluded.kept(rows), is_private=True, hashed=False)
        return store.records()

    def screened(self) -> StoredRecords:
        """Reads the rows that people screened."""
        return self._unnoised("screened", shard_rows(self._tables.screened))

    def typed(self, masks: tuple[str, ...]) -> StoredRecords:
        """Reads the rows with typed masks."""
        rows = typed_rows(self._tables.sentences, self._tables.redacted, masks, self._held)
        return self._unnoised("typed", rows)

    def _unnoised(self, name: str, rows: Iterable[TrainingRow]) -> StoredRecords:
        store = self._store(name)
        store.add(self.excluded.kept(rows), is_private=True)
        return store.records()

    def _store(self, name: str) -> RowStore:
        return RowStore(self._scratch, name, self._unit, self.lengths)


def _names(settings: CorpusSettings, shards: StoredRecords) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns speakers and domains from the settings, or common ones of the public rows if the view may use them."""
    speakers, domains = tuple(sorted(set(settings.speakers))), tuple(sorted(set(settings.domains)))
    is_public, least = ~shards.is_private_row, settings.min_speaker_rows
    if not speakers and settings.view.learns_words:
        speakers = common_names(shards.speakers.counts(is_public), least)
    if not domains and settings.view.learns_words:
        taken = {*RESERVED, *map(name_token, speakers)}
        domains = common_names(shards.domains.counts(is_public), least, taken)
    return speakers, domains


def _nonprivate(
    reader: _Reader, shards: StoredRecords, original: StoredRecords, masks: tuple[str, ...]
) -> tuple[StoredRecords, IntArray, str]:
    """Returns the records for steps without noise, their numbers, and the order of those (`TrainingCorpus`)."""
    kind = reader.view.nonprivate
    if kind == "original":
        return original, np.arange(len(original)), "unknown"
    if kind == "public_shard":
        return _by_content(shards, np.flatnonzero(~shards.is_private))
    if kind == "redacted":
        return _by_content(shards, np.arange(len(shards)))
    if kind in ("screened", "typed"):
        records = reader.typed(masks) if kind == "typed" else reader.screened()
        return _by_content(records, np.arange(len(records)))
    return shards, np.zeros(0, dtype=np.int64), "none"


def _by_content(records: StoredRecords, numbers: IntArray) -> tuple[StoredRecords, IntArray, str]:
    """Sorts records by their content hash, and checks the order."""
    ordered = records.content_order(numbers)
    return records, ordered, "content_hash" if records.is_in_content_order(ordered) else "unknown"


def _private(view: View, shards: StoredRecords, original: StoredRecords) -> tuple[StoredRecords, IntArray]:
    """Returns the records that DP steps sample, and their numbers."""
    if view.private == "private_shard":
        return shards, np.flatnonzero(shards.is_private)
    if view.private == "original":
        return original, np.arange(len(original))
    return shards, np.zeros(0, dtype=np.int64)
