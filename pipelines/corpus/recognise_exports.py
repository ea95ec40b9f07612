"""Recognises exports of chat and ticket tools by the structure of their first messages."""

from __future__ import annotations

import csv
import functools
import io
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from pipelines.corpus.exports.discord import COLUMNS
from pipelines.corpus.exports.parts import inside, json_or_lines
from pipelines.corpus.exports.teams import SPOKEN
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.recognise_pages import root_of
from pipelines.corpus.recognition import Head, Reading, Recogniser

_FEW = 20
_SURE, _LIKELY = 0.97, 0.9
_SLACK_LISTS = ("users", "org_users", "channels", "groups", "dms", "mpims", "integration_logs", "canvases", "lists")
_SKYPE = frozenset({"conversations.item.MessageList.item"})
_FIELDS = (
    "type", "source", "conversation_message", "conversation_parts",
    "comments", "requester_id", "requester", "subject", "description", "status",
)  # fmt: skip
_TELEGRAM = ("messages.item", "chats.list.item.messages.item", "left_chats.list.item.messages.item")
_LISTS = ("item", "members.item", "messages.item", "value.item", "data.item", "conversations.item")
_PLACES = frozenset((*_TELEGRAM, *_LISTS, *_FIELDS, "tickets.item", "ticket", "results.item"))
_HINT = re.compile(
    rb'"(?:ts|author|author_id|from_id|actor|messagetype|messageType|creator|sender_name|senderName|requester|requester_id'
    rb'|conversation_parts|conversation_message|profile|members|created|team_id|real_name|service_type|app_type)"\s*:'
)
"""Keys of which every export has at least one."""

Check = Callable[[Mapping[str, Any]], bool]


@functools.lru_cache(maxsize=2)
def _values(data: bytes, places: frozenset[str]) -> dict[str, list[Any]]:
    """Returns the first values at some places of a JSON file or of JSON lines, with at most a few for each place."""
    found: dict[str, list[Any]] = {}
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"[") or _HINT.search(data) is None:
        return found
    lists = places.difference(_FIELDS)
    for _, place, value in json_or_lines(io.BytesIO(data), places.__contains__, ReadOptions(), lists):
        if isinstance(value, BadRow):
            continue
        found.setdefault(place, []).append(value)
        if len(found[place]) >= _FEW or (place == "item" and not isinstance(value, dict)):
            break
    return found


def _most(values: Iterable[Any], check: Check) -> bool:
    results = [isinstance(value, dict) and check(value) for value in values]
    return bool(results) and sum(results) >= 0.8 * len(results)


def _by_messages(format: str, what: str, places: tuple[str, ...], check: Check) -> Recogniser:
    """Makes a recogniser of a file with a list of messages or tickets."""

    def recognise(head: Head) -> Reading | None:
        found = _values(head.data, _SKYPE if format == "skype" else _PLACES)
        values = [value for place in places for value in found.get(place, ())]
        return Reading(format, _SURE, what) if _most(values, check) else None

    return recognise


def _single(format: str, what: str, check: Check) -> Recogniser:
    """Makes a recogniser of a file that holds one ticket, by its own fields."""

    def recognise(head: Head) -> Reading | None:
        found = _values(head.data, _PLACES)
        value = {key: found[key][0] for key in _FIELDS if key in found}
        return Reading(format, _LIKELY, what) if value and check(value) else None

    return recognise


def _is_slack(value: Mapping[str, Any]) -> bool:
    return value.get("type") == "message" and isinstance(value.get("ts"), str) and "role" not in value


def _is_discord(value: Mapping[str, Any]) -> bool:
    return {"timestamp", "content", "author", "type"} <= value.keys() and isinstance(value["author"], dict)


def _is_telegram(value: Mapping[str, Any]) -> bool:
    is_dated = isinstance(value.get("date"), str) and "id" in value
    return is_dated and value.get("type") in ("message", "service") and bool({"text", "action"} & value.keys())


def _is_teams(value: Mapping[str, Any]) -> bool:
    is_message = isinstance(value.get("messageType"), str) and "createdDateTime" in value
    return is_message and ("body" in value or "eventDetail" in value)


def _is_skype(value: Mapping[str, Any]) -> bool:
    kind = value.get("messagetype")
    return isinstance(kind, str) and (kind in SPOKEN or "/" in kind) and "content" in value


