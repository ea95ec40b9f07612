"""Short examples of the exports of chat and ticket tools, in their original layouts. All content is made up."""

from __future__ import annotations

import json
from typing import Any

from corpus.format_example import Example


def example(format: str) -> bytes:
    """Returns the example of a format."""
    return EXAMPLES[format].data


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode()


SLACK = [
    {
        "user": "U02ANNA", "type": "message", "ts": "1767607200.000100", "text": "<@U02ANNA> has joined the channel",
        "subtype": "channel_join",
    },
    {
        "client_msg_id": "5f2c", "type": "message", "user": "U02ANNA", "ts": "1767607260.000200", "team": "T01",
        "text": "Morning <!here>, the <https://wiki.example.org/a?b=1&amp;c=2|release page> is ready &amp; checked.",
        "user_profile": {"real_name": "Anna Berg", "display_name": "anna", "name": "anna.berg"},
    },
    {
        "client_msg_id": "5f2d", "type": "message", "user": "U03LUIS", "ts": "1767607320.000300",
        "text": "Thanks <@U02ANNA>! See <#C04|ops>.", "user_profile": {"real_name": "Luis Ortega", "name": "luis"},
        "files": [{"id": "F1", "name": "plan.pdf"}],
    },
    {
        "type": "message", "user": "U02ANNA", "ts": "1767610000.000400", "thread_ts": "1767610000.000400",
        "text": "Who is on call?", "reply_count": 1, "user_profile": {"real_name": "Anna Berg"},
    },
    {
        "type": "message", "user": "U03LUIS", "ts": "1767649000.000500", "thread_ts": "1767610000.000400",
        "text": "I am.", "parent_user_id": "U02ANNA", "user_profile": {"real_name": "Luis Ortega"},
    },
]  # fmt: skip

DISCORD = {
    "guild": {"id": "81", "name": "Garden club", "iconUrl": "https://cdn.example.org/i.png"},
    "channel": {"id": "82", "type": "GuildTextChat", "category": "Text", "name": "seeds", "topic": None},
    "dateRange": {"after": None, "before": None},
    "exportedAt": "2026-01-05T10:00:00+00:00",
    "messages": [
        {
            "id": "1", "type": "GuildMemberJoin", "timestamp": "2026-01-05T08:00:00.12+00:00", "content":
            "Joined the server.", "author": {"id": "9", "name": "mira", "nickname": "Mira", "isBot": False},
            "attachments": [], "embeds": [], "stickers": [], "mentions": [],
        },
        {
            "id": "2", "type": "Default", "timestamp": "2026-01-05T08:01:00.5+00:00",
            "content": "Does anybody have tomato seeds? <:tomato:77>",
            "author": {"id": "9", "name": "mira", "nickname": "Mira", "isBot": False},
            "attachments": [{"id": "5", "url": "https://cdn.example.org/x.png", "fileName": "x.png"}],
            "embeds": [], "stickers": [], "mentions": [],
        },
        {
            "id": "3", "type": "Reply", "timestamp": "2026-01-05T08:05:00+00:00", "content": "Yes <@!9>, plenty.",
            "author": {"id": "10", "name": "tom", "discriminator": "0042", "nickname": None, "isBot": False},
            "attachments": [], "embeds": [{"title": "Seeds"}], "stickers": [],
            "mentions": [{"id": "9", "name": "mira", "nickname": "Mira"}], "reference": {"messageId": "2"},
        },
    ],
    "messageCount": 3,
}  # fmt: skip

DISCORD_CSV = """\
"AuthorID","Author","Date","Content","Attachments","Reactions"
"9","mira#0001","2026-01-05T08:01:00.0000000+00:00","Does anybody have ""Roma"" seeds?
Or others?","",""
"10","tom","2026-01-05T08:05:00.0000000+00:00","Yes, plenty.","https://cdn.example.org/x.png",""
"9","mira#0001","2026-01-05T12:05:00.0000000+00:00","Great, thank you.","",""
"""

