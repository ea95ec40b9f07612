"""Reads ``message_1.json`` of Facebook Messenger and Instagram, and ``messages.json`` of Google Chat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.corpus.dialogues import Item, LeftOut, Message
from pipelines.corpus.exports.parts import (
    DELETED,
    MEDIA,
    SYSTEM,
    ChatExport,
    inside,
    left_out,
    name_of,
    seconds,
    text_in,
)
from pipelines.corpus.items import BadRow

_LISTS = ("photos", "videos", "audio_files", "gifs", "files", "media")
_SYSTEM_TYPES = ("Call", "Subscribe", "Unsubscribe", "call", "subscribe", "unsubscribe")
_GOOGLE_DATES = ("%A, %B %d, %Y at %I:%M:%S %p %Z", "%A, %d %B %Y at %H:%M:%S %Z")


class MessengerReader(ChatExport):
    """Reader of a conversation of Facebook Messenger or Instagram. The export writes UTF-8 as Latin-1 characters."""

    messages = frozenset({"messages.item"})

    def message(self, place: str, value: dict[str, Any]) -> Iterator[Item]:
        """Yields one message. Pictures, stickers, shared pages and the like are counted."""
        del place
        if value.get("is_unsent") is True or value.get("isUnsent") is True:
            yield DELETED
            return
        if value.get("type") in _SYSTEM_TYPES or "call_duration" in value:
            yield SYSTEM
            return
        if not {"sender_name", "senderName"} & value.keys():
            raise BadRow("missing_text", "is no message of Messenger. Leave the file out, or set corpus.format for it.")
        parts = [part for key in _LISTS for part in left_out(value.get(key))]
        parts += [MEDIA] if value.get("sticker") else []
        parts += [LeftOut("embed")] if value.get("share") else []
        yield from parts
        is_old = "sender_name" in value  # encrypted conversations come in another form, with correct characters
        text = text_in(value, "content", "text")
        if text or not parts:
            speaker = name_of(value.get("sender_name"), value.get("senderName"))
            sent = seconds(value.get("timestamp_ms", value.get("timestamp")))
            yield Message(self.row, repaired(speaker) if is_old else speaker, repaired(text) if is_old else text, sent)


def repaired(text: str | None) -> str:
    """Returns the text whose UTF-8 bytes were written as characters; the text itself if it is none."""
    try:
        return (text or "").encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text or ""


class GoogleChatReader(ChatExport):
    """Reader of ``messages.json`` in the folder of a group or direct message."""

    messages = frozenset({"messages.item"})

    def message(self, place: str, value: dict[str, Any]) -> Iterator[Item]:
        """Yields one message. Attached files are counted."""
        del place
        if value.get("message_state") == "DELETED" or "deletion_metadata" in value:
            yield DELETED
            return
        if not {"creator", "created_date", "message_id"} & value.keys():
            raise BadRow("missing_text", "is no message of Google Chat. Leave the file out.")
        files = left_out(value.get("attached_files"))
        yield from files
        text = text_in(value, "text")
        if text or not files:
            creator = value.get("creator")
            speaker = name_of(inside(creator, "name"), inside(creator, "email"))
            yield Message(self.row, speaker, text, seconds(value.get("created_date"), *_GOOGLE_DATES))
