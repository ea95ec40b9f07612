import functools
import re

import pytest
import spacy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.corpus.documents import map_gold
from pipelines.corpus.items import GoldSpan, Turn
from pipelines.corpus.split import MAX_RUN_CHARS, Sentence, Splitter
from pipelines.errors import ConfigError

NLP = spacy.blank("en")
made = functools.cache(Splitter)

MARKS = [
    "é",
    "👩\u200d👩\u200d👧",
    "🇩🇪",
    "\u200b",
    "\u200d",
    "\u202e",
    "\ufeff",
    "שלום",
    "مرحبا",
    "Ａ",
    "𝕏",
    "。",
    "?!",
]
WORDS = ["...", "…", '"', "'", ")", "(", "can't", "Mr. X", "U.S.", "3.5", "a.b@c.de", "http://x.y/?q=1", "Tag: "]
SPACES = [" ", "  ", "\t", "\u3000", "\u00a0", "\r\n", "\n", "\r", "\u2028", "\x85", "\x1c", "\nSYS: ", "\nUSR: "]
ODD = st.sampled_from([*MARKS, *WORDS, *SPACES])
TEXT = st.lists(st.one_of(ODD, st.text(max_size=6)), max_size=30).map("".join)


def split(text: str, mode: str = "auto") -> list[Sentence]:
    (found,) = made(mode=mode).split([text])
    return found


def texts(text: str, mode: str = "auto") -> list[str]:
    return [sentence.text for sentence in split(text, mode)]


def check(text: str, sentences: list[Sentence], covers_all: bool) -> None:
    covered = [False] * len(text)
    at = 0
    for s in sentences:
        assert s.text
        assert s.text == s.text.strip()
        assert text[s.char_start : s.char_start + len(s.text)] == s.text
        assert s.char_start >= at
        at = s.char_start + len(s.text)
        assert s.token_starts[0] == 0
        assert s.token_ends[-1] == len(s.text)
        assert len(s.token_starts) == len(s.token_ends)
        assert all(a < b for a, b in zip(s.token_starts, s.token_ends, strict=True))
        assert all(b <= a for b, a in zip(s.token_ends, s.token_starts[1:], strict=False))
        for a, b in zip(s.token_starts, s.token_ends, strict=True):
            assert not any(c.isspace() for c in s.text[a:b])
            covered[s.char_start + a : s.char_start + b] = [True] * (b - a)
    if covers_all:
        assert all(done or c.isspace() for done, c in zip(covered, text, strict=True))


@settings(deadline=None, max_examples=200)
@given(text=TEXT)
def test_offsets_are_exact_and_every_visible_character_is_in_one_token(text):
    check(text, split(text, "rules"), covers_all=True)
    check(text, split(text, "turns"), covers_all=False)
    check(text, split(text, "auto"), covers_all=False)
    (short,) = made(mode="auto", max_sentence_tokens=5).split([text])
    check(text, short, covers_all=False)
    assert all(len(s.token_starts) <= 5 for s in short)


@settings(deadline=None, max_examples=150)
@given(text=TEXT)
@example(text="SYS: ):2")  # spaCy takes ": )" for a face there, as if no space stood between
def test_tokens_are_those_of_spacy(text):
    expected = [(t.idx, t.idx + len(t)) for t in NLP.tokenizer(text) if not t.is_space]
    in_runs = [
        (run.start() + t.idx, run.start() + t.idx + len(t))
        for run in re.finditer(r"\S+", text)
        for t in NLP.tokenizer(run.group())
    ]
    found = [
        (s.char_start + a, s.char_start + b)
        for s in split(text, "rules")
        for a, b in zip(s.token_starts, s.token_ends, strict=True)
    ]
    assert found in (expected, in_runs)
    assert found == expected or re.search(r"[:;=8x]\S*\s+\S*[()\[\]]|[()\[\]]\S*\s+\S*[:;=8x]", text)