TELEGRAM = {
    "name": "Vera Lind", "type": "personal_chat", "id": 4711,
    "messages": [
        {
            "id": 1, "type": "service", "date": "2026-01-05T09:00:00", "date_unixtime": "1767603600",
            "actor": "Vera Lind", "actor_id": "user1", "action": "phone_call", "text": "", "text_entities": [],
        },
        {
            "id": 2, "type": "message", "date": "2026-01-05T09:01:00", "date_unixtime": "1767603660",
            "from": "Vera Lind", "from_id": "user1",
            "text": ["Look at ", {"type": "link", "text": "https://example.org"}, " please"],
        },
        {
            "id": 3, "type": "message", "date": "2026-01-05T09:02:00", "date_unixtime": "1767603720",
            "from": "Oskar", "from_id": "user2", "file": "voice.ogg", "media_type": "voice_message", "text": "",
        },
        {
            "id": 4, "type": "message", "date": "2026-01-05T09:03:00", "date_unixtime": "1767603780",
            "from": "Oskar", "from_id": "user2", "reply_to_message_id": 2, "text": "Will do.",
        },
    ],
}  # fmt: skip

TEAMS = {
    "@odata.context": "https://graph.microsoft.com/v1.0/$metadata#chats('19')/messages",
    "@odata.count": 3,
    "value": [
        {
            "id": "1767603780000", "messageType": "message", "createdDateTime": "2026-01-05T09:03:00.123Z",
            "deletedDateTime": None, "chatId": "19:ab@thread.v2", "replyToId": None, "subject": None,
            "from": {"application": None, "user": {"id": "u2", "displayName": "Rolf Meyer"}},
            "body": {"contentType": "html", "content": "<p>Hello <at id=\"0\">Ida</at>,</p><p>at ten&nbsp;o'clock</p>"},
            "attachments": [{"id": "a", "contentType": "reference", "name": "plan.docx"}],
        },
        {
            "id": "1767603720000", "messageType": "message", "createdDateTime": "2026-01-05T09:02:00.5Z",
            "deletedDateTime": None, "chatId": "19:ab@thread.v2", "from": {"user": {"displayName": "Ida Falk"}},
            "body": {"contentType": "text", "content": "When do we meet?"}, "attachments": [],
        },
        {
            "id": "1767603600000", "messageType": "systemEventMessage", "createdDateTime": "2026-01-05T09:00:00Z",
            "from": None, "body": {"contentType": "html", "content": "<systemEventMessage/>"},
            "chatId": "19:ab@thread.v2",
            "eventDetail": {"@odata.type": "#microsoft.graph.membersAddedEventMessageDetail"},
        },
    ],
}  # fmt: skip

SKYPE = {
    "userId": "8:live:ida",
    "exportDate": "2026-01-06T10:00",
    "conversations": [
        {
            "id": "8:live:rolf", "displayName": "Rolf", "version": 1, "properties": {}, "threadProperties": None,
            "MessageList": [
                {
                    "id": "1767603780000", "displayName": "Rolf", "originalarrivaltime": "2026-01-05T09:03:00Z",
                    "messagetype": "RichText", "from": "8:live:rolf", "conversationid": "8:live:rolf",
                    "content": '<quote author="ida">[1] Ida: When? <legacyquote>&lt;&lt;&lt; </legacyquote></quote>'
                    "At ten <ss type=\"smile\">:)</ss> &amp; sharp",
                },
                {
                    "id": "1767603720000", "displayName": None, "originalarrivaltime": "2026-01-05T09:02:00Z",
                    "messagetype": "Text", "from": "8:live:ida", "conversationid": "8:live:rolf", "content": "When?",
                },
                {
                    "id": "1767603600000", "originalarrivaltime": "2026-01-05T09:00:00Z", "messagetype": "Event/Call",
                    "from": "8:live:ida", "content": "<partlist/>", "conversationid": "8:live:rolf",
                },
            ],
        }
    ],
}  # fmt: skip

