"""Reads the text that a method's view asks for, and encodes it as records in files of the scratch folder.

`pipelines.methods.view` describes the views. `pipelines.training.data.row_store` describes the use of memory.
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
from pipelines.training.data.row_store import RowStore, document_lengths
from pipelines.training.data.rows import original_rows, shard_rows, typed_rows
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
    """

    vocabulary: Vocabulary
    nonprivate_order: str
    nonprivate_examples: Examples
    num_private_without_noise: int
    private_examples: Examples
    held_out: HeldOut

    @property
    def num_private(self) -> int:
        """Number of records that hold private text: those of private steps, or else those of nonprivate steps."""
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
        documents: documents tables, if a record shows that it ends its conversation.
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
    view, unit = settings.view, settings.unit
    progress(0, None, "reading rows")
    redacted = tables.redacted if view.marks_tokens else None
    lengths = document_lengths(tables.documents)
    excluded, held = Exclusion.of(tables.excluded), held_rows(tables.held)
    sharded = RowStore(scratch, "shards", unit, lengths)
    sharded.add(excluded.kept(shard_rows(tables.public)), is_private=False)
    if view.reads_shards:
        sharded.add(excluded.kept(shard_rows(tables.private)), is_private=True, hashed=view.plain == "redacted")
    shards = sharded.records()
    speakers, domains = tuple(sorted(set(settings.speakers))), tuple(sorted(set(settings.domains)))
    if not speakers and view.learns_words:
        speakers = common_names(shards.speakers.counts(~shards.is_private_row), settings.min_speaker_rows)
    if not domains and view.learns_words:
        taken = {*RESERVED, *map(name_token, speakers)}
        domains = common_names(shards.domains.counts(~shards.is_private_row), settings.min_speaker_rows, taken)
    progress(0, None, "making the vocabulary")
    vocabulary = make_vocabulary(speakers, domains, None if shards.is_private_row.all() else shards.public_texts())
    vocabulary = replace(vocabulary, control=replace(vocabulary.control, asks_for_mask=view.asks_for_masks))
    encoder = make_encoder(vocabulary)
    progress(0, None, "encoding rows")
    original_store = RowStore(scratch, "original", unit, lengths)
    if view.reads_original:
        rows = excluded.kept(original_rows(tables.sentences, "train", redacted, held))
        original_store.add(rows, is_private=True, hashed=False)
    original = original_store.records()

    nothing, order = np.zeros(0, dtype=np.int64), "none"
    nonprivate, nonprivate_records = shards, nothing
    if view.plain == "original":
        nonprivate, nonprivate_records, order = original, np.arange(len(original)), "unknown"
    elif view.plain != "none":
        if view.plain in ("screened", "typed"):
            masks, is_typed = tuple(vocabulary.control.typed_masks), view.plain == "typed"
            typed = typed_rows(tables.sentences, tables.redacted, masks, held) if is_typed else None
            store = RowStore(scratch, view.plain, unit, lengths)
            store.add(excluded.kept(typed or shard_rows(tables.screened)), is_private=True)
            nonprivate = store.records()
        is_read = ~shards.is_private if view.plain == "public_shard" else np.ones(len(nonprivate), dtype=np.bool_)
        nonprivate_records = nonprivate.content_order(np.flatnonzero(is_read))
        order = "content_hash" if nonprivate.is_in_content_order(nonprivate_records) else "unknown"
    if view.plain != "screened":  # people screened some rows only
        excluded.check()
    private, private_records = shards, nothing
    if view.noised == "private_shard":
        private_records = np.flatnonzero(shards.is_private)
    elif view.noised == "original":
        private, private_records = original, np.arange(len(original))
    return TrainingCorpus(
        vocabulary=vocabulary,
        nonprivate_order=order,
        num_private_without_noise=int(nonprivate.is_private[nonprivate_records].sum()),
        nonprivate_examples=encoder.encode(nonprivate, nonprivate_records, scratch, "plain"),
        private_examples=encoder.encode(private, private_records, scratch, "noised", marked=view.marks_tokens),
        held_out=read_held_out(
            tables.sentences,
            redacted,
            fold=settings.evaluate_fold,
            most=settings.max_eval_sentences,
            unit=unit,
            encoder=encoder,
            scratch=scratch,
            lengths=lengths,
        ),
    )