@settings(deadline=None, max_examples=40)
@given(batch=st.lists(TEXT, max_size=6))
def test_a_text_is_split_the_same_alone_and_in_company(batch):
    assert list(made(mode="auto").split(batch)) == [next(Splitter_fresh().split([text])) for text in batch]


def Splitter_fresh() -> Splitter:
    made(mode="auto")._known_runs.clear()
    return made(mode="auto")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One here. Two there! Three? Yes.", ["One here.", "Two there!", "Three?", "Yes."]),
        ("Dr. Smith lives in the U.S. now. He left.", ["Dr. Smith lives in the U.S. now.", "He left."]),
        ("It is 3.5 km. That is far.", ["It is 3.5 km.", "That is far."]),
        ("Approx. five of them. Six", ["Approx. five of them.", "Six"]),
        ('He said "Go away." Then he left.', ['He said "Go away."', "Then he left."]),
        ('" Why ? " he asked . " No . " She left .', ['" Why ? " he asked .', '" No . "', "She left ."]),
        ("(It rained.) We stayed.", ["(It rained.)", "We stayed."]),
        ("Really?! Yes... Maybe", ["Really?!", "Yes...", "Maybe"]),
        ("Hi! how are you", ["Hi!", "how are you"]),
        ("well... maybe not", ["well... maybe not"]),
        ("one line\nanother line\r\n\r\nlast", ["one line", "another line", "last"]),
        ("see a.B for more", ["see a.B for more"]),
        ("  \n\t ", []),
        ("", []),
        ("...", ["..."]),
    ],
)
def test_rules(text, expected):
    assert texts(text, "rules") == expected


def test_turns_are_rows_and_tags_are_metadata():
    text = "SYS: Hello. Who is it?\r\nUSR: Ann Lee.\nSYS:\nUSR: Bye.\n"
    found = split(text)
    assert [(s.speaker, s.text) for s in found] == [("SYS", "Hello. Who is it?"), ("USR", "Ann Lee."), ("USR", "Bye.")]
    assert [text[s.char_start : s.char_start + 3] for s in found] == ["Hel", "Ann", "Bye"]


def test_a_name_as_a_tag_is_replaced_but_roles_are_kept():
    found = split("Anna: hi\nBob Lee: hello\nAnna: bye\nAgent 2: ok")
    assert [s.speaker for s in found] == ["SPEAKER_1", "SPEAKER_2", "SPEAKER_1", "Agent 2"]


@pytest.mark.parametrize(
    "text",
    [
        "Note: this is one line",
        "Name: Ann\nPhone: 5\nCity: X",
        "SYS: hello\nand a line without a tag",
        "\n".join(f"Tag{i}: hello\nTag{i}: again" for i in range(5)),
        "USR:no space\nSYS:no space",
        "usr: lower case\nsys: tags",
    ],
)
def test_what_is_no_dialogue_is_split_by_rules(text):
    found = split(text)
    assert all(s.speaker is None for s in found)
    assert [s.text for s in found] == texts(text, "rules")


def test_turns_mode_joins_lines_without_a_tag_to_the_turn_before():
    found = split("Opening line.\nUSR: one\ntwo. three\n\nfour\nSYS: ok", "turns")
    assert [(s.speaker, s.text) for s in found] == [
        (None, "Opening line."),
        ("USR", "one\ntwo. three\n\nfour"),
        ("SYS", "ok"),
    ]


def test_overlong_sentences_are_cut_at_token_borders_and_marked():
    splitter = Splitter(mode="rules", max_sentence_tokens=8)
    (found,) = splitter.split(["a " * 20 + ". Short one."])
    assert [(len(s.token_starts), s.is_overlong_piece) for s in found] == [(8, True), (8, True), (5, True), (3, False)]
    (exact,) = splitter.split(["a b c d e f g ."])
    assert [(len(s.token_starts), s.is_overlong_piece) for s in exact] == [(8, False)]