GOOGLE_CHAT = {
    "messages": [
        {
            "creator": {"name": "Ida Falk", "email": "ida@example.org", "user_type": "Human"},
            "created_date": "Monday, January 5, 2026 at 9:02:00\u202fAM UTC", "text": "When do we meet?",
            "topic_id": "t1", "message_id": "s/t1/t1",
        },
        {
            "creator": {"name": "Rolf", "email": "rolf@example.org", "user_type": "Human"},
            "created_date": "Monday, January 5, 2026 at 9:03:00\u202fAM UTC", "text": "At ten.",
            "attached_files": [{"original_name": "a.png", "export_name": "File-a.png"}],
            "topic_id": "t2", "message_id": "s/t2/t2",
        },
        {
            "creator": {"name": "Rolf", "email": "rolf@example.org", "user_type": "Human"},
            "message_state": "DELETED", "message_id": "s/t3/t3",
        },
    ]
}  # fmt: skip


def _mojibake(text: str) -> str:
    return text.encode().decode("latin-1")


MESSENGER = {
    "participants": [{"name": _mojibake("Zoë Krüger")}, {"name": "Ben Ito"}],
    "messages": [
        {
            "sender_name": "Ben Ito", "timestamp_ms": 1767603780000, "type": "Generic",
            "photos": [{"uri": "photos/1.jpg", "creation_timestamp": 1767603780}], "is_geoblocked_for_viewer": False,
        },
        {"sender_name": "Ben Ito", "timestamp_ms": 1767603720000, "content": "See you at the lake."},
        {
            "sender_name": _mojibake("Zoë Krüger"), "timestamp_ms": 1767603660000,
            "content": _mojibake("Schöne Grüße 👋"), "reactions": [{"reaction": "x", "actor": "Ben Ito"}],
        },
    ],
    "title": "Ben Ito",
    "is_still_participant": True,
    "thread_path": "inbox/benito_1",
}  # fmt: skip

ZENDESK = [
    {
        "id": 35436, "url": "https://x.example.org/35436.json", "via": {"channel": "email"}, "status": "open",
        "created_at": "2026-01-05T09:00:00Z", "subject": "Broken kettle", "description": "It does not boil.",
        "requester_id": 20, "requester": {"id": 20, "name": "Paula Voss", "role": "end-user"}, "assignee_id": 31,
        "comments": [
            {
                "id": 1, "type": "Comment", "author_id": 20, "public": True, "created_at": "2026-01-05T09:00:00Z",
                "body": "It does not boil.", "html_body": "<div>It does not boil.</div>",
                "plain_body": "It does not&nbsp;boil.", "attachments": [{"id": 7, "file_name": "kettle.jpg"}],
            },
            {
                "id": 2, "type": "Comment", "author_id": 31, "public": False, "created_at": "2026-01-05T09:10:00Z",
                "body": "Customer called twice.", "attachments": [],
            },
            {
                "id": 3, "type": "Comment", "author_id": 31, "public": True, "created_at": "2026-01-05T09:20:00Z",
                "html_body": "<p>Dear Paula,</p><p>we send a new one.</p>", "attachments": [],
            },
        ],
    },
    {
        "id": 35437, "status": "closed", "created_at": "2026-01-05T11:00:00Z", "subject": "Opening hours",
        "description": "Are you open on Sunday?", "requester_id": 21,
    },
]  # fmt: skip

