"""Reads the parts of a JSON file of any size that a format needs, one at a time."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, BinaryIO, Final

import ijson
from ijson.common import ObjectBuilder

from pipelines.corpus.items import BadRow

_READ_BYTES: Final = 1 << 16
_MAX_DEPTH: Final = 200
_MARK: Final = "\ufdd0"
"""A code point that no text holds. It stands for bytes that are not UTF-8, and for half of a surrogate pair."""
_CONTROLS: Final = bytes(b if b in b"\0\t\n\r" or b >= 32 else 32 for b in range(256))
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]")
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
_TRUNCATED: Final = "the JSON ends too early, or is damaged: the rest of the file is not read. Copy or export it again."


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _MARK, error.end


codecs.register_error("reticent.mark", _mark)


class _Mended:
    """A file in which a damaged character ends nothing: it becomes a mark inside its string, and the parser goes on.

    It also counts the bytes read since a mark, and stops at a value of more than the limit.
    """

    def __init__(self, file: BinaryIO, limit_bytes: int) -> None:
        self._file = file
        self._limit = limit_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("reticent.mark")
        self._kept = b""
        self._is_start = True
        self.num_bytes = 0
        self.has_marks = False

    def read(self, size: int = -1) -> bytes:
        whole = b""
        while not whole:
            data = self._file.read(size)
            self.num_bytes += len(data)
            if self.num_bytes > self._limit + _READ_BYTES:
                raise _TooLong
            text = self._decoder.decode(data, final=not data)
            if self._is_start and text:
                text, self._is_start = text.removeprefix("\ufeff"), False
            self.has_marks = self.has_marks or _MARK in text
            whole = self._kept + text.encode().translate(_CONTROLS)
            self._kept = b""
            if not data:
                return self._without_halves(whole)
            cut = max(whole.rfind(b" "), whole.rfind(b",")) + 1  # neither is a part of an escape
            if b"\\" in whole[cut:]:
                whole, self._kept = whole[:cut], whole[cut:]
        return self._without_halves(whole)

    def _without_halves(self, data: bytes) -> bytes:
        if len(_HALF.findall(data)) == 2 * len(_PAIR.findall(data)):
            return data
        self.has_marks = True
        return _ESCAPE.sub(lambda m: m[0] if m[1] is None else _MARK.encode(), data)


class _TooLong(Exception):
    """One value is longer than the limit, so that no later value can be read either."""


_OVER_LONG: Final = "is longer than corpus.max_document_chars allows, or nested too deeply. Split it, or leave it out."
_NOT_UTF8: Final = "holds bytes that are not UTF-8, or half of a surrogate pair. Export the file again as UTF-8."


class _Places:
    """The place of each value, as `ijson.parse` names it, down to a depth."""

    def __init__(self) -> None:
        self._next: list[str] = [""]  # place of the next value in each open container
        self._too_deep = 0

    def of(self, event: str, value: Any) -> str | None:
        """Takes an event, and returns the place of the value that it begins; None for other events and below."""
        is_start, is_end = event in ("start_map", "start_array"), event in ("end_map", "end_array")
        if self._too_deep or (is_start and len(self._next) > _MAX_DEPTH):
            self._too_deep += is_start - is_end
            return None
        if is_end:
            self._next.pop()
            return None
        if event == "map_key":
            self._next[-1] = value if len(self._next) == 2 else f"{self._next[-2]}.{value}"
            return None
        place = self._next[-1]
        if is_start:
            self._next.append(f"{place}.item" if place else "item")
        return place

    def skip(self) -> None:
        """Leaves the container that has just begun, because its end is not passed to `of`."""
        self._next.pop()


def json_parts(file: BinaryIO, wants: Callable[[str], bool], *, limit_bytes: int) -> Iterator[tuple[str, Any | BadRow]]:
    """Yields the values at the wanted places of a JSON file, in order, each as soon as it is complete.

    A value inside a wanted value is a part of it, and is not yielded again. Memory holds one wanted value of at most
    ``limit_bytes``.

    Args:
        file: bytes of one JSON value
        wants: function that checks if a place is wanted. A place names keys and array elements, as in
            ``chats.list.item.messages.item`` (``item`` is an element; the file's own value has the place "")
        limit_bytes: size in the file above which a value is replaced by a `BadRow`

    Yields:
        Pairs of a place and its value, or a `BadRow`. A damaged file ends with a `BadRow`.
    """
    counted = _Mended(file, limit_bytes)
    builder: ObjectBuilder | None = None
    is_decoded = True
    place, depth, num_bytes = "", 0, 0
    places = _Places()
    try:
        # `ijson.parse` gives places too, but they take memory in the square of the depth.
        for event, value in ijson.basic_parse(counted, buf_size=_READ_BYTES, use_float=False):
            num_bytes += counted.num_bytes
            counted.num_bytes = 0
            is_start, is_end = event in ("start_map", "start_array"), event in ("end_map", "end_array")
            if isinstance(value, Decimal):
                value = float(value)
            is_marked = counted.has_marks and isinstance(value, str) and _MARK in value
            if depth == 0:
                prefix = places.of(event, value)
                if prefix is None or not wants(prefix):
                    continue
                if not is_start:
                    yield prefix, BadRow("undecodable", _NOT_UTF8) if is_marked else value
                    continue
                builder, place, num_bytes, is_decoded = ObjectBuilder(), prefix, 0, True
                places.skip()
            depth += is_start - is_end
            is_decoded = is_decoded and not is_marked
            if builder is not None:
                builder.event(event, value)
                if num_bytes > limit_bytes + _READ_BYTES or depth > _MAX_DEPTH:
                    builder = None
            if depth == 0:
                bad = BadRow("over_long", _OVER_LONG) if builder is None else BadRow("undecodable", _NOT_UTF8)
                yield place, builder.value if builder is not None and is_decoded else bad
    except _TooLong:
        yield "", BadRow("over_long", "holds a value of a length that is not read: the rest of the file is not read.")
    except (ijson.JSONError, UnicodeDecodeError, ValueError):
        yield "", BadRow("bad_json", _TRUNCATED)
