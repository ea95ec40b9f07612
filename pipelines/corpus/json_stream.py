"""Reads the parts of a JSON file of any size that a format needs, one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from pipelines.corpus.items import BadRow
from pipelines.corpus.rows import BOM

_READ_BYTES: Final = 1 << 16
_MAX_DEPTH: Final = 200
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN: Final = re.compile(rb'[\s,:]*+(?:(%b)|([{}\[\]])|([^\s"{}\[\],:]++)|("))?' % _STRING, re.DOTALL)
_MARK: Final = re.compile(rb'%b|["{}\[\]]' % _STRING, re.DOTALL)
_TEXT, _BRACE, _SCALAR, _UNENDED = 1, 2, 3, 4
_CLOSERS: Final = {b"{": b"}", b"[": b"]"}

_DAMAGED: Final = BadRow(
    "bad_json", "the JSON ends too early, or is damaged: the rest of the file is not read. Copy or export it again."
)
_ENDLESS: Final = BadRow(
    "over_long",
    "holds a value of a length that is not read, or is nested too deeply: the rest of the file is not read.",
)
_TOO_LONG: Final = BadRow(
    "over_long", "is longer than corpus.max_document_chars allows, or nested too deeply. Split it, or leave it out."
)


class _Stop(Exception):
    """A reason why no later value can be read."""

    def __init__(self, bad: BadRow) -> None:
        super().__init__()
        self.bad = bad


class _Level:
    """An object or array that is open around the place."""

    def __init__(self, opener: bytes) -> None:
        self.opener = opener
        self.key: str | None = None if opener == b"{" else "item"


class _Token(NamedTuple):
    kind: int | None
    data: bytes


class _Text:
    """The bytes of a file from a position on, with at most one string and one block more than was used."""

    def __init__(self, file: BinaryIO, limit_bytes: int, head: bytes) -> None:
        self._file, self._head = file, head
        self._limit = limit_bytes + _READ_BYTES
        self.data = self._read(_READ_BYTES).removeprefix(BOM)
        self.at = 0

    def _read(self, size: int) -> bytes:
        data, self._head = self._head[:size], self._head[size:]
        return data or self._file.read(size)

    def read_on(self) -> bool:
        """Reads more bytes, and forgets those before the position. Returns false at the end of the file."""
        rest = self.data[self.at :]
        if len(rest) > self._limit:
            raise _Stop(_ENDLESS)
        more = self._read(max(_READ_BYTES, len(rest)))  # twice as much each time, so that no string takes long
        self.data, self.at = rest + more, 0
        return bool(more)

    def token(self) -> _Token:
        """Returns the next token, whose kind is None at the end of the file."""
        while True:
            match = _TOKEN.match(self.data, self.at)
            kind, end = (match.lastindex, match.end()) if match else (None, self.at)
            if kind is None:
                self.at = end
            if (kind in (None, _UNENDED) or (kind == _SCALAR and end == len(self.data))) and self.read_on():
                continue
            if kind == _UNENDED:
                raise _Stop(_DAMAGED)
            self.at = end if kind is not None else self.at
            return _Token(kind, match[kind] if match and kind else b"")

    def rest_of(self, opener: bytes, limit_bytes: int) -> bytes | None:
        """Returns an object or array whose start was read, and moves behind its end; None if it is too long or deep.

        Only its own kind of brackets is counted, so that one without a partner inside costs no later value.
        """
        closer = _CLOSERS[opener][0]
        parts, num_bytes = [opener], 1
        count = depth = deepest = 1
        while True:
            start = end = self.at
            for match in _MARK.finditer(self.data, start):
                end = match.end()
                mark = self.data[match.start()]
                if end - match.start() > 1:
                    continue
                if mark == ord('"'):  # the end of the string is not read yet
                    end -= 1
                    break
                depth += 1 if mark in b"{[" else -1
                deepest = max(deepest, depth)
                count += (mark == opener[0]) - (mark == closer)
                if count == 0:
                    break
            else:
                end = len(self.data)
            num_bytes += end - start
            if num_bytes <= limit_bytes + _READ_BYTES and deepest <= _MAX_DEPTH:
                parts.append(self.data[start:end])
            else:
                parts.clear()
            self.at = end
            if count == 0:
                return b"".join(parts) or None
            if not self.read_on():
                raise _Stop(_DAMAGED)


def json_parts(
    file: BinaryIO, wants: Callable[[str], bool], *, limit_bytes: int, head: bytes = b""
) -> Iterator[tuple[str, Any | BadRow]]:
    """Yields the values at the wanted places of a JSON file, in order, each as soon as it is complete.

    A file may hold several objects or arrays one after another. Their places are the same.

    A value inside a wanted value is a part of it, and is not yielded again. Memory holds one wanted value of at most
    ``limit_bytes``. A wanted value that is no JSON becomes a `BadRow`, and those behind it are read.

    Args:
        file: bytes of one JSON value, or of several objects and arrays
        wants: function that checks if a place is wanted. A place names keys and array elements, as in
            ``chats.list.item.messages.item`` (``item`` is an element; the file's own value has the place "")
        limit_bytes: size in the file above which a value is replaced by a `BadRow`
        head: bytes that were read from the file before

    Yields:
        Pairs of a place and its value, or a `BadRow`. A file that is damaged around the wanted places ends with a
        `BadRow`.
    """
    try:
        yield from _parts(_Text(file, limit_bytes, head), wants, limit_bytes)
    except _Stop as stop:
        yield "", stop.bad


def _parts(text: _Text, wants: Callable[[str], bool], limit_bytes: int) -> Iterator[tuple[str, Any | BadRow]]:
    levels: list[_Level] = []
    is_complete = False
    while True:
        kind, token = text.token()
        if kind is None and is_complete and not levels:
            return
        if kind is None or (is_complete and not levels and token not in (b"{", b"[")):
            raise _Stop(_DAMAGED)
        top = levels[-1] if levels else None
        if token in (b"}", b"]"):
            if top is None or _CLOSERS[top.opener] != token:
                raise _Stop(_DAMAGED)
            levels.pop()
            _close(levels)
            continue
        if top is not None and top.key is None:
            if kind != _TEXT:
                raise _Stop(_DAMAGED)
            key = _value(token)
            top.key = key if isinstance(key, str) else ""
            continue
        place = ".".join(level.key or "" for level in levels) or "." * bool(levels)  # an empty key is not the file
        is_wanted, is_complete = wants(place), True
        if kind == _BRACE and not is_wanted:
            levels.append(_Level(token))
            if len(levels) > _MAX_DEPTH:
                raise _Stop(_ENDLESS)
            continue
        if is_wanted:
            data = text.rest_of(token, limit_bytes) if kind == _BRACE else token
            yield place, _TOO_LONG if data is None else _value(data)
        _close(levels)


def _close(levels: list[_Level]) -> None:
    """Ends the value of a key."""
    if levels and levels[-1].opener == b"{":
        levels[-1].key = None


def _value(data: bytes) -> Any | BadRow:
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        return BadRow("undecodable", "not UTF-8. Set corpus.encoding to the character set of the file.")
    except RecursionError:
        return _TOO_LONG
    except ValueError:
        return BadRow("bad_json", "a part of the file is not valid JSON. Correct it, or export it again.")


def begun_values(data: bytes, at_most: int) -> list[Any]:
    """Returns the objects and arrays at the beginning of a JSON text, the last one up to a cut or to damage.

    Args:
        data: beginning of a file that holds values one after another, with commas or without
        at_most: number of values to return at most
    """
    values: list[Any] = []
    levels: list[_Level] = []
    start = end = at = 0
    closers = b""  # of what is open behind the last complete part
    while len(values) < at_most and len(levels) <= _MAX_DEPTH:
        match = _TOKEN.match(data, at)
        kind = match.lastindex if match else None
        if match is None or kind in (None, _UNENDED) or (kind == _SCALAR and match.end() == len(data)):
            break
        token, at = match[kind], match.end()
        top = levels[-1] if levels else None
        if token in (b"}", b"]"):
            if top is None or _CLOSERS[top.opener] != token:
                break
            levels.pop()
            _close(levels)
        elif top is not None and top.key is None:
            if kind != _TEXT:
                break
            top.key = "key"
            continue
        elif kind == _BRACE:
            start = match.start(kind) if top is None else start
            levels.append(_Level(token))
        elif top is None:
            break
        else:
            _close(levels)
        end, closers = at, b"".join(_CLOSERS[level.opener] for level in reversed(levels))
        if not levels:
            values.append(_value(data[start:end]))
    if levels and len(values) < at_most:
        values.append(_value(data[start:end] + closers))
    return [value for value in values if not isinstance(value, BadRow)]
