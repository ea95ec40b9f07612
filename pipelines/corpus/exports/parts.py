"""Common parts of the readers of exports: values of JSON files and JSON lines, times, names and HTML."""

from __future__ import annotations

import html
import io
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, cast

import html_text
from lxml.etree import LxmlError

from pipelines.corpus.dialogues import DialogueReader, Item, LeftOut, Message
from pipelines.corpus.hashed_stream import HashedStream
from pipelines.corpus.items import BadRow
from pipelines.corpus.json_stream import json_parts
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.rows import BOM, iter_rows

MEDIA: Final = LeftOut("media")
SYSTEM: Final = LeftOut("system")
DELETED: Final = LeftOut("deleted")

_HEAD_BYTES: Final = 1 << 16
_MOST_SECONDS = 1e11
_TAGS = re.compile(r"<[^<>]*>")
_NO_JSON = "not valid JSON. Export the file again."


def are_in_a_row(head: bytes, lists: Collection[str]) -> bool:
    """Checks if a file holds objects one after another, as if they were elements of a list.

    Args:
        head: beginning of the file
        lists: places of elements in a file with a list, which such objects do not have
    """
    num_values = 0

    def wants(place: str) -> bool:
        nonlocal num_values
        num_values += place == ""
        return place in lists or num_values > 1

    if "item" not in lists or head.removeprefix(BOM).lstrip()[:1] != b"{":
        return False
    place, _ = next(json_parts(io.BytesIO(head), wants, limit_bytes=_HEAD_BYTES), ("", None))
    return place == "" and num_values > 1


def json_or_lines(
    file: BinaryIO, wants: Callable[[str], bool], options: ReadOptions, lists: Collection[str] = ()
) -> Iterator[tuple[int | None, str, Any]]:
    """Yields the values of a JSON file, or of a file with one JSON object per line.

    Args:
        file: bytes of the file, or of a run of whole lines
        wants: function for `json_parts`
        options: options of reading
        lists: wanted places of elements, for `are_in_a_row`

    Yields:
        The number of the line (None for a JSON file), the place, and the value or a `BadRow`. An object of a line, and
        one of several in a row, has the place ``item``.
    """
    limit = options.json_bytes
    head: list[bytes] = []
    while len([line for line in head if line.strip()]) < 2 and sum(map(len, head)) <= limit:
        line = file.readline(limit)
        if not line:
            break
        head.append(line.removeprefix(BOM) if not head else line)
    full = [line for line in head if line.strip()]
    if len(full) < 2 or full[0].lstrip()[:1] == b"[" or not any(isinstance(_loads(line), dict) for line in full):
        data = b"".join(head)
        data += file.read(max(0, _HEAD_BYTES - len(data)))
        is_row = are_in_a_row(data, lists)
        for place, value in json_parts(file, "".__eq__ if is_row else wants, limit_bytes=limit, head=data):
            yield None, "item" if is_row and not isinstance(value, BadRow) else place, value
        return
    for number, line in enumerate(head, start=1):
        if line.strip():
            yield number, "item", _loads(line)
    for row in iter_rows(HashedStream(file), "line", len(head) + 1, limit):
        if row.data is None:
            advice = "longer than corpus.max_document_chars allows. Split it, or leave it out."
            yield row.number, "item", BadRow("over_long", advice)
        elif row.data.strip():
            yield row.number, "item", _loads(row.data)


def _loads(line: bytes) -> Any | BadRow:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return BadRow("bad_json", _NO_JSON)


