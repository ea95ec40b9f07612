"""Exports of chat and ticket tools: documents, speakers, threads, what is left out, and what is rejected."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from corpus.corpus_files import documents, read, rejections
from corpus.format_examples_exports import EXAMPLES, example
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.exports.messenger import repaired
from pipelines.corpus.exports.parts import seconds, text_of_html
from pipelines.corpus.exports.slack import SlackReader
from pipelines.corpus.formats import FORMATS
from pipelines.corpus.items import Document

HOUR = 3600


def put(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def turns(item: Document) -> list[tuple[str | None, str]]:
    return [(turn.speaker, item.text[turn.start : turn.end]) for turn in item.turns or ()]


def said(folder: Path, format: str, value: object, name: str = "a.json", **fields: object):
    """The turns of each document, in the order of rows, what is left out, and the rejections."""
    items = read(put(folder, name, value), format, **fields)
    found = sorted(documents(items), key=lambda item: item.row)
    left = {kind: count for item in found for kind, count in item.left_out}
    return [turns(item) for item in found], left, rejections(items)


def test_every_reader_of_an_export_has_an_example():
    assert {n for n, spec in FORMATS.items() if spec.reader.startswith("pipelines.corpus.exports.")} == set(EXAMPLES)


@pytest.mark.parametrize("format", EXAMPLES)
@pytest.mark.parametrize("change", [bytes, lambda data: b"\xef\xbb\xbf" + data, gzip.compress])
def test_an_example_is_read(tmp_path, format, change):
    made = EXAMPLES[format]
    suffix = ".gz" if change is gzip.compress else ""
    items = read(put(tmp_path, made.file_name + suffix, change(example(format))), format)
    found = documents(items)
    assert items == found
    assert len(found) == made.documents
    assert sum(len(turns(item)) for item in found) == made.rows
    assert len({speaker for item in found for speaker, _ in turns(item)}) == made.speakers
    assert sum(item.num_rows for item in found) == made.rows


def test_slack_names_mentions_links_and_entities(tmp_path):
    put(tmp_path, "general/users.json", [
        {"id": "U1", "name": "ann", "profile": {"real_name": "Ann Lee", "display_name": "annie"}},
        {"id": "U2", "name": "bo", "profile": {"real_name": "", "display_name": "bo-bo"}},
        {"id": "W3", "name": "cy"}, {"id": 4, "name": "x"}, "no user",
    ])  # fmt: skip
    put(tmp_path, "general/channels.json", [{"id": "C7", "name": "random", "created": 1, "members": []}])
    day = [
        {"type": "message", "user": "U1", "ts": "10.1", "text": "Hi <@U2>, <@W3|cyril> &lt;3 <@U9> <#C7|> <#C8|ops>"},
        {"type": "message", "user": "U2", "ts": "11", "text": "<https://a.example/?x=1&amp;y=2> <mailto:a@b.c|a@b.c>"},
        {"type": "message", "user": "W3", "ts": "12", "text": "<!channel> <!subteam^S|@devs> <!date^1|today> &amp;lt;"},
        {"type": "message", "subtype": "bot_message", "bot_id": "B1", "username": "Deploy", "ts": "13", "text": "done"},
        {"type": "message", "user": "U8", "user_profile": {"real_name": "Gus"}, "ts": "14", "text": "ok"},
        {"type": "message", "user": "USLACKBOT", "subtype": "channel_topic", "ts": "15", "text": "set the topic"},
        {"type": "message", "subtype": "tombstone", "ts": "16", "text": "This message was deleted."},
        {"type": "message", "user": "U1", "ts": "17", "text": "", "files": [{"id": "F"}], "attachments": [{}]},
    ]  # fmt: skip
    found, left, bad = said(tmp_path, "slack", day, "general/2026-01-01.json")
    assert found == [[
        ("Ann Lee", "Hi @bo-bo, @cy <3 @U9 #random #ops"),
        ("bo-bo", "https://a.example/?x=1&y=2 a@b.c"),
        ("cy", "@channel @devs today &lt;"),
        ("Deploy", "done"), ("Gus", "ok"),
    ]]  # fmt: skip
    assert left == {"system": 1, "deleted": 1, "media": 1, "embed": 1}
    assert bad == []
    assert documents(read(tmp_path / "general" / "2026-01-01.json", "slack"))[0].names == ("bo-bo", "cy", "U9")


def test_slack_without_its_list_of_users(tmp_path):
    found, _, bad = said(tmp_path, "slack", [{"type": "message", "user": "U1", "ts": "1", "text": "<@U2|bo> <@U3>"}])
    assert (found, bad) == ([[("U1", "@bo @U3")]], [])


def test_slack_threads_are_dialogues_and_pauses_end_the_others(tmp_path):
    def message(at: float, text: str, thread: str | None = None) -> dict[str, object]:
        return {"type": "message", "user": "U", "ts": f"{at}", "text": text} | ({"thread_ts": thread} if thread else {})

    day = [
        message(0, "a"), message(60, "t1", "60"), message(120, "b"), message(180, "u1", "180"),
        message(9 * HOUR, "t2", "60"), message(10 * HOUR, "c"), message(10 * HOUR + 1, "u2", "180"),
    ]  # fmt: skip
    found, _, _ = said(tmp_path, "slack", day)
    assert [[text for _, text in one] for one in found] == [["a", "b"], ["t1", "t2"], ["u1", "u2"], ["c"]]
    assert len(said(tmp_path, "slack", day, dialogue_gap_minutes=601.0)[0]) == 3


def test_slackdump_replies_and_answers_of_the_api(tmp_path):
    replies = [{"type": "message", "user": "B", "ts": "2", "thread_ts": "1", "text": "yes"}, 7]
    root = {
        "type": "message",
        "user": "A",
        "ts": "1",
        "thread_ts": "1",
        "text": "no?",
        "slackdump_thread_replies": replies,
    }
    found, _, bad = said(tmp_path, "slack", {"channel_id": "C", "messages": [root]})
    assert found == [[("A", "no?"), ("B", "yes")]]
    assert bad == [(3, "not_an_object")]


def test_the_newest_message_may_come_first(tmp_path):
    messages = [
        {"sender_name": "A", "timestamp_ms": (hour * HOUR + minute) * 1000, "content": f"{hour}:{minute}"}
        for hour in (3, 0)
        for minute in (2, 1, 0)
    ]
    found, _, _ = said(tmp_path, "messenger", {"messages": messages})
    assert [[text for _, text in one] for one in found] == [["3:0", "3:1", "3:2"], ["0:0", "0:1", "0:2"]]


def test_discord_types_names_and_raw_markup(tmp_path):
    def message(kind: str | None, text: str, **fields: object) -> dict[str, object]:
        who = {"id": "1", "name": "ann", "nickname": "Ann"}
        return {"id": "5", "type": kind, "timestamp": "2026-01-01T00:00:00Z", "content": text, "author": who} | fields

    messages = [
        message("Default", "<@2> <@!1> <@&3> <#4> <a:wave:5> <:ok:6>", mentions=[{"id": "2", "name": "bo"}]),
        message("20", "from a command"),
        message("ChannelPinnedMessage", "pinned"), message("Call", "called"), message("7", "joined"),
        message("Default", "", stickers=[{"id": "1"}], attachments=[{}, {}]),
        message("Default", "", forwardedMessage={"content": "forwarded"}),
        message("Default", "", author={"id": "77"}),
        message("Default", "bot", author={"id": "8", "name": "Helper", "isBot": True}),
    ]  # fmt: skip
    found, left, bad = said(tmp_path, "discord", {"channel": {"name": "x"}, "messages": messages})
    assert found == [[
        ("Ann", "@bo @Ann @3 #4 :wave: :ok:"), ("Ann", "from a command"), ("Ann", "forwarded"), ("Helper", "bot"),
    ]]  # fmt: skip
    assert left == {"system": 3, "media": 3, "empty": 1}
    assert bad == []


def test_discord_tables_with_bad_rows(tmp_path):
    table = (
        'AuthorID,Author,Date,Content,Attachments,Reactions\n1,ann#0001,03-Jan-20 09:14 PM,"a, b",,\n'
        "1,ann#0001,too,few\n2,bo,03-Jan-20 11:15 PM,c,,\n2,bo,unknown,d,https://x.example/a.png,\n2,bo,,,x,\n"
    )
    found, left, bad = said(tmp_path, "discord_csv", table.encode(), "a.csv")
    assert found == [[("ann", "a, b")], [("bo", "c"), ("bo", "d")]]
    assert (left, bad) == ({"media": 2}, [(2, "bad_columns")])
    assert said(tmp_path, "discord_csv", b"id,text\n1,a\n", "b.csv")[2] == [(1, "missing_text")]


def test_telegram_full_export_with_topics(tmp_path):
    def message(number: int, text: object, **fields: object) -> dict[str, object]:
        return {"id": number, "type": "message", "date": "2026-01-01T10:00:00", "from": "A", "text": text} | fields

    topic = {"id": 5, "type": "service", "date": "2026-01-01T09:00:00", "action": "topic_created", "text": ""}
    first = [
        topic, message(6, "general"), message(7, "in the topic", reply_to_message_id=5),
        message(8, "still there", reply_to_message_id=7), message(9, "reply", reply_to_message_id=6),
    ]  # fmt: skip
    second = [message(5, ["x ", {"type": "bold", "text": "y"}], from_id="user3", **{"from": None}), message(6, [1])]
    full = {
        "about": "x", "contacts": {"list": [{"first_name": "No"}]},
        "chats": {"about": "", "list": [
            {"name": "G", "type": "private_supergroup", "id": 1, "messages": first},
            {"type": "saved_messages", "id": 2, "messages": second},
            {"name": None, "type": "personal_chat", "id": 3, "messages": []},
        ]},
        "left_chats": {"list": [{"name": "L", "type": "public_channel", "id": 4, "messages": [
            message(1, "", photo="a.jpg"), message(2, "left", poll={"question": "?"}), message(3, "", poll={}),
        ]}]},
    }  # fmt: skip
    found, left, bad = said(tmp_path, "telegram", full)
    assert found == [
        [("A", "general"), ("A", "reply")], [("A", "in the topic"), ("A", "still there")],
        [("user3", "x y")], [("A", "left")],
    ]  # fmt: skip
    assert left == {"system": 1, "media": 1, "poll": 1, "empty": 1}
    assert bad == [(7, "wrong_type")]


def test_teams_channels_with_replies(tmp_path):
    def message(key: str, at: int, html: str, **fields: object) -> dict[str, object]:
        return {
            "id": key, "messageType": "message", "createdDateTime": f"2026-01-01T{at:02}:00:00.0Z",
            "from": {"user": {"displayName": "Ann"}}, "body": {"contentType": "html", "content": html},
            "channelIdentity": {"teamId": "t", "channelId": "c"},
        } | fields  # fmt: skip

    quote = '<blockquote itemtype="http://schema.skype.com/Reply"><p>old</p></blockquote>'
    quote += '<p>new <emoji alt="😀"></emoji></p>'
    card = {"contentType": "application/vnd.microsoft.card.adaptive"}
    replies = [message("12", 20, "late", replyToId="1"), message("11", 9, quote, replyToId="1"), "x"]
    value = [
        message("2", 21, "other <img src='x'>", subject="Title"),
        message("1", 8, "<div>root</div>", replies=replies, attachments=[card]),
        message("3", 7, "gone", deletedDateTime="2026-01-02T00:00:00Z"),
        message("4", 6, "from an app", **{"from": {"application": {"displayName": "Polls"}, "user": None}}),
        {"id": "5", "messageType": "unknownFutureValue", "body": None},
    ]  # fmt: skip
    found, left, bad = said(tmp_path, "teams", {"value": value})
    assert found == [
        [("Ann", "Title\nother")], [("Ann", "root"), ("Ann", "new 😀"), ("Ann", "late")], [("Polls", "from an app")],
    ]  # fmt: skip
    assert left == {"media": 1, "embed": 1, "deleted": 1, "system": 1}
    assert bad == [(3, "not_an_object")]


def test_conversations_of_teams_or_skype(tmp_path):
    def message(kind: str, text: str, **fields: object) -> dict[str, object]:
        return {"id": "1767603780000", "messagetype": kind, "from": "8:ann", "content": text} | fields

    lists = [
        [message("RichText/UriObject", "<URIObject/>"), message("Text", "a < b"), message("ThreadActivity/Add", "")],
        [message("RichText/Html", "<p>x</p>", displayName="Bo"), message("Text", "", properties={"deletetime": 1}), 3],
    ]  # fmt: skip
    found, left, bad = said(
        tmp_path, "skype", {"conversations": [{"id": str(n), "MessageList": m} for n, m in enumerate(lists)]}
    )
    assert found == [[("8:ann", "a < b")], [("Bo", "x")]]
    assert left == {"media": 1, "system": 1, "deleted": 1}
    assert bad == [(6, "not_an_object")]


def test_encrypted_messenger_conversations_and_calls(tmp_path):
    messages = [
        {
            "senderName": "Zoë",
            "text": "Grüße",
            "timestamp": 1767603780000,
            "type": "text",
            "media": [],
            "isUnsent": False,
        },
        {"senderName": "Zoë", "text": "", "timestamp": 1767603780000, "type": "media", "media": [{"uri": "x"}]},
        {"senderName": "Zoë", "text": "x", "timestamp": 1767603780000, "type": "text", "isUnsent": True},
        {"sender_name": "Bo", "timestamp_ms": 1767603780000, "call_duration": 3, "type": "Call"},
        {"what": 1},
    ]
    found, left, bad = said(tmp_path, "messenger", {"messages": messages})
    assert found == [[("Zoë", "Grüße")]]
    assert (left, bad) == ({"media": 1, "deleted": 1, "system": 1}, [(5, "missing_text")])


@given(st.text())
def test_mojibake_is_repaired(text):
    assert repaired(text.encode("utf-8", "replace").decode("latin-1")) == text.encode("utf-8", "replace").decode()


TICKET = {
    "id": 3, "requester_id": 1, "subject": "Help", "created_at": "2026-01-01T00:00:00Z",
    "comments": [
        {"author_id": 1, "body": "Help me, please", "public": True}, {"author_id": 2, "plain_body": "Which&nbsp;one?"},
        {"author_id": 5, "html_body": "<p>This <b>one</b></p>"}, {"author_id": -1, "body": "merged"},
        {"author_id": 2, "body": "secret", "public": False}, {"author_id": 2, "body": ""},
    ],
}  # fmt: skip
TICKET_TURNS = [("CUSTOMER", "Help me, please"), ("AGENT", "Which one?"), ("AGENT 2", "This one")]


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(TICKET).encode(), json.dumps(TICKET, indent=2).encode(), json.dumps([TICKET]).encode(),
        json.dumps({"tickets": [TICKET], "users": [], "count": 1}, indent=1).encode(),
        json.dumps({"ticket": TICKET}).encode(), b"\n" + json.dumps(TICKET).encode() + b"\n\n",
        json.dumps({"users": [{"id": 9}]} | TICKET).encode(),
    ],
)  # fmt: skip
def test_layouts_of_zendesk_tickets(tmp_path, data):
    found, left, bad = said(tmp_path, "zendesk", data)
    assert (found, bad) == ([TICKET_TURNS], [])
    assert left == {"note": 1, "system": 1, "empty": 1}


def test_zendesk_names_audits_and_comments_alone(tmp_path):
    users = [{"id": 2, "name": "Eva", "role": "agent"}, {"id": 1, "name": "Paul", "role": "end-user"}]
    alone = {"comments": [{"author_id": 1, "body": "a", "public": True}, {"author_id": 2, "body": "b"}], "users": users}
    assert said(tmp_path, "zendesk", alone)[0] == [[("CUSTOMER", "a"), ("AGENT", "b")]]
    assert documents(read(tmp_path / "a.json", "zendesk"))[0].names == ("Paul", "Eva")
    events = [{"type": "Change", "field_name": "x"}, {"type": "Comment", "author_id": 1, "body": "a", "public": True}]
    audits = {"id": 1, "requester": {"id": 1, "name": "Paul"}, "audits": [{"author_id": 1, "events": events}]}
    assert said(tmp_path, "zendesk", [audits])[0] == [[("CUSTOMER", "a")]]


def test_a_bad_line_or_comment_loses_no_neighbour(tmp_path):
    bad = {**TICKET, "comments": [{"author_id": 1, "body": 5}, {"author_id": 1, "body": "a\0"}, *TICKET["comments"]]}  # type: ignore[misc]
    rows = [b"{broken", json.dumps(bad).encode(), b"[1]", json.dumps(TICKET).encode(), b'{"id": 1, "name": "group"}']
    found, _, rejected = said(tmp_path, "zendesk", b"\n".join(rows), "t.jsonl")
    assert found == [TICKET_TURNS, TICKET_TURNS]
    assert rejected == [(1, "bad_json"), (2, "nul"), (3, "not_an_object"), (5, "not_an_object")]


def test_jsonl_tickets_of_several_partitions(tmp_path):
    path = put(tmp_path, "t.jsonl", b"".join(json.dumps(TICKET | {"id": n}).encode() + b"\n" for n in range(10)))
    items = documents(read(path, "zendesk", rows=3))
    assert [(item.row, item.source_id) for item in items] == [(n + 1, str(n)) for n in range(10)]


def test_intercom_layouts(tmp_path):
    (one,) = json.loads(example("intercom"))["conversations"]
    wanted = [[("CUSTOMER", "Where is my parcel?"), ("BOT", "I ask a colleague."), ("AGENT", "It comes\ntomorrow.")]]
    old = {"conversation_message": one["source"], "conversation_parts": one["conversation_parts"]["conversation_parts"]}
    for value in (one, [one], {"data": [one]}, old, b"\n".join([json.dumps(one).encode()])):
        assert said(tmp_path, "intercom", value)[0] == wanted
    lines = b"\n".join([json.dumps(one).encode()] * 3)
    assert said(tmp_path, "intercom", lines, "a.ndjson")[0] == wanted * 3


@pytest.mark.parametrize("format", [name for name in EXAMPLES if name not in ("discord_csv", "sms")])
def test_other_json_is_rejected_and_an_empty_chat_is_not(tmp_path, format):
    for value in ({"a": 1}, [{"a": 1}], 5):
        found, _, bad = said(tmp_path, format, value)
        assert not found
        assert len(bad) == 1
    if format not in ("zendesk", "intercom", "slack", "skype", "teams"):
        assert said(tmp_path, format, {"messages": []}) == ([], {}, [])


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("2026-01-05T09:03:00.1234567Z", 1767603780.123456), ("2026-01-05T10:03:00+01:00", 1767603780),
        ("2026-01-05T09:03:00", 1767603780), (1767603780, 1767603780), (1767603780000, 1767603780),
        ("1767603780.000100", 1767603780.0001), (1767603780000000, 1767603780), (True, None), (None, None),
        ("soon", None), (10**400, None), (float("inf"), None), ("nan", None), ([1], None), ("", None),
    ],
)  # fmt: skip
def test_dates(value, wanted):
    assert seconds(value) == (wanted if wanted is None else pytest.approx(wanted, abs=1e-4))


@given(st.text() | st.text("<>/div &;abc\n", max_size=60))
def test_html_always_gives_text(content):
    assert isinstance(text_of_html(content), str)
    if not {"<", "&"} & set(content):
        assert text_of_html(content) == content


def test_readers_take_no_side_file_that_is_a_pipe(tmp_path):
    import os

    os.mkfifo(tmp_path / "users.json")
    put(tmp_path, "day.json", [{"type": "message", "user": "U1", "ts": "1", "text": "hello"}])
    assert said(tmp_path, "slack", (tmp_path / "day.json").read_bytes(), "day.json")[0] == [[("U1", "hello")]]
    assert SlackReader.messages
