"""Recognition of exports of chat and ticket tools: each is recognised, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest
from corpus.corpus_files import readings_of
from corpus.format_examples_exports import EXAMPLES, example

from pipelines.corpus.recognise_exports import RECOGNISERS
from pipelines.corpus.recognition import Reading


def readings(name: str, value: object, limit: int = 1 << 20) -> list[Reading]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return readings_of(RECOGNISERS, name, data, limit)


@pytest.mark.parametrize("format", EXAMPLES)
def test_only_its_own_recogniser_takes_an_export(format):
    found = readings(EXAMPLES[format].file_name, example(format))
    assert {reading.format for reading in found} == {format}
    assert max(reading.score for reading in found) >= 0.9


@pytest.mark.parametrize("format", [name for name in EXAMPLES if name not in ("zendesk", "discord_csv", "sms")])
def test_the_beginning_of_a_large_export_suffices(format):
    data = example(format)
    large = json.loads(data)
    path = {"skype": ("conversations", 0, "MessageList"), "intercom": ("conversations",), "slack": ()}.get(format)
    inner = large
    for key in path if path is not None else ("value",) if format == "teams" else ("messages",):
        inner = inner[key]
    inner += inner * 20
    whole = json.dumps(large).encode()
    assert {reading.format for reading in readings("a.json", whole, len(whole) * 2 // 3)} == {format}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("users.json", [{"id": "U1", "name": "ann", "profile": {"real_name": "Ann"}, "team_id": "T"}]),
        ("slack/channels.json", [{"id": "C1", "name": "general", "members": ["U1"]}]),
        ("dms.json", [{"id": "D1", "created": 1, "members": ["U1", "U2"]}]),
        ("integration_logs.json", [{"user_id": "U1", "app_type": "x", "change_type": "added"}]),
        ("groups.json", []),
    ],
)
def test_side_files_of_slack_are_no_text(name, value):
    assert [(reading.format, reading.score >= 0.9) for reading in readings(name, value)] == [(None, True)]


COMMENT = {"id": 3, "author_id": 2, "body": "a", "public": True}
TICKET = {"id": 1, "subject": "x", "requester_id": 2, "comments": [COMMENT]}


@pytest.mark.parametrize(
    ("name", "value", "format"),
    [
        ("a.json", TICKET, "zendesk"), ("a.json", [TICKET], "zendesk"), ("a.json", {"tickets": [TICKET]}, "zendesk"),
        ("a.json", {"comments": [COMMENT], "count": 1}, "zendesk"), ("a.json", {"ticket": TICKET}, "zendesk"),
        ("a.json", {"id": 1, "subject": "x", "description": "y", "requester_id": 2, "status": "open"}, "zendesk"),
        ("a.json", json.loads(example("intercom"))["conversations"], "intercom"),
        ("a.json", json.loads(example("intercom"))["conversations"][0], "intercom"),
        ("a.json", {"chats": {"list": [json.loads(example("telegram"))]}, "about": "x"}, "telegram"),
        ("a.json", json.loads(example("teams"))["value"], "teams"),
    ],
)  # fmt: skip
def test_layouts(name, value, format):
    assert {reading.format for reading in readings(name, value)} == {format}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a.jsonl", b'{"messages": [{"role": "user", "content": "hi"}]}\n' * 3),
        ("a.jsonl", b'{"messages": [{"role": "user", "content": "hi"}]}\n'),
        ("a.json", [{"conversations": [{"from": "human", "value": "hi"}], "id": "1"}]),
        ("a.json", [{"text": "hello", "id": 1}]), ("a.json", {"dialogues": [{"turns": []}]}), ("a.json", 5),
        ("users.json", [{"id": 1, "name": "ann", "text": "a review"}]), ("users.json", {"a": []}),
        ("a.json", [{"speaker": "A", "utterance": "b"}]), ("a.json", [["a", "b"]]), ("a.json", b"[" * 5000),
        ("a.json", {"messages": ["a", "b"]}), ("a.json", b"{broken"), ("a.txt", b"hello\nthere"), ("a.json", b""),
        ("a.csv", b"id,text\n1,hello\n"), ("a.csv", b'"' * 100), ("a.json", {"data": [{"a": 1}], "source": "web"}),
        ("a.json", [{"description": "x", "requester_id": 1, "status": 2, "description_text": "y"}]),
        ("a.json", [{"type": "message", "ts": 5, "role": "user", "content": "x"}]), ("a.bin", bytes(range(256))),
    ],
)  # fmt: skip
def test_other_files_are_not_taken(name, value):
    assert readings(name, value) == []