def _is_messenger(value: Mapping[str, Any]) -> bool:
    return {"sender_name", "timestamp_ms"} <= value.keys() or {"senderName", "timestamp", "type"} <= value.keys()


def _is_google(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("creator"), dict) and bool({"created_date", "message_state"} & value.keys())


def _is_zendesk(value: Mapping[str, Any]) -> bool:
    comments = value.get("comments")
    authored = isinstance(comments, list) and all(
        isinstance(c, dict) and {"author_id", "author"} & c.keys() and {"body", "html_body", "plain_body"} & c.keys()
        for c in comments
    )
    is_ticket = {"requester_id", "description"} <= value.keys() and isinstance(value.get("status"), str)
    return is_ticket or (authored and bool({"requester_id", "requester", "subject"} & value.keys()))


def _is_intercom(value: Mapping[str, Any]) -> bool:
    parts = value.get("conversation_parts")
    if isinstance(parts, dict):
        return isinstance(parts.get("conversation_parts"), list)
    first = value.get("source", value.get("conversation_message"))
    return value.get("type") == "conversation" and isinstance(inside(first, "author"), dict)


def _zendesk_comments(value: Mapping[str, Any]) -> bool:
    comments = value.get("comments")
    first = comments[0] if isinstance(comments, list) and comments else None
    return _is_zendesk(value) or (isinstance(first, dict) and {"author_id", "public", "body"} <= first.keys())


def slack_list(head: Head) -> Reading | None:
    """Recognises lists of users, channels and the like in a Slack export, which hold no text for training."""
    if PurePosixPath(head.name).stem.split(".")[0] not in _SLACK_LISTS or head.suffix != ".json":
        return None
    if head.data.strip() == b"[]":
        return Reading(None, _LIKELY, "empty list of a Slack export")
    found = _values(head.data, _PLACES)
    is_list = _most([*found.get("item", ()), *found.get("members.item", ())], _is_entry)
    return Reading(None, _SURE, "list of users, channels or the like in a Slack export") if is_list else None


def _is_entry(value: Mapping[str, Any]) -> bool:
    key = value.get("id", value.get("user_id"))
    known = {"profile", "members", "created", "team_id", "real_name", "service_type", "app_type", "creator"}
    return isinstance(key, str) and bool(known & value.keys()) and "ts" not in value


def discord_table(head: Head) -> Reading | None:
    """Recognises a CSV export of DiscordChatExporter by its column names."""
    line = head.data.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    try:
        names = next(csv.reader([line]), [])
    except csv.Error:
        return None
    is_known = {*COLUMNS, "AuthorID", "Attachments", "Reactions"} <= set(names)
    return Reading("discord_csv", _SURE, "channel of Discord, as a table of DiscordChatExporter") if is_known else None


def sms(head: Head) -> Reading | None:
    """Recognises text messages of an Android phone, and its log of calls, which holds no text."""
    root = root_of(head)
    if root == b"smses":
        return Reading("sms", 0.98, "text messages of a phone, from SMS Backup & Restore")
    if root == b"calls" and re.search(rb"<call\s[^<]*\bduration=", head.data[:4096]):
        return Reading(None, 0.98, "a log of calls without their text")
    return None


_ZENDESK, _INTERCOM = "tickets of Zendesk", "conversations of Intercom"

RECOGNISERS: Final[tuple[Recogniser, ...]] = (
    slack_list,
    _by_messages("slack", "messages of a Slack channel", ("item", "messages.item"), _is_slack),
    _by_messages("discord", "channel of Discord, from DiscordChatExporter", ("messages.item",), _is_discord),
    discord_table,
    sms,
    _by_messages("telegram", "chats of Telegram Desktop", _TELEGRAM, _is_telegram),
    _by_messages("teams", "messages of Microsoft Teams", ("item", "value.item", "messages.item"), _is_teams),
    _by_messages("skype", "conversations of Teams or Skype", ("conversations.item.MessageList.item",), _is_skype),
    _by_messages("google_chat", "messages of Google Chat", ("messages.item",), _is_google),
    _by_messages("messenger", "conversation of Messenger or Instagram", ("messages.item",), _is_messenger),
    _by_messages("zendesk", _ZENDESK, ("item", "tickets.item", "ticket", "results.item"), _is_zendesk),
    _single("zendesk", _ZENDESK, _zendesk_comments),
    _by_messages("intercom", _INTERCOM, ("item", "conversations.item", "data.item"), _is_intercom),
    _single("intercom", _INTERCOM, _is_intercom),
)
