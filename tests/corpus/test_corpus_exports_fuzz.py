"""Damaged and hostile exports: no reader fails, and good messages among bad ones are kept."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest
from corpus.corpus_files import documents, head_of, peak_of, read
from corpus.format_examples_exports import EXAMPLES, example
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.corpus.dialogues import Dialogue
from pipelines.corpus.formats import FORMATS
from pipelines.corpus.items import BadRow, Rejected
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.recognise_exports import RECOGNISERS
from pipelines.plugins import load

JSON = [name for name in EXAMPLES if name not in ("discord_csv", "sms")]
LISTS = {
    "slack": (), "discord": ("messages",), "telegram": ("messages",), "teams": ("value",), "google_chat": ("messages",),
    "skype": ("conversations", 0, "MessageList"), "messenger": ("messages",), "intercom": ("conversations",),
}  # fmt: skip
ODD: list[Any] = [
    None, True, 0, -1, 1.5, 10**30, "", "x", "\0", "\ud800", "<" * 50, "&#1114112;", "<@U1>", [], [[]], {}, {"a": {}},
    [None], ["x"], {"type": "message"}, {"text": 5}, "9" * 400, "2026-13-99", -1e308, {"id": []},
]  # fmt: skip


def results(format: str, data: bytes, **fields: Any) -> list[tuple[int, Dialogue | BadRow]]:
    found = list(load(FORMATS[format].reader)(ReadOptions(**fields)).read(io.BytesIO(data)))
    last = 0
    for row, item in found:
        assert isinstance(item, Dialogue | BadRow)
        assert row > last or isinstance(item, Dialogue)
        last = max(last, row)
    return found


def said(found: list[tuple[int, Dialogue | BadRow]]) -> list[str]:
    return [text for _, item in found if isinstance(item, Dialogue) for _, text in item.turns]


@pytest.mark.parametrize("format", EXAMPLES)
def test_a_file_cut_at_any_byte_keeps_what_came_before(format):
    data = example(format)
    whole = said(results(format, data))
    kept = [said(results(format, data[:end])) for end in range(0, len(data) + 1, 1 if len(data) < 1500 else 2)]
    counts = [len(texts) for texts in kept]
    assert max(counts) == len(whole)
    if format not in ("discord_csv", "zendesk"):  # there, a part of a row may be a row
        assert all(set(texts) <= set(whole) for texts in kept)
        assert counts == sorted(counts)


def changed(rng: random.Random, value: Any, share: float) -> Any:
    if rng.random() < share:
        return rng.choice(ODD)
    if isinstance(value, dict):
        return {key: changed(rng, inner, share) for key, inner in value.items() if rng.random() > share}
    if isinstance(value, list):
        return [changed(rng, inner, share) for inner in value]
    return value


def value_of(format: str) -> Any:
    data = example(format)
    return [json.loads(line) for line in data.splitlines()] if format == "zendesk" else json.loads(data)


PLACES = {**LISTS, "zendesk": ()}


def with_good_ones(format: str, value: Any, good: Any) -> Any:
    """Puts messages that are right around a list of damaged ones, if the damage left the list."""
    inner, wanted = value, good
    for key in PLACES[format]:
        here = inner[key] if isinstance(inner, dict) and key in inner else None
        inner = inner[key] if isinstance(inner, list) and isinstance(key, int) and len(inner) > key else here
        wanted = wanted[key]
    if not isinstance(inner, list):
        return None
    inner[:] = [*wanted, *inner, *wanted]
    return value


@pytest.mark.parametrize("rounds", [100, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", JSON)
def test_wrong_types_anywhere(format, rounds):
    rng = random.Random(format)
    value = value_of(format)
    kept = 0
    for round_ in range(rounds):
        damaged = changed(rng, value, rng.choice((0.02, 0.1, 0.3)))
        both = with_good_ones(format, json.loads(json.dumps(damaged)), value)
        data = json.dumps(damaged if both is None else both).encode()
        found = results(format, data, dialogue_gap_minutes=1e9)
        if both is not None:  # the messages that are right survive, before the damaged ones and after them
            kept += 1
            texts = "\n".join(said(found))
            for text in said(results(format, example(format))):
                assert texts.count(text) >= 2 or (format == "slack" and "@" in text)
        if round_ < rounds // 5:
            for recognise in RECOGNISERS:
                recognise(head_of("a.json", data))
    assert kept > rounds // 3


@pytest.mark.parametrize("format", LISTS)
def test_good_messages_among_bad_ones_are_kept(format, tmp_path):
    rng = random.Random(format)
    for _ in range(20):
        value = value_of(format)
        inner = value
        for key in LISTS[format]:
            inner = inner[key]
        good = list(inner)
        bad = [changed(rng, rng.choice(good), 0.3) if rng.random() < 0.5 else rng.choice(ODD) for _ in range(8)]
        inner[:] = []
        for one in good:
            inner += [one, *rng.sample(bad, 3)]
        texts = "\n".join(said(results(format, json.dumps(value).encode(), dialogue_gap_minutes=1e9)))
        for text in said(results(format, example(format))):
            assert text in texts or format == "slack"  # another name may resolve a mention
        path = tmp_path / "a.json"
        path.write_text(json.dumps(value))
        items = read(path, format)
        assert documents(items)
        assert not [item for item in items if isinstance(item, Rejected) and item.reason == "reader_failed"]


@pytest.mark.parametrize("format", EXAMPLES)
@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=200) | st.text('{}[]":,\\nul tex', max_size=80).map(str.encode))
def test_any_bytes(format, data):
    results(format, data)
    results(format, example(format) + data)
    results(format, data + example(format))


@pytest.mark.parametrize("format", JSON)
def test_depth_and_bombs_take_bounded_memory(format):
    deep = b"[" * 100_000
    for data in (deep, b'{"messages": ' + deep, b'{"a":' * 100_000, b'[{"text": ' + deep, b'{"comments": [' + deep):
        results(format, data)
    long = json.dumps({"messages": [{"text": "x" * 30_000_000}], "tickets": [], "value": []}).encode()
    found, peak = peak_of(lambda: results(format, long, max_document_chars=1000))
    assert not said(found)
    assert peak < 12 << 20


def test_a_quote_that_never_ends_takes_bounded_memory():
    data = b'AuthorID,Author,Date,Content,Attachments,Reactions\n1,a,b,c,,\n1,a,b,"' + (b"x" * 99 + b"\n") * 100_000
    found, peak = peak_of(lambda: results("discord_csv", data, max_document_chars=1000))
    assert said(found) == ["c"]
    assert peak < 12 << 20
