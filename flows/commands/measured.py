"""Reads files as a run would, and counts what it finds, for `reticent init`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from pipelines.corpus.dialogues import LeftOut
from pipelines.corpus.fields import Look
from pipelines.corpus.head_piece import CUT, head_pieces
from pipelines.corpus.items import EMPTY, Document, Rejected
from pipelines.corpus.listing import InputFile
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.errors import InputError

if TYPE_CHECKING:
    from pipelines.context import Piece
    from pipelines.corpus.split import Sentence, Splitter

HEAD_ROWS: Final = 1_000
HEAD_BYTES: Final = 4_000_000
SAMPLED_TEXTS: Final = 500
SHOWN_TEXTS: Final = 3
_EVERYTHING: Final = 1 << 60
_LONGEST_SHOWN: Final = 10_000


@dataclass(kw_only=True)
class Measured:
    """Findings of a reading in files.

    Attributes:
        num_documents: number of documents
        num_input_rows: number of rows, messages or lines that gave them, see `Document.num_rows`
        num_sentences: number of sentences and turns, the rows of training
        num_empty: number of rows without text
        reasons: numbers of rejected rows by reason
        has_speakers: flag that turns have speakers
        has_names: flag that files name speakers, or people who are mentioned, by something else than a role
        texts: texts of the first documents
        shown: texts of the very first documents, with a line ``SPEAKER: text`` for each turn of a dialogue
        distinct: digests of the documents' texts
        num_bytes: size of the part that was read
        is_whole: flag that everything was read
    """

    num_documents: int = 0
    num_input_rows: int = 0
    num_sentences: int = 0
    num_empty: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    has_speakers: bool = False
    has_names: bool = False
    texts: list[str] = field(default_factory=list, repr=False)
    shown: list[str] = field(default_factory=list, repr=False)
    distinct: set[int] = field(default_factory=set, repr=False)
    num_bytes: int = 0
    is_whole: bool = True

    @property
    def rejected_share(self) -> float:
        """Share of rejected rows, 0 to 1; 1 if there is no document at all, but something rejected."""
        rejected = self.reasons.total()
        return rejected / max(1, rejected + self.num_input_rows)

    @property
    def repeats(self) -> bool:
        """Checks if most documents repeat others."""
        return self.num_documents >= 10 and len(self.distinct) < self.num_documents / 2

    def add(self, other: Measured) -> None:
        """Adds the findings in further files."""
        self.num_documents += other.num_documents
        self.num_input_rows += other.num_input_rows
        self.num_sentences += other.num_sentences
        self.num_empty += other.num_empty
        self.reasons.update(other.reasons)
        self.has_speakers |= other.has_speakers
        self.has_names |= other.has_names
        self.texts += other.texts[: SAMPLED_TEXTS - len(self.texts)]
        self.shown += other.shown[: SHOWN_TEXTS - len(self.shown)]
        self.distinct |= other.distinct
        self.num_bytes += other.num_bytes
        self.is_whole &= other.is_whole


class Measure:
    """Reads files, and splits their documents with the default settings of ``[split]``."""

    def __init__(self) -> None:
        self._splitter: Splitter | None = None

    def file(self, file: InputFile, look: Look, *, is_whole: bool, most_texts: int = SAMPLED_TEXTS) -> Measured:
        """Reads a file, or its beginning."""
        if look.format is None:
            raise ValueError("nothing reads the file")
        options = ReadOptions(**dict(look.fields))
        rows, size = (_EVERYTHING, _EVERYTHING) if is_whole else (HEAD_ROWS, HEAD_BYTES)
        pieces, is_all = head_pieces(file.path, file.name, look.format, options, max_rows=rows, max_bytes=size)
        found = self._measured(pieces, options, is_all, most_texts)
        if not found.num_documents and any(piece.digest == CUT for piece in pieces):
            # Such as a PDF, whose directory is at its end.
            every = _EVERYTHING
            pieces, _ = head_pieces(file.path, file.name, look.format, options, max_rows=every, max_bytes=every)
            found = self._measured(pieces, options, False, most_texts)
        return found

    def _measured(self, pieces: Sequence[Piece], options: ReadOptions, is_whole: bool, most_texts: int) -> Measured:
        found = Measured(is_whole=is_whole, num_bytes=sum(piece.end_byte - piece.start_byte for piece in pieces))
        after: Counter[str] = Counter()  # rejected after the last document

        def documents() -> Iterator[Document]:
            for item in islice(_items(pieces, options), None if is_whole else HEAD_ROWS):
                if isinstance(item, Rejected):
                    if item.reason == EMPTY:
                        found.num_empty += 1
                    else:
                        after[item.reason] += 1
                if not isinstance(item, Document):
                    continue
                found.reasons.update(after)
                after.clear()
                found.num_documents += 1
                found.num_input_rows += item.num_rows
                found.distinct.add(hash(item.text))
                if len(found.texts) < most_texts:
                    found.texts.append(item.text)
                yield item

        for document, sentences in self._split(documents()):
            found.num_sentences += len(sentences)
            found.has_speakers |= any(sentence.speaker for sentence in sentences)
            found.has_names = found.has_names or bool(document.names) or self._names_speakers(document)
            if len(found.shown) < SHOWN_TEXTS:
                found.shown.append(_shown(document, sentences)[:_LONGEST_SHOWN])
        if is_whole or not found.num_documents:  # the cut may have damaged what follows the last document
            found.reasons.update(after)
        return found

    def _split(self, documents: Iterable[Document]) -> Iterator[tuple[Document, list[Sentence]]]:
        if self._splitter is None:
            from pipelines.corpus.split import Splitter  # imports spaCy

            self._splitter = Splitter()
        return self._splitter.split_each(documents, lambda item: (item.text, item.turns or item.layout))

    def _names_speakers(self, document: Document) -> bool:
        return bool(self._splitter and self._splitter.speakers(document.text, document.turns or document.layout))


def _items(pieces: Sequence[Piece], options: ReadOptions) -> Iterator[Document | Rejected | LeftOut]:
    for piece in pieces:
        try:
            yield from read_documents(piece, options)
        except InputError:
            if piece.digest != CUT:
                raise


def _shown(document: Document, sentences: Sequence[Sentence]) -> str:
    if document.turns is None:
        return document.text
    return "\n".join(f"{s.speaker}: {s.text}" if s.speaker else s.text for s in sentences)
