"""Reads the parts of a JSON file of any size that a format needs, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import ijson
from ijson.common import ObjectBuilder

from pipelines.corpus.items import BadRow

_READ_BYTES: Final = 1 << 16
_MAX_DEPTH: Final = 200
_TRUNCATED: Final = "the JSON ends too early, or is damaged: the rest of the file is not read. Copy or export it again."


class _Counted:
    """A file that counts the bytes read since a mark, and stops at a value of more than the limit."""

    def __init__(self, file: BinaryIO, limit_bytes: int) -> None:
        self._file = file
        self._limit = limit_bytes
        self.num_bytes = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.num_bytes += len(data)
        if self.num_bytes > self._limit + _READ_BYTES:
            raise _TooLong
        return data


class _TooLong(Exception):
    """One value is longer than the limit, so that no later value can be read either."""


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
            self._next[-1] = _inside(self._next[-2], value)
            return None
        place = self._next[-1]
        if is_start:
            self._next.append(_inside(place, "item"))
        return place

    def skip(self) -> None:
        """Leaves the container that has just begun, because its end is not passed to `of`."""
        self._next.pop()


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


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
    counted = _Counted(file, limit_bytes)
    builder: ObjectBuilder | None = None
    place, depth, num_bytes = "", 0, 0
    places = _Places()
    try:
        # `ijson.parse` gives places too, but they take memory in the square of the depth.
        for event, value in ijson.basic_parse(counted, buf_size=_READ_BYTES, use_float=True):
            num_bytes += counted.num_bytes
            counted.num_bytes = 0
            is_start, is_end = event in ("start_map", "start_array"), event in ("end_map", "end_array")
            if depth == 0:
                prefix = places.of(event, value)
                if prefix is None or not wants(prefix):
                    continue
                if not is_start:
                    yield prefix, value
                    continue
                builder, place, num_bytes = ObjectBuilder(), prefix, 0
                places.skip()
            depth += is_start - is_end
            if builder is not None:
                builder.event(event, value)
                if num_bytes > limit_bytes + _READ_BYTES or depth > _MAX_DEPTH:
                    builder = None
            if depth == 0:
                advice = (
                    "is longer than corpus.max_document_chars allows, or nested too deeply. Split it, or leave it out."
                )
                yield place, BadRow("over_long", advice) if builder is None else builder.value
    except _TooLong:
        yield "", BadRow("over_long", "holds a value of a length that is not read: the rest of the file is not read.")
    except (ijson.JSONError, UnicodeDecodeError, ValueError):
        yield "", BadRow("bad_json", _TRUNCATED)
