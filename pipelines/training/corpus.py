"""Reads the text that a method needs into encoded records, through files in the scratch folder.

Which text that is says `pipelines.training.views`, and what is held in memory `pipelines.training.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipelines.training.alignment import NO_WORD, starts_word, word_numbers
from pipelines.training.models.vocabulary import Vocabulary
from pipelines.training.ragged import RaggedArray, RaggedWriter
from pipelines.training.records import IntArray, Records, encode_record, target_positions
from pipelines.training.rows import (
    BATCH_ROWS,
    RecordRows,
    RowStore,
    StoredRecords,
    original_rows,
    shard_rows,
    split_private,
    typed_rows,
)
from pipelines.training.tokenizer import ControlTokens, speaker_names
from pipelines.training.views import RecordUnit, View

_ID_DTYPE = np.int32

VocabularyMaker = Callable[[tuple[str, ...], Iterable[str] | None], Vocabulary]
"""Makes a vocabulary of the names of speakers and the texts of public rows, None where there are none."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Encoded held-out records, original text.

    Attributes:
        records: the records, of the same unit as those that were trained on.
        num_words: (n,) words of what was kept of each, split at white space; one more where its end was kept.
        documents: (n,) the number of the document that each belongs to, for standard errors.
        num_available: records in the fold, of which ``len(records)`` were taken.
        word_of_token: as long as each record, the word of each token, `NO_WORD` where it is no text.
        starts_word: (V + 1,) which tokens begin a word (`alignment.starts_word`); with ``word_of_token``, or neither.
    """

    records: Records
    num_words: IntArray
    documents: IntArray
    num_available: int
    word_of_token: RaggedArray | None = None
    starts_word: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingCorpus:
    """Everything that training and evaluation read.

    Attributes:
        vocabulary: the tokenizer, which saw none of the private rows, and its control tokens.
        public_order: the order of ``public``: ``content_hash`` if its records were seen to be in that order, ``none``
            if there are none by the method's nature, ``unknown`` otherwise.
        context_length: the longest record, in tokens.
        public: what steps without noise go through, as the method's view says: public rows, the redacted text of all
            rows (both in the order of their content hash), or, without any promise, original text.
        num_private_plain: how many of ``public`` hold a private row.
        private: what DP steps sample; in an order that depends on no text.
        held_out: records to evaluate on.
    """

    vocabulary: Vocabulary
    public_order: str
    context_length: int
    public: Records
    num_private_plain: int
    private: Records
    held_out: HeldOut


@dataclass(frozen=True)
class _Encoder:
    """How records become ids."""

    vocabulary: Vocabulary
    context_length: int

    @property
    def control(self) -> ControlTokens:
        return self.vocabulary.control

    def encode(self, stored: StoredRecords, chosen: IntArray, path: Path, *, marked: bool = False) -> Records:
        """Encodes the chosen records, in that order.

        Args:
            stored: where their rows are.
            chosen: which records.
            path: the scratch file to write.
            marked: whether to encode private pieces apart and mark their ids.
        """
        num_targets: list[int] = []
        num_truncated = 0
        with (
            RaggedWriter(path, _ID_DTYPE) as ids_out,
            RaggedWriter(path.with_suffix(".private"), np.uint8) as marks_out,
        ):
            for chunk in _chunks(stored, chosen):
                for ids, marks, truncated in self._encode_chunk(chunk, marked):
                    num_truncated += truncated
                    num_targets.append(int(target_positions(np.asarray(ids, dtype=np.int64), self.control).sum()))
                    ids_out.append(ids)
                    marks_out.append(marks)
        return Records(
            ids=ids_out.open(),
            num_targets=np.asarray(num_targets, dtype=np.int64),
            num_truncated=num_truncated,
            control=self.control,
            is_private=marks_out.open() if marked else None,
        )

    def _encode_chunk(self, chunk: Sequence[RecordRows], marked: bool) -> Iterator[tuple[list[int], list[int], bool]]:
        """Ids and marks of each record, and whether it was cut."""
        records = [[self._pieces(record, at, marked) for at in range(len(record.texts))] for record in chunk]
        texts = [text for rows in records for pieces in rows for text, _ in pieces]
        encoded = iter(self.vocabulary.encoder.ids(texts))
        for record, rows in zip(chunk, records, strict=True):
            row_ids: list[list[int]] = []
            marks = [0]
            for speaker, pieces in zip(record.speakers, rows, strict=True):
                row_ids.append([])
                marks += [0] * len(self.control.speaker(speaker))
                for _, is_private in pieces:
                    ids = next(encoded)
                    row_ids[-1] += ids
                    marks += [int(is_private)] * len(ids)
            marks.append(0)
            found, truncated = encode_record(
                list(zip(row_ids, record.speakers, strict=True)), self.control, self.context_length
            )
            yield found, marks[: len(found)], truncated

    def words(self, record: RecordRows, ids: Sequence[int], *, marked: bool) -> list[int]:
        """The number of the word that each of a record's ids is part of, `NO_WORD` where it is no text."""
        numbers, num_words = [NO_WORD], 0
        for at, speaker in enumerate(record.speakers):
            numbers += [NO_WORD] * len(self.control.speaker(speaker))
            text = ""
            spans: list[tuple[int, int]] = []
            for piece, _ in self._pieces(record, at, marked):
                offsets = self.vocabulary.encoder.with_spans(piece).spans
                spans += [(start + len(text), end + len(text)) for start, end in offsets]
                text += piece
            numbers += [NO_WORD if n == NO_WORD else n + num_words for n in word_numbers(text, spans)]
            num_words += len(text.split())
        return [*numbers, NO_WORD][: len(ids)]

    def num_words(self, record: RecordRows, ids: Sequence[int]) -> int:
        """Words of what was kept of a record, split at white space, and one more if its end was kept."""
        if ids[-1] == self.control.eos:
            return sum(len(text.split()) for text in record.texts) + 1
        speakers = {self.control.other_speaker, *self.control.speakers.values()}
        words, start = 0, 0
        for at in [*(i for i, token in enumerate(ids) if token in speakers), len(ids)]:
            words += len(self.vocabulary.backend.decode(list(ids[start:at])).split())
            start = at + 1
        return words

    def _pieces(self, record: RecordRows, at: int, marked: bool) -> list[tuple[str, bool]]:
        """What to encode of a row. A speaker's token parts it from the row before; without one, a blank does."""
        blank = " " if at and not self.control.speaker(record.speakers[at]) else ""
        text = blank + record.texts[at]
        if not marked:
            return [(text, False)]
        return split_private(text, [(start + len(blank), end + len(blank)) for start, end in record.private_chars[at]])