class ChatExport(DialogueReader):
    """Reader of a JSON export whose messages are elements of lists.

    Attributes:
        messages: places of messages, as `json_parts` names them
        others: places of other values that the reader needs
        row: number of the message that is being read
    """

    messages: frozenset[str]
    others: frozenset[str] = frozenset()

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self.row = 0
        self._has_list = False
        self._num_values = 0

    def message(self, place: str, value: dict[str, Any]) -> Iterator[Item]:
        """Yields the message of one value, or messages, and what is left out. Raises `BadRow`."""
        raise NotImplementedError

    def note(self, place: str, value: Any) -> None:
        """Takes another value that is needed."""

    def _wants(self, place: str) -> bool:
        self._has_list = self._has_list or f"{place}.item" in self.messages
        self._num_values += place == ""
        return place in self.messages or place in self.others

    def items(self, file: BinaryIO) -> Iterator[Item]:
        """Yields the messages and what is left out."""
        head = file.read(_HEAD_BYTES)
        is_row = are_in_a_row(head, self.messages)
        self._has_list = is_row or ("item" in self.messages and head.removeprefix(BOM).strip()[:1] in (b"[", b""))
        wants = "".__eq__ if is_row else self._wants
        for place, value in json_parts(file, wants, limit_bytes=self.options.json_bytes, head=head):
            is_bad = isinstance(value, BadRow)
            place = "item" if is_row else place
            if place not in self.messages and not is_bad:
                self.note(place, value)
                continue
            self.row += 1
            if is_bad:
                yield self.row, value
                continue
            for item in self.checked(place, value):
                if isinstance(item, Message) and not item.is_thread and self._num_values > 1:
                    yield item._replace(thread=f"{self._num_values}/{item.thread}")
                else:
                    yield item
        if not self._has_list and not self.row:
            yield 1, BadRow("missing_text", "holds no list of messages of this tool. Set corpus.format for the file.")

    def checked(self, place: str, value: Any) -> Iterator[Item]:
        """Yields the items of `message`, or the number of the message and the reason why it cannot be used."""
        try:
            if not isinstance(value, dict):
                raise BadRow("not_an_object", "a message is not a JSON object. Export the chat again.")
            yield from self.message(place, value)
        except BadRow as bad:
            yield self.row, bad


def text_in(value: Any, *keys: str) -> str:
    """Returns the first text that is not empty among some keys of an object; empty without one.

    Raises:
        BadRow: the value is no text.
    """
    for key in keys:
        text = inside(value, key)
        if text is not None and not isinstance(text, str):
            raise BadRow("wrong_type", "the text of a message is not a string. Export the chat again.")
        if text and not text.isspace():
            return text
    return ""


def name_of(*values: Any) -> str | None:
    """Returns the first name that is not empty; numbers count as names."""
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64:
            return str(value)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def inside(value: Any, *keys: str) -> Any:
    """Returns the value behind keys in nested objects, or None."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def objects(value: Any) -> list[dict[str, Any]]:
    """Returns the objects of a list; none if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def left_out(value: Any, kind: LeftOut = MEDIA) -> list[LeftOut]:
    """Returns one part left out for each element of a list."""
    return [kind] * len(value) if isinstance(value, list) else []


def seconds(value: Any, *forms: str) -> float | None:
    """Returns the Unix time of a date (ISO 8601, seconds, milliseconds or microseconds); None if it is unknown.

    Dates without a time zone count as UTC.

    Args:
        value: date
        forms: further forms of a date, as `datetime.strptime` takes them
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            try:
                moment = datetime.fromisoformat(value.strip())
                return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
            except (ValueError, OverflowError):
                return _parsed(value, forms)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    while abs(number) > _MOST_SECONDS:
        number /= 1000
    return number


def _parsed(date: str, forms: Iterable[str]) -> float | None:
    for form in forms:
        try:
            return datetime.strptime(" ".join(date.split()), form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            pass
    return None


def text_of_html(content: str) -> str:
    """Returns the text of a piece of HTML, with line breaks between its blocks. Text without markup stays as it is."""
    if "<" not in content and "&" not in content:
        return content
    try:
        text = cast("str", html_text.extract_text(content))
    except (ValueError, LxmlError, RecursionError, AssertionError):
        text = ""
    return text or html.unescape(_TAGS.sub(" ", content)).strip()
