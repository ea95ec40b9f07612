"""Encodes stored records for plain language modelling, through files in the scratch folder."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.artifacts import Target
from pipelines.training.data.alignment import NO_WORD, bytes_of_tokens, starts_word, word_numbers
from pipelines.training.data.control import ControlTokens
from pipelines.training.data.held_out import HeldOut
from pipelines.training.data.ragged import RaggedWriter
from pipelines.training.data.records import Frame, Records, frame_of, target_positions
from pipelines.training.data.row_store import IntArray, RecordRows, StoredRecords
from pipelines.training.data.rows import BATCH_ROWS, split_private
from pipelines.training.data.vocabulary import Vocabulary

_ID_DTYPE = np.int32
_NO_PLACE = (-1, -1, -1, 0)


@dataclass(frozen=True)
class RecordEncoder:
    """Encodes records of plain language modelling as ids.

    Attributes:
        vocabulary: vocabulary of the model.
        context_length: longest record, in tokens.
    """

    vocabulary: Vocabulary
    context_length: int

    @property
    def control(self) -> ControlTokens:
        """The control tokens."""
        return self.vocabulary.control

    def encode(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, name: str, *, marked: bool = False
    ) -> Records:
        """Implements `pipelines.training.data.held_out.Encoder.encode`."""
        num_targets = array("q")
        num_truncated = 0
        with (
            RaggedWriter(scratch, f"{name}_ids", _ID_DTYPE) as ids_out,
            RaggedWriter(scratch, f"{name}_private", np.uint8) as marks_out,
        ):
            for chunk in _chunks(stored, chosen):
                for ids, marks, truncated in self.encode_chunk(chunk, marked):
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

    def encode_held_out(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, *, marked: bool = False
    ) -> HeldOut:
        """Encodes the chosen records with the words and places that scores by word need."""
        records = self.encode(stored, chosen, scratch, "held_out", marked=marked)
        num_words = []
        with (
            RaggedWriter(scratch, "held_out_words", np.int32) as words_out,
            RaggedWriter(scratch, "held_out_places", np.int32) as places_out,
        ):
            for at, record in enumerate(chosen):
                rows, ids = stored[int(record)], records.ids[at].tolist()
                num_words.append(self.num_words(rows, ids))
                words, places = self.places(rows, ids, marked=marked)
                words_out.append(words)
                places_out.append(np.asarray(places, dtype=np.int32).ravel())
        return HeldOut(
            records=records,
            num_words=np.asarray(num_words, dtype=np.int64),
            documents=stored.document_numbers[chosen],
            num_available=len(stored),
            word_of_token=words_out.open(),
            places=places_out.open(),
            keys=[stored.keys(int(record)) for record in chosen],
            starts_word=starts_word(self.vocabulary.backend, self.control.never_text),
        )

    def encode_chunk(self, chunk: Sequence[RecordRows], marked: bool) -> Iterator[tuple[list[int], list[int], bool]]:
        """Yields the ids of each record, the marks of private ids, and true if it was cut."""
        frames = [frame_of(record, self.control) for record in chunk]
        records = [
            [_pieces(record, frame, at, marked) for at in range(len(record.texts))]
            for record, frame in zip(chunk, frames, strict=True)
        ]
        texts = [text for rows in records for pieces in rows for text, _ in pieces]
        encoded = iter(self.vocabulary.encoder.ids(texts))
        for frame, rows in zip(frames, records, strict=True):
            row_ids: list[list[int]] = [[] for _ in rows]
            row_marks: list[list[int]] = [[] for _ in rows]
            for at, pieces in enumerate(rows):
                for _, is_private in pieces:
                    piece_ids = next(encoded)
                    row_ids[at] += piece_ids
                    row_marks[at] += [int(is_private)] * len(piece_ids)
            ids, truncated = frame.encode(row_ids, self.context_length)
            yield ids, frame.around(row_marks, lambda _: 0)[: len(ids)], truncated

    def places(
        self, record: RecordRows, ids: Sequence[int], *, marked: bool
    ) -> tuple[list[int], list[tuple[int, int, int, int]]]:
        """Returns the word of a record that each id belongs to (`NO_WORD` for an id that is no text), and its place.

        A place is the row, the first character and the end in the row's text, and the number of bytes of text that the
        token adds, including a blank before the row. It is (-1, -1, -1, 0) for an id that is no text.
        """
        frame = frame_of(record, self.control)
        numbers: list[list[int]] = []
        places: list[list[tuple[int, int, int, int]]] = []
        num_words = 0
        for at in range(len(record.texts)):
            text = ""
            spans: list[tuple[int, int]] = []
            for piece, _ in _pieces(record, frame, at, marked):
                offsets = self.vocabulary.encoder.with_spans(piece).spans
                spans += [(start + len(text), end + len(text)) for start, end in offsets]
                text += piece
            blank = len(text) - len(record.texts[at])
            numbers.append([NO_WORD if n == NO_WORD else n + num_words for n in word_numbers(text, spans)])
            places.append(
                [
                    (at, max(0, start - blank), max(0, end - blank), num_bytes)
                    for (start, end), num_bytes in zip(spans, bytes_of_tokens(text, spans), strict=True)
                ]
            )
            num_words += len(text.split())
        of_tokens, of_places = frame.around(numbers, lambda _: NO_WORD), frame.around(places, lambda _: _NO_PLACE)
        return of_tokens[: len(ids)], of_places[: len(ids)]

    def num_words(self, record: RecordRows, ids: Sequence[int]) -> int:
        """Counts the words of a possibly cut record, split at white space, and one more if its end was kept."""
        if ids[-1] in self.control.ends:
            return sum(len(text.split()) for text in record.texts) + 1
        words, start = 0, 0
        for at in [*(i for i, token in enumerate(ids) if token in self.control.turn_marks), len(ids)]:
            words += len(self.vocabulary.backend.decode(list(ids[start:at])).split())
            start = at + 1
        return words


def _pieces(record: RecordRows, frame: Frame, at: int, marked: bool) -> list[tuple[str, bool]]:
    """Returns the texts to encode of a row. A blank separates it from the row before if no control token does."""
    blank = " " if at and not frame.turns[at] else ""
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
