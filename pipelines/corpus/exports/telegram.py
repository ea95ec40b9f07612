"""Reads ``result.json`` of Telegram Desktop: one chat, or all chats of a full export.

A topic of a group is a dialogue of its own. Other replies stay in the dialogue of the chat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.corpus.dialogues import Item, LeftOut, Message
from pipelines.corpus.exports.parts import MEDIA, SYSTEM, ChatExport, name_of, objects, seconds
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions

_CHATS = ("chats.list.item.", "left_chats.list.item.")
_MEDIA = ("photo", "file", "media_type", "location_information", "contact_information", "live_location_period_seconds")
_OTHER = {"poll": LeftOut("poll"), "game_title": LeftOut("embed"), "invoice_information": LeftOut("embed")}
_MOST_IDS = 100_000


class TelegramReader(ChatExport):
    """Reader of ``result.json``."""

    messages = frozenset({"messages.item", *(f"{chat}messages.item" for chat in _CHATS)})
    others = frozenset(f"{chat}{key}" for chat in _CHATS for key in ("id", "name", "type"))

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._chat = 0
        self._is_new = True
        self._topics: dict[int, int] = {}

    def note(self, place: str, value: Any) -> None:
        """Takes a field of a chat: one after messages begins the next chat."""
        if not self._is_new:
            self._chat += 1
            self._is_new = True
            self._topics.clear()

    def message(self, place: str, value: dict[str, Any]) -> Iterator[Item]:
        """Yields one message. Pictures, voice messages, files and the like are counted."""
        del place
        self._is_new = False
        if value.get("type") == "service":
            if value.get("action") == "topic_created":
                self._put_in_topic(value.get("id"), value.get("id"))
            yield SYSTEM
            return
        parts = [MEDIA] if any(value.get(key) for key in _MEDIA) else []
        parts += [kind for key, kind in _OTHER.items() if value.get(key)]
        yield from parts
        topic = self._topic(value)
        text = _text(value["text"] if "text" in value else value.get("text_entities"))
        if text.strip() or not parts:
            time = seconds(value.get("date_unixtime"))
            time = seconds(value.get("date")) if time is None else time
            speaker = name_of(value.get("from"), value.get("actor"), value.get("from_id"))
            yield Message(self.row, speaker, text, time, f"{self._chat}/{topic or ''}", names=_mentioned(value))

    def _topic(self, value: dict[str, Any]) -> int | None:
        above = value.get("reply_to_message_id")
        topic = self._topics.get(above) if isinstance(above, int) else None
        self._put_in_topic(value.get("id"), topic)
        return topic

    def _put_in_topic(self, message: Any, topic: Any) -> None:
        if isinstance(message, int) and isinstance(topic, int):
            if len(self._topics) >= _MOST_IDS:  # forgets the oldest messages, but no topic
                oldest = next((key for key, root in self._topics.items() if key != root), None)
                self._topics.pop(next(iter(self._topics)) if oldest is None else oldest)
            self._topics[message] = topic


def _mentioned(value: dict[str, Any]) -> tuple[str, ...]:
    parts = [part for key in ("text", "text_entities") for part in objects(value.get(key))]
    names = (name_of(part.get("text")) for part in parts if part.get("type") in ("mention", "mention_name"))
    return tuple(dict.fromkeys(name.removeprefix("@") for name in names if name))


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    parts = value if isinstance(value, list) else [value]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    strings = [text for text in texts if isinstance(text, str)]
    if len(strings) < len(texts):
        raise BadRow("wrong_type", "the text of a message is no list of strings. Export the chat again.")
    return "".join(strings)
