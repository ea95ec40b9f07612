"""Reads the files of a Slack export: one JSON file for each channel and day.

The names of users and channels come from ``users.json`` and ``channels.json`` in the folder above. A thread is a
dialogue. The other messages of a channel are grouped by gaps of time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.corpus.dialogues import Item, LeftOut, Message
from pipelines.corpus.exports.parts import DELETED, SYSTEM, ChatExport, inside, left_out, name_of, seconds, text_in
from pipelines.corpus.items import BadRow
from pipelines.corpus.json_stream import json_parts
from pipelines.corpus.open_input import NotAFile, open_ordinary
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.side_files import of_file

_SPOKEN = frozenset(
    (None, "", "thread_broadcast", "reply_broadcast", "bot_message", "me_message", "file_share", "file_comment")
) | {"slackbot_response", "assistant_app_thread", "document_comment_root"}
_MARKUP = re.compile(r"<([^<>]*)>|&(amp|lt|gt);")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">"}
_ENTRY_BYTES = 1 << 20
_MOST_NAMES = 1_000_000
_REPLIES = "slackdump_thread_replies"


class SlackReader(ChatExport):
    """Reader of a channel's messages."""

    messages = frozenset({"item", "messages.item"})

    def __init__(self, options: ReadOptions, *side_files: Path) -> None:
        super().__init__(options)
        self._names: dict[str, str] = {}
        self._mentioned: list[str] = []
        for path in side_files:
            self._names |= of_file(path, names_in)

    def message(self, place: str, value: dict[str, Any]) -> Iterator[Item]:
        """Yields one message, and the replies that some tools put inside it."""
        yield from self._one(value)
        replies = value.get(_REPLIES)
        for reply in replies if isinstance(replies, list) else ():
            self.row += 1
            yield from self.checked(place, {**reply, _REPLIES: None} if isinstance(reply, dict) else reply)

    def _one(self, value: dict[str, Any]) -> Iterator[Item]:
        subtype = value.get("subtype")
        if value.get("type") != "message" and "ts" not in value:
            raise BadRow("missing_text", "is no message of Slack. Leave the file out, or set corpus.format for it.")
        if subtype == "tombstone" or value.get("hidden") is True:
            yield DELETED
            return
        if not isinstance(subtype, str | None) or subtype not in _SPOKEN:
            yield SYSTEM
            return
        yield from left_out(value.get("files"))
        yield from left_out(value.get("attachments"), LeftOut("embed"))
        text = text_in(value, "text")
        if not text and (value.get("files") or value.get("attachments")):
            return
        speaker, thread = self._speaker(value), name_of(value.get("thread_ts"))
        text = _MARKUP.sub(self._readable, text)
        names, self._mentioned = tuple(dict.fromkeys(self._mentioned)), []
        yield Message(self.row, speaker, text, seconds(value.get("ts")), thread, thread is not None, names)

    def _speaker(self, value: dict[str, Any]) -> str | None:
        user = name_of(value.get("user"), inside(value, "bot_profile", "user_id"))
        given = _name(value.get("user_profile"))
        if user and given and len(self._names) < _MOST_NAMES:
            self._names.setdefault(user, given)
        bot = (value.get("username"), inside(value, "bot_profile", "name"))
        return name_of(self._names.get(user or ""), given, *bot, user, value.get("bot_id"))

    def _readable(self, found: re.Match[str]) -> str:
        if found[2]:
            return _ENTITIES[found[2]]
        target, _, label = found[1].partition("|")
        label = _MARKUP.sub(lambda m: _ENTITIES[m[2]], label)
        if target.startswith("@"):
            name = self._names.get(target[1:]) or label.removeprefix("@") or target[1:]
            self._mentioned.append(name)
            return f"@{name}"
        if target.startswith("#"):
            return "#" + (label.removeprefix("#") or self._names.get(target[1:]) or target[1:])
        if target.startswith("!"):
            return label or "@" + target[1:].partition("^")[0]
        return label or _MARKUP.sub(lambda m: _ENTITIES[m[2]], target.removeprefix("mailto:").removeprefix("tel:"))


def _name(user: Any) -> str | None:
    profile = inside(user, "profile")
    return name_of(
        inside(profile, "real_name"),
        inside(user, "real_name"),
        inside(profile, "display_name"),
        inside(user, "display_name"),
        inside(user, "name"),
    )


def names_in(path: Path) -> dict[str, str]:
    """Returns the names of users or channels by their ids, as far as a file can be read."""
    names: dict[str, str] = {}
    try:
        with open_ordinary(path) as file:
            for _, value in json_parts(file, {"item", "members.item"}.__contains__, limit_bytes=_ENTRY_BYTES):
                name, key = _name(value), inside(value, "id")
                if name and isinstance(key, str):
                    names[key] = name
    except NotAFile:
        pass
    return names