INTERCOM = {
    "type": "conversation.list",
    "conversations": [
        {
            "type": "conversation", "id": "1911", "created_at": 1767603600, "updated_at": 1767603900,
            "source": {
                "type": "conversation", "id": "s1", "delivered_as": "customer_initiated", "subject": "",
                "body": "<p>Where is my&nbsp;parcel?</p>", "attachments": [],
                "author": {"type": "user", "id": "u1", "name": "Nils Abel", "email": "nils@example.org"},
            },
            "conversation_parts": {
                "type": "conversation_part.list", "total_count": 4,
                "conversation_parts": [
                    {
                        "type": "conversation_part", "id": "p1", "part_type": "comment", "created_at": 1767603610,
                        "body": "<p>I ask a colleague.</p>", "author": {"type": "bot", "id": "b", "name": "Fin"},
                    },
                    {
                        "type": "conversation_part", "id": "p2", "part_type": "assignment", "created_at": 1767603620,
                        "body": None, "author": {"type": "bot", "id": "b", "name": "Fin"},
                    },
                    {
                        "type": "conversation_part", "id": "p3", "part_type": "note", "created_at": 1767603630,
                        "body": "<p>Check the depot.</p>", "author": {"type": "admin", "id": "a1", "name": "Eva"},
                    },
                    {
                        "type": "conversation_part", "id": "p4", "part_type": "comment", "created_at": 1767603640,
                        "body": "<p>It comes<br>tomorrow.</p>", "author": {"type": "admin", "id": "a1", "name": "Eva"},
                    },
                ],
            },
        }
    ],
}  # fmt: skip

SMS = """\
<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>
<!--File Created By SMS Backup & Restore v10.20.002 on 05/01/2026 10:30:00-->
<?xml-stylesheet type="text/xsl" href="sms.xsl"?>
<smses count="5" backup_set="8f2c" backup_date="1767609000000" type="full">
  <sms protocol="0" address="+14155550100" date="1767605000000" type="1" subject="null" \
body="Is the ferry at 3 &gt; or 4? &#55357;&#56997;" toa="null" sc_toa="null" \
service_center="null" read="1" status="-1" locked="0" readable_date="Jan 5, 2026 09:23:20" contact_name="Ann Lee" />
  <sms protocol="0" address="(415) 555-0100" date="1767605060000" type="2" subject="null" \
body="At 4, Ann.&#10;See you." read="1" status="-1" readable_date="Jan 5, 2026 09:24:20" contact_name="Ann Lee" />
  <sms protocol="0" address="+14155550100" date="1767605090000" type="3" subject="null" body="And br" read="1" \
contact_name="Ann Lee" />
  <mms date="1767605100000" msg_box="1" address="+14155550100~+14155550177" m_type="132" sub="null" text_only="0" \
contact_name="Ann Lee, Bob Ray">
    <parts>
      <part seq="-1" ct="application/smil" name="null" text="&lt;smil&gt;&lt;/smil&gt;" />
      <part seq="0" ct="image/jpeg" name="a.jpg" text="null" data="/9j/4AAQSkZJRg==" />
      <part seq="0" ct="text/plain" name="null" text="Here is the timetable." />
    </parts>
    <addrs>
      <addr address="+14155550177" type="137" charset="106" />
      <addr address="+14155550100" type="151" charset="106" />
    </addrs>
  </mms>
  <sms protocol="0" address="TAXI" date="1767605200000" type="1" subject="null" body="Your code is 5512." read="1" \
contact_name="(Unknown)" />
</smses>
"""

EXAMPLES: dict[str, Example] = {
    "slack": Example("general/2026-01-05.json", _json(SLACK), 2, 4, 2),
    "discord": Example("Garden club - seeds [82].json", _json(DISCORD), 1, 2, 2),
    "discord_csv": Example("Garden club - seeds [82].csv", DISCORD_CSV.encode(), 2, 3, 2),
    "telegram": Example("result.json", _json(TELEGRAM), 1, 2, 2),
    "teams": Example("teams.json", _json(TEAMS), 1, 2, 2),
    "skype": Example("messages.json", _json(SKYPE), 1, 2, 2),
    "google_chat": Example("DM 1/messages.json", _json(GOOGLE_CHAT), 1, 2, 2),
    "messenger": Example("inbox/benito_1/message_1.json", json.dumps(MESSENGER, indent=1).encode(), 1, 2, 2),
    "zendesk": Example("tickets.jsonl", b"".join(json.dumps(t).encode() + b"\n" for t in ZENDESK), 2, 3, 2),
    "sms": Example("sms-20260105.xml", SMS.encode(), 3, 4, 4),
    "intercom": Example("conversations.json", _json(INTERCOM), 1, 3, 3),
}