def _chunks(stored: StoredRecords, chosen: IntArray) -> Iterator[list[RecordRows]]:
    chunk: list[RecordRows] = []
    num_rows = 0
    for record in chosen:
        chunk.append(stored[int(record)])
        num_rows += len(chunk[-1].texts)
        if num_rows >= BATCH_ROWS:
            yield chunk
            chunk, num_rows = [], 0
    if chunk:
        yield chunk


def read_held_out(
    paths: Sequence[Path],
    redacted_paths: Sequence[Path] | None,
    *,
    fold: str,
    most: int,
    unit: RecordUnit,
    encoder: _Encoder,
    scratch: Path,
) -> HeldOut:
    """Encodes at most ``most`` records of ``fold``, original text.

    Those with the smallest digest of their identity are taken: it is no function of what they say, so that copies of
    one sentence are not drawn together.
    """
    store = RowStore(scratch, "held_out", unit)
    store.add(original_rows(paths, fold, redacted_paths), is_private=True, hashed=False)
    stored = store.records()
    chosen = stored.sample(most)
    records = encoder.encode(stored, chosen, scratch / "held_out.bin", marked=redacted_paths is not None)
    num_words = []
    with RaggedWriter(scratch / "held_out_words.bin", np.int32) as words:
        for at, record in enumerate(chosen):
            rows, ids = stored[int(record)], records.ids[at].tolist()
            num_words.append(encoder.num_words(rows, ids))
            words.append(encoder.words(rows, ids, marked=redacted_paths is not None))
    control = encoder.control
    return HeldOut(
        records=records,
        num_words=np.asarray(num_words, dtype=np.int64),
        documents=stored.document_numbers[chosen],
        num_available=len(stored),
        word_of_token=words.open(),
        starts_word=starts_word(
            encoder.vocabulary.backend, [*control.never_predicted.tolist(), *control.masks.values(), control.eos]
        ),
    )