def test_documents_beyond_spacys_limit_and_runs_without_white_space_work():
    text = "Some words here. " * 80_000
    assert len(text) > NLP.max_length
    assert len(split(text)) == 80_000
    blob = "x" * (MAX_RUN_CHARS * 3 + 7)
    (sentence,) = split(blob)
    assert sentence.token_ends == [MAX_RUN_CHARS, 2 * MAX_RUN_CHARS, 3 * MAX_RUN_CHARS, len(blob)]
    check("(" * 5000, split("(" * 5000, "rules"), covers_all=True)


@pytest.mark.slow
def test_what_spacy_interns_does_not_grow_with_the_corpus():
    splitter = Splitter()
    list(splitter.split(["warm up"]))
    before = len(splitter._nlp.vocab.strings)
    words = (f"word{i}{'x' * 80}," for i in range(6_000))
    assert sum(len(s) for s in splitter.split(words)) == 6_000
    assert len(splitter._nlp.vocab.strings) - before < 1_000
    assert sum(len(run) for run in splitter._known_runs) <= 1_000_000


def test_an_unknown_language_is_a_config_error():
    with pytest.raises(ConfigError, match=r"split\.language"):
        Splitter(language="xx-nope")


# --- gold -------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(text=TEXT, data=st.data())
def test_gold_rows_cover_exactly_the_tokens_that_a_span_touches(text, data):
    visible = [m.span() for m in re.finditer(r"\S+", text)]
    if not visible:
        return
    spans = []
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        spans.append(GoldSpan(start, data.draw(st.integers(start + 1, len(text))), "X"))
    sentences = split(text, "rules")
    rows = map_gold(spans, sentences)
    assert rows == sorted(rows, key=lambda r: (r.sentence_index, r.secret_id))
    for secret_id, span in enumerate(spans):
        touched = {
            (index, token)
            for index, s in enumerate(sentences)
            for token, (a, b) in enumerate(zip(s.token_starts, s.token_ends, strict=True))
            if s.char_start + a < span.end and s.char_start + b > span.start
        }
        mine = [r for r in rows if r.secret_id == secret_id]
        assert {(r.sentence_index, t) for r in mine for t in range(r.start_token, r.end_token)} == touched
        for r in mine:
            s = sentences[r.sentence_index]
            assert 0 <= r.start < r.end <= len(s.text)
            assert s.text[r.start : r.end] in text[span.start : span.end]


def test_a_span_over_two_sentences_is_one_secret_in_two_rows():
    text = "My name is Ann. Lee is my name."
    rows = map_gold([GoldSpan(0, 2, "A"), GoldSpan(11, 19, "NAME")], split(text))
    assert [(r.sentence_index, r.start, r.end, r.start_token, r.end_token, r.label, r.secret_id) for r in rows] == [
        (0, 0, 2, 0, 1, "A", 0),
        (0, 11, 15, 3, 5, "NAME", 1),
        (1, 0, 3, 0, 1, "NAME", 1),
    ]


def test_a_span_on_a_speakers_tag_only_gives_no_row():
    assert map_gold([GoldSpan(0, 4, "NAME")], split("Anna: hi\nAnna: bye")) == []


def test_the_names_that_tags_replace_are_known_and_roles_are_none():
    splitter = Splitter(mode="auto")
    turns = [Turn(0, 2, "arlie"), Turn(3, 5, "Agent 2"), Turn(6, 8, None), Turn(9, 11, "Bo Li")]
    assert splitter.speakers("hi\nho\nha\nhu", turns) == [("SPEAKER_1", "arlie"), ("SPEAKER_2", "Bo Li")]
    assert splitter.speakers("Ann: hi\nSYS: ho\nAnn: ha") == [("SPEAKER_1", "Ann")]
    assert splitter.speakers("Name: Ann\nPhone: 1") == splitter.speakers("a: b. c: d.") == []
    assert splitter.speakers("Ann: hi\nAnn: ho", "whole") == []
