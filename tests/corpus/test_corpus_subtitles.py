"""Subtitles and transcripts: cues, speakers, sentences over cues, captions that scroll, and layouts of programs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from chat_logs import left_out, read, rejected, turns
from format_examples_logs import OTTER, SRT, VTT_TEAMS, VTT_ZOOM, ZOOM_CHAT
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.dialogues import Dialogue
from pipelines.corpus.subtitles import time_of

CALL = [[("Ann Kowalski", "Good morning, how can I help you?"), ("Bob Osei", "My parcel is lost & I need it.")]]
YOUTUBE = """\
WEBVTT
Kind: captions
Language: en

00:00:00.000 --> 00:00:02.000 align:start position:0%
 \nthe<00:00:00.500><c> pump</c><00:00:01.000><c> works</c>

00:00:02.000 --> 00:00:02.010 align:start position:0%
the pump works
\x20

00:00:02.010 --> 00:00:04.000 align:start position:0%
the pump works
since<00:00:02.500><c> noon</c>

00:00:04.000 --> 00:00:04.010 align:start position:0%
since noon
\x20

00:00:04.010 --> 00:00:06.000 align:start position:0%
since noon
so<00:00:04.500><c> be</c><c> glad</c>
"""


def cue(at: int, text: str, mark: str = ".") -> str:
    return f"{at}\n00:00:{at:02}{mark}000 --> 00:00:{at:02}{mark}900\n{text}\n\n"


def test_a_call_with_names_before_colons():
    assert turns("vtt", VTT_ZOOM) == CALL
    assert left_out("vtt", VTT_ZOOM) == {}


def test_a_call_with_voices():
    first, second = CALL[0]
    assert turns("vtt", VTT_TEAMS) == [[first, (second[0], "My parcel is lost.")]]


def test_several_voices_in_a_cue():
    text = "<v.loud Ann Lee>Hi <i>there</i></v> <v Bob>No &lt;really&gt;</v>"
    assert turns("vtt", f"WEBVTT\n\n{cue(1, text)}") == [[("Ann Lee", "Hi there"), ("Bob", "No <really>")]]


def test_subtitles_without_speakers_are_text_whose_sentences_are_whole():
    (found,) = [item for _, item in read("srt", SRT)]
    assert found.is_text
    assert [text for _, text in found.turns] == [
        "The boat had been ready since noon. Nobody came.", "Where is Bob?", "At the pump."
    ]  # fmt: skip
    assert dict(found.left_out) == {"sound": 1}


def test_captions_of_youtube_in_sbv():
    cues = "0:00:01.000,0:00:02.500\nThe pump\nruns at 0:00:09.\n\n0:00:02.500,0:00:04.000\nsince noon.\n"
    assert turns("vtt", cues) == turns("vtt", "WEBVTT\n\n" + cues.replace(",", " --> "))
    assert [text for _, text in turns("vtt", cues)[0]] == ["The pump runs at 0:00:09.", "since noon."]


def test_notes_styles_and_settings_of_cues_are_left_out():
    text = "WEBVTT - A title\n\nNOTE written\nby hand\n\nSTYLE\n::cue { color: red }\n\nREGION\nid:x\n\n" + (
        "one\n00:01.000 --> 00:02.000 align:start line:0\nHello.\n\nNOTE end\n"
    )
    assert turns("vtt", text) == [[(None, "Hello.")]]
    assert left_out("vtt", text) == {"note": 4}


def test_captions_that_scroll_come_once():
    assert turns("vtt", YOUTUBE) == [[(None, "the pump works since noon so be glad")]]


def test_captions_that_grow_come_once():
    text = "WEBVTT\n\n" + "".join(cue(n, " ".join(["one", "two", "three", "four"][:n])) for n in range(1, 5))
    assert turns("vtt", text) == [[(None, "one two three four")]]


def test_an_answer_that_is_repeated_stays():
    text = "".join(
        cue(n, text, ",") for n, text in enumerate(["Go on, then.", "No.", "No.", "Why?", "So.", "Well."], 1)
    )
    assert [t for _, t in turns("srt", text)[0]] == ["Go on, then.", "No.", "No.", "Why?", "So.", "Well."]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Ann: Hi.", "Bob: Ho.", "Ann: You", "are late."], [("Ann", "Hi."), ("Bob", "Ho."), ("Ann", "You are late.")]),
        (["[Ann] Hi.", "[Bob] Ho.", "[Ann] Yes.", "[Bob] No."], [("Ann", "Hi."), ("Bob", "Ho."), ("Ann", "Yes."),
                                                                ("Bob", "No.")]),
        (["- Ann: Hi.\n- Bob: Ho.", "Ann: Yes."], [("Ann", "Hi."), ("Bob", "Ho."), ("Ann", "Yes.")]),
        (["(Ann Lee)\nHi, I", "(Ann Lee)\nam here.\n-\n(Bob)\nHo.", "(Bob)\nNo.\n(laughs)"],
         [("Ann Lee", "Hi, I am here."), ("Bob", "Ho. No.")]),
        ([">> ANN: Hi.", ">> Ho.", "you."], [("ANN", "Hi."), (None, "Ho. you.")]),
        (["{\\an8}<font color=red>Note: it is</font>", "over.", "So.", "Or.", "If.", "Me.", "Go."],
         [(None, "Note: it is over."), (None, "So."), (None, "Or."), (None, "If."), (None, "Me."), (None, "Go.")]),
    ],
)  # fmt: skip
def test_marks_of_speakers(texts, expected):
    srt = "".join(cue(n, text, ",") for n, text in enumerate(texts, 1))
    assert turns("srt", srt) == [expected]
    assert turns("srt", b"\xef\xbb\xbf" + srt.replace("\n", "\r\n").encode()) == [expected]


def test_cues_without_blank_lines_and_with_blank_lines_inside():
    srt = "1\n00:00:01,000 --> 00:00:02,000\nIn 2024\n2\n00:00:02,000 --> 00:00:03,000\nit rained\n\nall day.\n"
    assert turns("srt", srt) == [[(None, "In 2024 it rained all day.")]]


def test_a_wrong_time_is_no_text():
    assert turns("srt", "1\n00:99:99:1 --> 5\nHello.\n") == [[(None, "Hello.")]]


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:01:02,500", 62.5), ("01:02.5", 62.5), ("1:00:00", 3600), ("x", None), ("1:2:3:4", None)]
)
def test_times(text, seconds):
    assert time_of(text) == seconds


def test_a_bad_cue_is_rejected_and_its_neighbours_stay():
    data = b"".join(
        cue(n, "X", ",").encode().replace(b"X", text)
        for n, text in enumerate([b"Ann: one.", b"Bob: x\xff", b"Bob: y\0", b"Bob: " + b"z" * 9_000, b"Ann: two."], 1)
    )
    assert turns("srt", data, max_document_chars=2_000) == [[("Ann", "one. two.")]]
    assert rejected("srt", data, max_document_chars=2_000) == [(2, "undecodable"), (3, "nul"), (4, "over_long")]


@given(st.lists(st.tuples(st.sampled_from(["Ann", "Bob", "Zoë"]), st.text("abc", min_size=1, max_size=9)), min_size=9))
def test_turns_join_and_lose_no_word(cues):
    text = "WEBVTT\n\n" + "".join(cue(n % 60, f"<v {name}>{said}</v>") for n, (name, said) in enumerate(cues))
    found = [turn for dialogue in turns("vtt", text) for turn in dialogue]
    assert " ".join(said for _, said in found).split() == [said for _, said in cues] or "rolls" in _rolls(cues)
    assert all(a[0] != b[0] for a, b in pairwise(found))


def _rolls(cues):
    """Cues that repeat the one before are taken for captions that scroll."""
    return "rolls" if any(b.startswith(a) for (_, a), (_, b) in pairwise(cues)) else ""


@given(st.integers(0, len(VTT_ZOOM)))
def test_a_truncated_file_keeps_what_is_whole(at):
    found = [item for _, item in read("vtt", VTT_ZOOM.encode()[:at])]
    kept = " ".join(text for item in found if isinstance(item, Dialogue) for _, text in item.turns)
    assert ("Good morning, how can" in kept) == (at >= VTT_ZOOM.index("how can") + 7)


# --- transcripts ------------------------------------------------------------------------------------------------


def test_a_transcript_with_names_in_lines_of_their_own():
    assert turns("transcript", OTTER) == [
        [
            ("Ann Kowalski", "Good morning, how can I help you?"),
            ("Bob Osei", "My parcel is lost. I need it at 10:15."),
            ("Ann Kowalski", "It is at the pump."),
            ("Bob Osei", "Thanks."),
        ]
    ]
    assert left_out("transcript", OTTER) == {"other": 1, "system": 1}


def test_the_chat_of_a_meeting():
    assert turns("transcript", ZOOM_CHAT) == [
        [("Ann Kowalski", "Welcome, all of you."), ("Bob Osei", "Hello!")],
        [("Bob Osei", "May I leave early?")],
    ]
    reaction = '10:16:05 From Ann Kowalski to Everyone:\n\tReacted to "Hello!" with 👍\n'
    assert left_out("transcript", ZOOM_CHAT + reaction) == {"reaction": 1}


@pytest.mark.parametrize(
    "lines",
    [
        "[00:01:02] Ann: {}\n[00:01:05] Bob Osei: {}\n[00:01:09] Ann: {}\n",
        "00:01:02 Ann: {}\n00:01:05 Bob Osei: {}\n00:01:09 Ann: {}\n",
        "(1:02) Ann: {}\n(1:05) Bob Osei: {}\n(1:09) Ann: {}\n",
        "[00:01:02.500 - 00:01:04.000] Ann: {}\n[00:01:05 - 00:01:08] Bob Osei: {}\n[00:01:09 - 00:01:10] Ann: {}\n",
        "Ann (00:12): {}\nBob Osei (00:14): {}\nAnn (01:12): {}\n",
        "Ann [00:00:12] {}\nBob Osei [00:00:14] {}\nAnn [00:01:12] {}\n",
        "Ann 00:12: {}\nBob Osei 00:14: {}\nAnn 00:19: {}\n",
        "Ann  0:12\n{}\n\nBob Osei  0:14\n{}\n\nAnn  1:12\n{}\n",
        "Ann (00:12):\n{}\n\nBob Osei (00:14):\n{}\n\nAnn (01:12):\n{}\n",
        "00:00:12 Ann\n{}\n\n00:00:14 Bob Osei\n{}\n\n00:00:15 Ann\n{}\n",
        "00:00:00\n\nAnn: {}\nBob Osei: {}\n\n00:05:00\n\nAnn: {}\n",
        "10:15:32\t From  Ann : {}\n10:15:40\t From  Bob Osei : {}\n10:15:41\t From  Ann : {}\n",
        "10:15:32 From Ann To Everyone:\n\t{}\n10:15:40 From Bob Osei To Everyone:\n\t{}\n"
        "10:15:41 From Ann to Everyone:\n\t{}\n",
    ],
)
def test_layouts_of_transcripts(lines):
    text = lines.format("Hello there.", "Hi, who is it?", "Me.")
    expected = [[("Ann", "Hello there."), ("Bob Osei", "Hi, who is it?"), ("Ann", "Me.")]]
    assert turns("transcript", text) == expected
    assert turns("transcript", text.replace("\n", "\r\n")) == expected


def test_a_bad_turn_is_rejected_and_its_neighbours_stay():
    data = b"[00:01] Ann: one\n[00:02] Bob: x\xff\n[00:03] Bob: " + b"z" * 9_000 + b"\n[00:04] Ann: two\n[00:05] Bob: y"
    assert turns("transcript", data, max_document_chars=2_000) == [[("Ann", "one two"), ("Bob", "y")]]
    assert rejected("transcript", data, max_document_chars=2_000) == [(2, "undecodable"), (3, "over_long")]
