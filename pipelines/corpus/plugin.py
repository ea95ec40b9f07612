"""Readers of other packages: a class with a `FormatSpec` that turns a stream of bytes into numbered rows."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from pipelines.corpus.datasets import from_record
from pipelines.corpus.dialogues import KINDS, OTHER, Dialogue, Items, LeftOut, dialogue_document
from pipelines.corpus.formats import format_spec, is_plugin, reference
from pipelines.corpus.hashed_stream import HashedStream
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.records import Record, Source, rejected
from pipelines.errors import ConfigError
from pipelines.plugins import check_options, load


class Reader(Protocol):
    """A reader, created as ``Class(options)`` with an instance of the spec's ``options`` model, or None without one.

    The class has an attribute ``spec``, a `FormatSpec`. The rows must depend on the bytes alone.
    """

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Record | Dialogue | LeftOut | BadRow]]:
        """Yields the rows of a stream, in order.

        Args:
            file: decompressed bytes, to be read once from front to back; the whole file for the row kinds ``whole`` and
                ``file``, a run of whole lines or paragraphs for ``line`` and ``paragraph``

        Yields:
            A pair of the row's number, rising from 1 on (the position among lines or paragraphs), and the row's fields
            by the names that ``[corpus]`` maps (``text``, ``id``, ``domain``, ``fold``, ``label``, ``spans``), or the
            reason why it cannot be used, or a part of it that is left out and counted, which needs no number of its
            own (its kind is one of `pipelines.corpus.dialogues.KINDS`). You may skip rows without text if they are not
            an error.
        """
        ...


class _Bytes(io.RawIOBase):
    """A file object that reads a hashed stream."""

    def __init__(self, stream: HashedStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.readline(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def make_reader(format: str, options: ReadOptions, side_files: Sequence[Path] = ()) -> Reader:
    """Imports and creates a reader.

    Args:
        format: name of the format, or import path of a plug-in
        options: options of reading
        side_files: paths of the side files that the format declares and that exist

    Raises:
        ConfigError: see `format_spec`; or the options are wrong, or the reader cannot be created.
    """
    spec = format_spec(format)
    if spec.reader:
        return cast("Reader", load(spec.reader)(options, *side_files))
    try:
        own = check_options(spec.options, json.loads(options.plugin), "corpus.options")
        made = load(reference(format))(own)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    except Exception as error:
        raise ConfigError(
            f"corpus.format: the reader '{format}' could not be created ({type(error).__name__})"
        ) from error
    if not callable(getattr(made, "read", None)):
        raise ConfigError(f"corpus.format: the reader '{format}' needs a method read(file)")
    return cast("Reader", made)


def read_rows(stream: HashedStream, source: Source, side_files: Sequence[Path] = ()) -> Iterator[Items]:
    """Yields the documents and rejected rows of each row from the reader of ``source.format``.

    Dialogues come in the order of their ends, so their numbers need not rise. If the reader fails, the rows from there
    on are rejected. Its message is dropped, because it may quote them.

    Args:
        stream: bytes of a piece, which are read to their end
        source: place of the piece, with the number of its first row
        side_files: paths of the side files, as for `make_reader`
    """
    reader = make_reader(source.format, source.options, side_files)
    file = io.BufferedReader(_Bytes(stream))
    last = 0
    try:
        for number, record in reader.read(file):
            if type(number) is not int or (number <= last and not isinstance(record, (Dialogue, LeftOut))):
                raise ValueError("numbers of rows must rise")
            if is_plugin(source.format):
                record = _with_known_kinds(record)
            if isinstance(record, LeftOut):
                yield [record]
                continue
            last = max(last, number)
            yield _items(source._replace(row=source.row + number - 1), record)
    except MemoryError:
        raise
    except Exception as error:
        detail = (
            f"the reader of corpus.format failed after row {source.row + last - 1} ({type(error).__name__}): the rest "
            "of this part is not read. Correct the reader, or the file."
        )
        yield [rejected(source._replace(row=source.row + last), "reader_failed", detail, 0)]
    while stream.readline():
        pass


def _with_known_kinds(record: Record | Dialogue | LeftOut | BadRow) -> Record | Dialogue | LeftOut | BadRow:
    """Replaces kinds of parts left out that are not in `KINDS`."""
    if isinstance(record, LeftOut):
        return LeftOut(_known(record.kind))
    if isinstance(record, Dialogue) and record.left_out:
        counts: Counter[str] = Counter()
        for kind, number in record.left_out:
            counts[_known(kind)] += int(number)
        return record._replace(left_out=tuple(sorted(counts.items())))
    return record


def _known(kind: object) -> str:
    return kind if isinstance(kind, str) and kind in KINDS else OTHER


def _items(source: Source, record: Record | Dialogue | BadRow) -> Items:
    try:
        if isinstance(record, BadRow):
            raise record
        if isinstance(record, Dialogue):
            return [dialogue_document(source, record)]
        return from_record(source, record)
    except BadRow as bad:
        return [rejected(source, bad.reason, bad.detail, 0)]
