"""Reads Microsoft Teams: messages of the Graph API, and ``messages.json`` of a person's own Teams or Skype export."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pipelines.corpus.dialogues import Item, LeftOut, Message
from pipelines.corpus.exports.parts import (
    DELETED,
    MEDIA,
    SYSTEM,
    ChatExport,
    inside,
    name_of,
    objects,
    seconds,
    text_in,
    text_of_html,
)
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions

SPOKEN = ("Text", "RichText", "RichText/Html")
# Attributes and quotes are bounded, so that the time is linear in the text.
_QUOTES = re.compile(
    r"<quote\b[^<>]{0,500}>(?:(?!<quote\b).){0,20000}?</quote>"
    r"|<blockquote\b[^<>]{0,500}schema\.skype\.com/(?:Reply|Forward)[^<>]{0,500}>(?:(?!<blockquote\b).){0,20000}?</blockquote>",
    re.DOTALL | re.IGNORECASE,
)
_EMOJI = re.compile(r"<(?:emoji|img)\b[^<>]{0,1000}?\balt=\"([^\"<>]{1,8})\"[^<>]{0,1000}>", re.IGNORECASE)
_MENTION = re.compile(r"<at\b[^<>]{0,500}>@?", re.IGNORECASE)
_IMAGE = re.compile(r"<(?:img|URIObject)\b", re.IGNORECASE)


class TeamsReader(ChatExport):
    """Reader of chat messages (``chatMessage`` of Microsoft Graph), as one answer or as a list."""

    messages = frozenset({"item", "value.item", "messages.item"})

    def message(self, place: str, value: dict[str, Any]) -> Iterator[Item]:
        """Yields a message and its replies, in the order of their times."""
        yield from self._one(value)
        replies = value.get("replies")
        if isinstance(replies, list):
            for reply in sorted(replies, key=lambda r: seconds(inside(r, "createdDateTime")) or 0.0):
                self.row += 1
                yield from self.checked(place, {**reply, "replies": None} if isinstance(reply, dict) else reply)

    def _one(self, value: dict[str, Any]) -> Iterator[Item]:
        body = value.get("body")
        if not isinstance(body, dict) and "messageType" not in value:
            raise BadRow("missing_text", "is no message of Teams. Leave the file out, or set corpus.format for it.")
        if value.get("messageType", "message") != "message":
            yield SYSTEM
            return
        if value.get("deletedDateTime"):
            yield DELETED
            return
        content = text_in(body, "content")
        is_html = str(inside(body, "contentType")).lower() != "text"
        parts = [kind for a in objects(value.get("attachments")) if (kind := _kind(a)) is not None]
        text, images = _readable(content) if is_html else (content, [])
        yield from (*parts, *images)
        subject = text_in(value, "subject")
        if subject:
            text = f"{subject}\n{text}"
        if text.strip() or not (parts or images):
            names = tuple(filter(None, (name_of(m.get("mentionText")) for m in objects(value.get("mentions")))))
            channel, time = inside(value, "channelIdentity", "channelId"), seconds(value.get("createdDateTime"))
            yield Message(self.row, _sender(value), text, time, _thread(value), bool(channel), names)


def _kind(attachment: dict[str, Any]) -> LeftOut | None:
    form = attachment.get("contentType")
    if form in ("messageReference", "forwardedMessageReference"):  # a quote of another message
        return None
    return LeftOut("embed") if isinstance(form, str) and "card" in form else MEDIA


def _thread(value: dict[str, Any]) -> str | None:
    channel = inside(value, "channelIdentity", "channelId")
    if not channel:
        return name_of(value.get("chatId"))
    return f"{channel}/{name_of(value.get('replyToId'), value.get('id'))}"


def _sender(value: dict[str, Any]) -> str | None:
    sender = value.get("from")
    if isinstance(sender, str):
        return name_of(sender)
    kinds = ("user", "application", "device", "conversation")
    names = [inside(sender, kind, key) for key in ("displayName", "id") for kind in kinds]
    return name_of(*names, inside(sender, "emailAddress", "name"))


def _readable(content: str) -> tuple[str, list[LeftOut]]:
    content = _EMOJI.sub(lambda found: found[1] if not found[1].isascii() else found[0], _QUOTES.sub("", content))
    content = _MENTION.sub("@", content)
    return text_of_html(content), [MEDIA] * len(_IMAGE.findall(content))


class SkypeReader(ChatExport):
    """Reader of ``messages.json`` with a list of conversations."""

    messages = frozenset({"conversations.item.MessageList.item"})
    others = frozenset({"conversations.item.id", "conversations.item.displayName"})

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._number = 0
        self._is_new = True

    def note(self, place: str, value: Any) -> None:
        """Takes a field of a conversation: one after messages begins the next conversation."""
        if not self._is_new:
            self._number, self._is_new = self._number + 1, True

    def message(self, place: str, value: dict[str, Any]) -> Iterator[Item]:
        """Yields one message. Calls and changes of members are dropped, and pictures and files are counted."""
        del place
        self._is_new = False
        kind = value.get("messagetype")
        if not isinstance(kind, str):
            raise BadRow("missing_text", "is no message of Teams or Skype. Export the chats again.")
        if kind not in SPOKEN:
            yield MEDIA if "Media" in kind or kind in ("RichText/UriObject", "RichText/Files") else SYSTEM
            return
        properties = value.get("properties")
        if inside(properties, "deletetime") or inside(properties, "isserversidedeleted"):
            yield DELETED
            return
        content = text_in(value, "content")
        text, images = (content, []) if kind == "Text" else _readable(content)
        yield from images
        if text.strip() or not images:
            speaker = name_of(value.get("displayName"), value.get("imdisplayname"), value.get("from"))
            sent = seconds(value.get("originalarrivaltime"))
            sent = seconds(value.get("id")) if sent is None else sent
            yield Message(self.row, speaker, text, sent, name_of(value.get("conversationid")) or str(self._number))
