"""Text messages of Android phones: speakers, threads, what is left out, and damaged files."""

from __future__ import annotations

import io
import random
from xml.sax.saxutils import quoteattr

import pytest
from corpus.corpus_files import documents, peak_of, read, readings_of, rejections
from corpus.format_examples_exports import SMS
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.corpus.dialogues import Dialogue
from pipelines.corpus.exports.sms import SmsReader
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.recognise_exports import sms

NAMES = ("address", "date", "type", "body", "contact_name", "subject")


def element(**fields: str) -> str:
    given_ = {"address": "+14155550100", "date": "1767605000000", "type": "1", "body": "Hi", **fields}
    return "<sms " + " ".join(f"{name}={quoteattr(value)}" for name, value in given_.items()) + " />"


def found(*elements: str | bytes, **options: object) -> list[tuple[int, Dialogue | BadRow]]:
    inner = b"\n".join(one if isinstance(one, bytes) else one.encode() for one in elements)
    data = b"<?xml version='1.0' encoding='UTF-8'?>\n<smses count='1'>\n" + inner + b"\n</smses>"
    return list(SmsReader(ReadOptions(**options)).read(io.BytesIO(data)))


def sorted_by_row(*elements: str) -> list[tuple[int, Dialogue | BadRow]]:
    return sorted(found(*elements), key=lambda item: item[0])


def turns(items: list[tuple[int, Dialogue | BadRow]]) -> list[list[tuple[str | None, str]]]:
    return [list(item.turns) for _, item in items if isinstance(item, Dialogue)]


def reasons(items: list[tuple[int, Dialogue | BadRow]]) -> list[tuple[int, str]]:
    return [(row, item.reason) for row, item in items if isinstance(item, BadRow)]


def test_the_example_has_threads_speakers_and_names(tmp_path):
    path = tmp_path / "sms.xml"
    path.write_text(SMS)
    items = sorted(documents(read(path, "sms")), key=lambda item: item.row)
    said = [[(turn.speaker, item.text[turn.start : turn.end]) for turn in item.turns or ()] for item in items]
    assert said == [
        [("Ann Lee", "Is the ferry at 3 > or 4? \U0001f6a5"), ("SELF", "At 4, Ann.\nSee you.")],
        [("+14155550177", "Here is the timetable.")],
        [("TAXI", "Your code is 5512.")],
    ]
    assert [item.names for item in items] == [("Ann Lee",), ("Ann Lee", "Bob Ray"), ()]
    assert sorted(part for item in items for part in item.left_out) == [("draft", 1), ("media", 1)]


def test_kinds_of_messages_and_missing_values():
    items = sorted_by_row(
        element(contact_name="(Unknown)", body="a"),
        element(type="2", contact_name="Ann", body="b"),
        element(address="null", body="c"),
        element(body="null"),
        element(subject="Trip", body="d"),
        '<sms address="1" date="x" type="1" />',
        '<mms msg_box="1" address="1" date="9"><parts></parts></mms>',
        '<mms msg_box="2" address="1" date="9" sub="proto:abc"><parts><part ct="text/plain" text="e"/></parts></mms>',
    )
    assert [t for one in turns(items) for t in one] == [
        ("+14155550100", "a"), ("SELF", "b"), ("+14155550100", "Trip\nd"), (None, "c"), ("SELF", "e"),
    ]  # fmt: skip
    assert reasons(items) == [(6, "missing_text")]
    left = [part for _, item in items if isinstance(item, Dialogue) for part in item.left_out]
    assert sorted(left) == [("empty", 1), ("system", 1)]


@pytest.mark.parametrize("start", ["", "<!DOCTYPE smses [<!ENTITY a 'x'><!ENTITY b '&a;&a;&a;&a;'>]>"])
def test_no_entity_of_the_file_is_read(start):
    items = found(start, element(body="good"), '<sms type="1" body="&b;" />', '<sms type="1" body="&xxe;" />')
    assert turns(items) == [[("+14155550100", "good")]]
    assert reasons(items) == [(2, "bad_markup"), (3, "bad_markup")]