def read_corpus(
    *,
    view: View,
    unit: RecordUnit,
    public_paths: Sequence[Path],
    private_paths: Sequence[Path],
    sentence_paths: Sequence[Path],
    redacted_paths: Sequence[Path],
    screened_paths: Sequence[Path] = (),
    scratch: Path,
    make_vocabulary: VocabularyMaker,
    speakers: Sequence[str],
    min_speaker_rows: int,
    context_length: int,
    evaluate_fold: str,
    max_eval_sentences: int,
    progress: Callable[[int, int | None, str], None],
) -> TrainingCorpus:
    """Makes the vocabulary, from public rows at most, and encodes what the method reads, and the held-out records.

    Args:
        view: what the method reads; paths of tables that it does not read may be empty.
        unit: what one record is.
        public_paths: the public shards; the only rows that may shape the vocabulary.
        private_paths: the private shards.
        sentence_paths: the original sentences: for the held-out fold, and for methods that train on original text.
        redacted_paths: the redacted tables beside them, for methods that mark tokens.
        screened_paths: the rows that people screened, for views of them.
        scratch: a folder for intermediate files, on the private side.
        make_vocabulary: gives the vocabulary for the names of speakers and the public texts.
        speakers: speaker names from the settings; empty takes them from public rows.
        min_speaker_rows: public rows that a speaker needs for a control token of its own.
        context_length: the longest record, in tokens.
        evaluate_fold: the fold to evaluate on.
        max_eval_sentences: the most records to evaluate on.
        progress: told what is being read.

    Raises:
        StageError: the tables do not belong together.
    """
    progress(0, None, "reading rows")
    redacted = redacted_paths if view.marks_tokens else None
    sharded = RowStore(scratch, "shards", unit)
    sharded.add(shard_rows(public_paths), is_private=False)
    if view.reads_shards:
        sharded.add(shard_rows(private_paths), is_private=True, hashed=view.plain == "redacted")
    shards = sharded.records()
    names = tuple(sorted(set(speakers))) or speaker_names(shards.public_rows_by_speaker, min_speaker_rows)
    progress(0, None, "making the vocabulary")
    vocabulary = make_vocabulary(names, None if shards.is_private_row.all() else shards.public_texts())
    vocabulary = replace(vocabulary, control=replace(vocabulary.control, asks_for_mask=view.asks_for_masks))
    encoder = _Encoder(vocabulary, context_length)
    progress(0, None, "encoding rows")
    original_store = RowStore(scratch, "original", unit)
    if view.reads_original:
        original_store.add(original_rows(sentence_paths, "train", redacted), is_private=True, hashed=False)
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
        rows = typed_rows(sentence_paths, redacted_paths, masks) if is_typed else shard_rows(screened_paths)
        plain_store = RowStore(scratch, view.plain, unit)
        plain_store.add(rows, is_private=True)
        plain = plain_store.records()
        plain_records = plain.content_order(np.arange(len(plain)))
        order = "content_hash" if plain.is_in_content_order(plain_records) else "unknown"
    elif view.plain == "original":
        plain, plain_records, order = original, np.arange(len(original)), "unknown"
    private, private_records = shards, nothing
    if view.private == "private_shard":
        private_records = np.flatnonzero(shards.is_private)
    elif view.private == "original":
        private, private_records = original, np.arange(len(original))
    return TrainingCorpus(
        vocabulary=vocabulary,
        public_order=order,
        context_length=context_length,
        num_private_plain=int(plain.is_private[plain_records].sum()),
        public=encoder.encode(plain, plain_records, scratch / "public_ids.bin"),
        private=encoder.encode(private, private_records, scratch / "private_ids.bin", marked=view.marks_tokens),
        held_out=read_held_out(
            sentence_paths,
            redacted,
            fold=evaluate_fold,
            most=max_eval_sentences,
            unit=unit,
            encoder=encoder,
            scratch=scratch,
        ),
    )
