"""Reads channels that DiscordChatExporter exported, as JSON or as CSV. Replies stay in the dialogue of the channel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from pipelines.corpus.dialogues import DialogueReader, Item, LeftOut, Message
from pipelines.corpus.exports.parts import (
    MEDIA,
    SYSTEM,
    ChatExport,
    inside,
    left_out,
    name_of,
    objects,
    seconds,
    text_in,
)
from pipelines.corpus.hashed_stream import HashedStream
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.rows import BOM, iter_rows

_SPOKEN = frozenset((None, "Default", "Reply", "0", "19", "20", "21", "23", "ThreadStarterMessage"))
"""Types of messages that people or programs wrote; numbers are types that the exporter has no name for."""
_MARKUP = re.compile(r"<(@[!&]?|#|a?:\w+:)([0-9]+)>")
_MOST_NAMES = 100_000
_DATES = ("%d-%b-%y %I:%M %p", "%m/%d/%Y %I:%M %p", "%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M")
COLUMNS = ("Author", "Date", "Content")


class DiscordReader(ChatExport):
    """Reader of a JSON export."""

    messages = frozenset({"messages.item"})

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._names: dict[str, str] = {}

    def message(self, place: str, value: dict[str, Any]) -> Iterator[Item]:
        """Yields one message. Embeds, attachments and stickers are counted."""
        del place
        kind = value.get("type")
        if not isinstance(kind, str | None) or kind not in _SPOKEN:
            yield SYSTEM
            return
        parts = [*left_out(value.get("attachments")), *left_out(value.get("stickers"))]
        parts += left_out(value.get("embeds"), LeftOut("embed"))
        yield from parts
        text = text_in(value, "content") or text_in(value.get("forwardedMessage"), "content")
        if not text and parts:
            return
        author = value.get("author")
        mentioned = objects(value.get("mentions"))
        for user in (author, *mentioned):
            self._remember(user)
        text, time = _MARKUP.sub(self._readable, text), seconds(value.get("timestamp"))
        names = [name_of(user.get(key)) for user in mentioned for key in ("nickname", "name")]
        yield Message(self.row, _name(author), text, time, names=tuple(filter(None, names)))

    def _remember(self, user: Any) -> None:
        key, name = name_of(inside(user, "id")), _name(user)
        if key and name and len(self._names) < _MOST_NAMES:
            self._names[key] = name

    def _readable(self, found: re.Match[str]) -> str:
        kind, key = found[1], found[2]
        if kind.endswith(":"):
            return kind.removeprefix("a")
        return kind[0] + self._names.get(key, key)


def _name(user: Any) -> str | None:
    return name_of(inside(user, "nickname"), inside(user, "name"), inside(user, "id"))


class DiscordTableReader(DialogueReader):
    """Reader of a CSV export, whose first line names the columns."""

    def items(self, file: BinaryIO) -> Iterator[Item]:
        """Yields the messages and what is left out."""
        from pipelines.corpus.readers import cells_of  # readers load this module by name

        names: list[str] = []
        for row in iter_rows(HashedStream(file), "record", 0, self.options.json_bytes, quoted_after=b","):
            try:
                if row.data is None:
                    raise BadRow("over_long", "longer than corpus.max_document_chars allows. A quote may not end.")
                data = row.data.removeprefix(BOM) if row.number == 0 else row.data
                if not data.strip():
                    continue
                cells = cells_of(_decoded(data), ",", is_quoted=True)
                if not names:
                    names = cells
                    if not set(COLUMNS) <= set(names):
                        yield 1, BadRow("missing_text", f"the first line does not name {', '.join(COLUMNS)}.")
                        return
                elif len(cells) != len(names):
                    raise BadRow("bad_columns", f"has {len(cells)} columns, the first line has {len(names)}.")
                else:
                    yield from _from_cells(row.number, dict(zip(names, cells, strict=True)))
            except BadRow as bad:
                yield max(1, row.number), bad
                if not names:  # without the names of columns no row can be read
                    return


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadRow("undecodable", "not UTF-8. Export the channel again.") from None


def _from_cells(row: int, cells: dict[str, str]) -> Iterator[Item]:
    if cells.get("Attachments"):
        yield MEDIA
        if not cells["Content"].strip():
            return
    author = re.sub(r"#[0-9]{4}$", "", cells["Author"])
    yield Message(row, name_of(author, cells.get("AuthorID")), cells["Content"], seconds(cells["Date"], *_DATES))