def test_pictures_take_bounded_memory_and_lose_no_text():
    picture = b'<part ct="image/jpeg" data="' + b"A" * 9_000_000 + b'" text="null" />'
    mms = (
        b'<mms date="1" msg_box="1" address="7"><parts>'
        + picture
        + b'<part ct="text/plain" text="see" /></parts></mms>'
    )
    data = b"<smses>" + mms * 3 + element(address="7").encode() + b"</smses>"
    file = io.BytesIO(data)
    reader = SmsReader(ReadOptions(max_document_chars=1000, dialogue_gap_minutes=1e9))
    items, peak = peak_of(lambda: list(reader.read(file)))
    assert turns(items) == [[("7", "see")] * 3 + [("7", "Hi")]]
    assert not reasons(items)
    assert peak < 4 << 20


ENDLESS = (b'<sms type="1" body="' + b"x" * 9_000_000 + b'" />', b"<mms>" + b"<part />" * 400_000)


@pytest.mark.slow
@pytest.mark.parametrize("bad", ENDLESS, ids=("value", "parts"))
def test_a_message_without_end_takes_bounded_memory_and_no_neighbour(bad):
    file = io.BytesIO(b"<smses>" + element(body="before").encode() + bad + element(body="after").encode())
    items, peak = peak_of(lambda: list(SmsReader(ReadOptions(max_document_chars=1000)).read(file)))
    assert turns(items) == [[("+14155550100", "before"), ("+14155550100", "after")]]
    assert reasons(items)[0][1] == "over_long"
    assert peak < 12 << 20


@pytest.mark.parametrize("data", [b"", b"<html></html>", b"<smses", b"text", b"<calls></calls>"])
def test_other_files_are_rejected(data):
    items = list(SmsReader(ReadOptions()).read(io.BytesIO(data)))
    assert reasons(items) == ([] if data == b"<smses" else [(1, "missing_text")])


def test_good_messages_among_bad_ones_are_kept():
    rng = random.Random(5)
    odd = [
        "<sms",
        "<sms />",
        "<sms body='a' body='b' />",
        "<mms",
        "<mms>",
        "<sms body='\x01' />",
        "<b>",
        "&#0;",
        "/>",
        ">",
    ]
    odd += ["<mms><parts><part ct='text/plain' text='&#55357;'/></parts></mms>", "<!--", "<sms type='1' body='&lt;"]
    for _ in range(200):
        texts = [f"good {number}" for number in range(5)]
        rows = [part for text in texts for part in (*rng.sample(odd, 2), element(body=text))]
        items = found(*rows, dialogue_gap_minutes=1e9)
        assert [text for one in turns(items) for _, text in one if text.startswith("good")] == texts


@settings(max_examples=150, deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, st.text(max_size=12))), max_size=6), st.data())
def test_any_values_and_any_cut(rows, data):
    text = "".join(element(**row) for row in rows).encode("utf-8", "surrogatepass")
    whole = b"<smses>" + text + b"</smses>"
    cut = data.draw(st.integers(0, len(whole)))
    for part in (whole, whole[:cut]):
        for row, item in SmsReader(ReadOptions()).read(io.BytesIO(part)):
            assert row >= 1
            assert isinstance(item, Dialogue | BadRow)


def test_a_log_of_calls_is_no_text():
    def formats(data: bytes) -> list[str | None]:
        return [reading.format for reading in readings_of([sms], "a.xml", data)]

    assert formats(b'<calls count="1"><call number="1" duration="3" date="1" type="1" /></calls>') == [None]
    assert formats(b'<calls><call duration="3" /></calls>') == [None]
    assert formats(SMS.encode()) == ["sms"]
    assert formats(b"<page></page>") == []


def test_rows_before_the_cut_of_a_compressed_file_are_kept(tmp_path):
    import gzip

    rng = random.Random(1)
    rows = "".join(element(body=f"{number} {rng.random()}", address=str(number)) for number in range(9_000))
    data = gzip.compress(f"<smses>{rows}</smses>".encode())
    path = tmp_path / "sms.xml.gz"
    path.write_bytes(data[: len(data) * 2 // 3])
    items = read(path, "sms")
    assert len(documents(items)) > 4_000
    assert [reason for _, reason in rejections(items)] in (["bad_markup", "damaged"], ["damaged"])
