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
from pipelines.training.data.row_store import RowStore, document_lengths
from pipelines.training.data.rows import original_rows, shard_rows, typed_rows
from pipelines.training.data.vocabulary import Vocabulary

VocabularyMaker = Callable[[tuple[str, ...], tuple[str, ...], Iterable[str] | None], Vocabulary]
"""Makes a vocabulary of the names of speakers, of domains, and the texts of public rows, None where there are none."""


@dataclass(frozen=True, kw_only=True)
class TrainingCorpus:
    """Everything that training and evaluation read.

    Attributes:
        vocabulary: the tokenizer, which saw none of the private rows, and its control tokens.
        nonprivate_order: the order of ``plain``: ``content_hash`` if its records were seen to be in that order, ``none``
            if there are none by the method's nature, ``unknown`` otherwise.
        plain: what steps without noise go through, as the method's view says: public rows, the redacted text of all
            rows (both in the order of their content hash), or, without any promise, original text.
        num_nonprivate_with_private_text: how many of ``plain`` hold a private row.
        noised: what DP steps sample; in an order that depends on no text.
        held_out: records to evaluate on.
    """

    vocabulary: Vocabulary
    nonprivate_order: str
    plain: Examples
    num_nonprivate_with_private_text: int
    noised: Examples
    held_out: HeldOut

    @property
    def num_private(self) -> int:
        """Records that hold private text: those that private steps sample, or else those among the plain ones."""
        return len(self.private_examples) or self.num_nonprivate_with_private_text


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

    every, nothing = np.arange(len(shards)), np.zeros(0, dtype=np.int64)
    order = "none"
    plain, plain_records = shards, nothing
    if view.plain in ("public_shard", "redacted"):
        of_shards = np.flatnonzero(~shards.is_private) if view.plain == "public_shard" else every
        plain_records = shards.content_order(of_shards)
        order = "content_hash" if shards.is_in_content_order(plain_records) else "unknown"
    elif view.plain in ("screened", "typed"):
        masks = tuple(vocabulary.control.typed_masks)
        is_typed = view.plain == "typed"
        rows = typed_rows(tables.sentences, tables.redacted, masks, held) if is_typed else shard_rows(tables.screened)
        plain_store = RowStore(scratch, view.plain, unit, lengths)
        plain_store.add(excluded.kept(rows), is_private=True)
        plain = plain_store.records()
        plain_records = plain.content_order(np.arange(len(plain)))
        order = "content_hash" if plain.is_in_content_order(plain_records) else "unknown"
    elif view.plain == "original":
        plain, plain_records, order = original, np.arange(len(original)), "unknown"
    if view.plain != "screened":  # people screened some rows only
        excluded.check()
    noised, noised_records = shards, nothing
    if view.noised == "private_shard":
        noised_records = np.flatnonzero(shards.is_private)
    elif view.noised == "original":
        noised, noised_records = original, np.arange(len(original))
    return TrainingCorpus(
        vocabulary=vocabulary,
        nonprivate_order=order,
        num_nonprivate_with_private_text=int(plain.is_private[plain_records].sum()),
        nonprivate_examples=encoder.encode(plain, plain_records, scratch, "plain"),
        private_examples=encoder.encode(noised, noised_records, scratch, "noised", marked=view.marks_tokens),
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
