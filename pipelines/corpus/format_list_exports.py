"""The formats of exports of chat and ticket tools."""

from __future__ import annotations

from functools import partial
from typing import Final

from pipelines.corpus.format_spec import FormatSpec, unlabelled

_EXPORTS = "pipelines.corpus.exports"


_chat = partial(
    unlabelled, kinds={".json": "whole"}, settings=("dialogue_gap_minutes",), packages=("html-text", "lxml")
)
"""Makes the definition of an export of a chat, whose pauses divide it into dialogues."""
_ticket = partial(
    unlabelled, kinds={".json": "whole", ".jsonl": "line", ".ndjson": "line"}, packages=("html-text", "lxml")
)

FORMATS_OF_EXPORTS: Final[tuple[FormatSpec, ...]] = (
    _chat(
        name="slack",
        document="a thread, or messages of a channel without a long pause; a file holds a day of a channel",
        example='`[{"type": "message", "user": "U1", "text": "Hello <@U2>", "ts": "1700000000.1"}]`',
        reader=f"{_EXPORTS}.slack:SlackReader",
        side_files=("users.json", "org_users.json", "channels.json"),
    ),
    _chat(
        name="discord",
        document="messages of a channel without a long pause",
        example='`{"channel": {…}, "messages": [{"type": "Default", "content": "Hello", "author": {…}}]}`',
        reader=f"{_EXPORTS}.discord:DiscordReader",
    ),
    _chat(
        name="discord_csv",
        document="messages of a channel without a long pause",
        example="`AuthorID,Author,Date,Content,Attachments,Reactions`, then a message per record",
        kinds={".csv": "whole"},
        reader=f"{_EXPORTS}.discord:DiscordTableReader",
    ),
    _chat(
        name="telegram",
        document="messages of a chat or topic without a long pause",
        example='`{"type": "personal_chat", "messages": [{"type": "message", "from": "Ann", "text": "Hello"}]}`',
        reader=f"{_EXPORTS}.telegram:TelegramReader",
    ),
    _chat(
        name="teams",
        document="a thread of a channel, or messages of a chat without a long pause",
        example='`{"value": [{"messageType": "message", "from": {…}, "body": {"content": "<p>Hello</p>"}}]}`',
        reader=f"{_EXPORTS}.teams:TeamsReader",
    ),
    _chat(
        name="skype",
        document="messages of a conversation without a long pause, from a person's own Teams or Skype export",
        example='`{"conversations": [{"MessageList": [{"messagetype": "Text", "content": "Hello"}]}]}`',
        reader=f"{_EXPORTS}.teams:SkypeReader",
    ),
    _chat(
        name="google_chat",
        document="messages of a group without a long pause",
        example='`{"messages": [{"creator": {"name": "Ann"}, "text": "Hello"}]}`',
        reader=f"{_EXPORTS}.messenger:GoogleChatReader",
    ),
    _chat(
        name="messenger",
        document="messages of a Facebook or Instagram conversation without a long pause",
        example='`{"messages": [{"sender_name": "Ann", "timestamp_ms": 1700000000000, "content": "Hello"}]}`',
        reader=f"{_EXPORTS}.messenger:MessengerReader",
    ),
    _chat(
        name="sms",
        document="messages of an Android phone with one person or group without a long pause (SMS Backup & Restore)",
        example='`<smses><sms address="+14155550100" date="1700000000000" type="1" body="Hello" /></smses>`',
        kinds={".xml": "whole"},
        packages=("lxml",),
        reader=f"{_EXPORTS}.sms:SmsReader",
    ),
    _ticket(
        name="zendesk",
        document="a ticket with its public comments",
        example='`{"id": 7, "requester_id": 1, "comments": [{"author_id": 1, "body": "Hello"}]}`',
        reader=f"{_EXPORTS}.tickets:ZendeskReader",
    ),
    _ticket(
        name="intercom",
        document="a conversation without its notes",
        example='`{"source": {"body": "<p>Hello</p>", …}, "conversation_parts": {…}}`',
        reader=f"{_EXPORTS}.tickets:IntercomReader",
    ),
)
