"""Reads the text that a method needs into encoded records, through files in the scratch folder.

Which text that is says `pipelines.methods.view`, and what is held in memory `pipelines.training.data.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipelines.artifacts import Source, Target
from pipelines.corpus.tables import DOCUMENTS, SENTENCES
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
from pipelines.training.data.row_store import IntArray, RowStore, StoredRecords, document_lengths
from pipelines.training.data.rows import Row, original_rows, shard_rows, typed_rows
from pipelines.training.data.vocabulary import Vocabulary

VocabularyMaker = Callable[[tuple[str, ...], tuple[str, ...], Iterable[str] | None], Vocabulary]
"""Makes a vocabulary of the names of speakers, of domains, and the texts of public rows, None where there are none."""


@dataclass(frozen=True, kw_only=True)
class TrainingCorpus:
    """Everything that training and evaluation read.

    Attributes:
        vocabulary: the tokenizer, which saw none of the private rows, and its control tokens.
        plain_order: the order of ``plain``: ``content_hash`` if its records were seen to be in that order, ``none``
            if there are none by the method's nature, ``unknown`` otherwise.
        plain: what steps without noise go through, as the method's view says: public rows, the redacted text of all
            rows (both in the order of their content hash), or, without any promise, original text.
        num_private_plain: how many of ``plain`` hold a private row.
        noised: what DP steps sample; in an order that depends on no text.
        held_out: records to evaluate on.
    """

    vocabulary: Vocabulary
    plain_order: str
    plain: Examples
    num_private_plain: int
    noised: Examples
    held_out: HeldOut

    @property
    def num_private(self) -> int:
        """Records that hold private text: those that private steps sample, or else those among the plain ones."""
        return len(self.noised) or self.num_private_plain


@dataclass(frozen=True, kw_only=True)
class TrainingTables:
    """The tables that a corpus is read from, one a partition; of those that the view does not read, none.

    Attributes:
        public: the public shards; the only rows that may shape the vocabulary.
        private: the private shards.
        sentences: the original sentences: for the held-out fold, and for methods that train on original text.
        redacted: the redacted tables beside them, for methods that mark tokens.
        screened: the rows that people screened, for views of them.
        documents: the documents tables, where a record is to show that it ends its conversation.
        excluded: rows that are not trained on (`pipelines.training.data.overlay`); none in a release.
        held: the table of rows that the gate holds, for methods that read masks beside the shards.
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
        """The same with the rows of an overlay, as of one more partition, and without those that it leaves out."""

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
    """What is read of the tables, and how.

    Attributes:
        view: what the method reads.
        unit: what one record is.
        speakers, domains: names from the settings; empty takes them from public rows, where the view may.
        min_speaker_rows: public rows that a speaker, or a domain, needs for a control token of its own.
        evaluate_fold: the fold to evaluate on.
        max_eval_sentences: the most records to evaluate on.
    """

    view: View
    unit: RecordUnit
    speakers: Sequence[str] = ()
    domains: Sequence[str] = ()
    min_speaker_rows: int
    evaluate_fold: str
    max_eval_sentences: int


def read_corpus(
    tables: TrainingTables,
    settings: CorpusSettings,
    *,
    make_vocabulary: VocabularyMaker,
    make_encoder: Callable[[Vocabulary], Encoder],
    scratch: Target,
    progress: Callable[[int, int | None, str], None],
) -> TrainingCorpus:
    """Makes the vocabulary, from public rows at most, and encodes what the method reads, and the held-out records.

    Args:
        tables: where the rows are.
        settings: what to read of them.
        make_vocabulary: gives the vocabulary for the names of speakers and domains and the public texts.
        make_encoder: gives what turns records into examples.
        scratch: a folder for intermediate files, on the private side.
        progress: told what is being read.

    Raises:
        StageError: the tables do not belong together, or a row that is to be left out is not there.
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
    plain, plain_records, order = _plain(reader, shards, original, tuple(vocabulary.control.typed_masks))
    if settings.view.plain != "screened":  # people screened some rows only
        reader.excluded.check()
    noised, noised_records = _noised(settings.view, shards, original)
    return TrainingCorpus(
        vocabulary=vocabulary,
        plain_order=order,
        num_private_plain=int(plain.is_private[plain_records].sum()),
        plain=encoder.encode(plain, plain_records, scratch, "plain"),
        noised=encoder.encode(noised, noised_records, scratch, "noised", marked=settings.view.marks_tokens),
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
            store.add(rows, is_private=True, hashed=self.view.plain == "redacted")
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
        return self._private_plain("screened", shard_rows(self._tables.screened))

    def typed(self, masks: tuple[str, ...]) -> StoredRecords:
        """Reads the rows with typed masks."""
        rows = typed_rows(self._tables.sentences, self._tables.redacted, masks, self._held)
        return self._private_plain("typed", rows)

    def _private_plain(self, name: str, rows: Iterable[Row]) -> StoredRecords:
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


def _plain(
    reader: _Reader, shards: StoredRecords, original: StoredRecords, masks: tuple[str, ...]
) -> tuple[StoredRecords, IntArray, str]:
    """Returns the records for steps without noise, their numbers, and the order of those (`TrainingCorpus`)."""
    plain = reader.view.plain
    if plain == "original":
        return original, np.arange(len(original)), "unknown"
    if plain == "public_shard":
        return _by_content(shards, np.flatnonzero(~shards.is_private))
    if plain == "redacted":
        return _by_content(shards, np.arange(len(shards)))
    if plain in ("screened", "typed"):
        records = reader.typed(masks) if plain == "typed" else reader.screened()
        return _by_content(records, np.arange(len(records)))
    return shards, np.zeros(0, dtype=np.int64), "none"


def _by_content(records: StoredRecords, numbers: IntArray) -> tuple[StoredRecords, IntArray, str]:
    """Sorts records by their content hash, and checks the order."""
    ordered = records.content_order(numbers)
    return records, ordered, "content_hash" if records.is_in_content_order(ordered) else "unknown"


def _noised(view: View, shards: StoredRecords, original: StoredRecords) -> tuple[StoredRecords, IntArray]:
    """Returns the records that DP steps sample, and their numbers."""
    if view.noised == "private_shard":
        return shards, np.flatnonzero(shards.is_private)
    if view.noised == "original":
        return original, np.arange(len(original))
    return shards, np.zeros(0, dtype=np.int64)
