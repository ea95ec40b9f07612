"""Policies on slang, typos, scanned text, foreign names and dictated numbers, in frames they were not made from."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from noisy_text import SETS, noisy_sentences, read_set

from pipelines.corpus.split import Splitter
from pipelines.policies.detectors.conservative import ConservativePolicy
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy

NUMBER = 1_200
LEAST_PUBLIC = {"A": 0.6, "B": 0.6, "C": 0.6, "D": 0.6, "E": 0.4}  # of E 47 % were measured, once


@pytest.fixture(scope="module")
def noisy():
    """Set -> sentences with the gold spans, tokenised."""
    splitter = Splitter()
    made = {}
    for which in SETS:
        made[which] = [
            (Sentence(text, *splitter.tokens(text)), gold) for text, gold in noisy_sentences(which, NUMBER, 1)
        ]
    return made


def test_the_sets_share_no_frame_and_no_name():
    seen = {}
    for which in SETS:
        made = read_set(which)
        listed = {(key, text) for key, texts in made["texts"].items() for text in texts}
        for kind in ("GIVEN", "FAMILY", "ORG", "PLACE", "ADDRESS"):
            listed |= {(kind, value) for value in made["values"][kind] if "{" not in value}
        assert listed.isdisjoint(seen)
        seen.update(dict.fromkeys(listed))
    assert len(seen) > 800


@pytest.mark.parametrize("which", SETS)
def test_conservative_keeps_noisy_secrets_private(noisy, which):
    policy = make_policy(PolicyOptions(name="conservative"))
    bearing = [not policy.find(sentence) for sentence, gold in noisy[which] if gold]
    plain = [not policy.find(sentence) for sentence, gold in noisy[which] if not gold]
    assert len(bearing) >= 800
    assert sum(bearing) / len(bearing) <= 0.01  # measured on more of them, with intervals: docs/policies.md
    assert sum(plain) / len(plain) >= LEAST_PUBLIC[which]


@pytest.mark.parametrize(("which", "least"), [("A", 0.85), ("B", 0.73)])
def test_customersim_finds_most_of_its_kinds_in_noisy_text(noisy, which, least):
    policy = make_policy(PolicyOptions(name="customersim"))
    found = total = 0
    for sentence, gold in noisy[which]:
        mask = {i for span in policy.find(sentence) for i in range(span.start_token, span.end_token)}
        for start, end, kind in gold:
            if kind in ("NAME", "ADDRESS", "PHONE", "CODE"):
                wanted = set(range(*sentence.widen(start, end)))
                total, found = total + len(wanted), found + len(wanted & mask)
    assert found / total >= least


NAME_LIKE = [
    ("next turned me down", "next"),
    ("so cookie walks in", "cookie"),
    ("i bought it at target", "target"),
    ("did hope get home ok", "hope"),
    ("we found paradise", "paradise"),
    ("i left cookie because of it", "cookie"),
    ("please give it to cookie", "cookie"),
    ("see what hope posted", "hope"),
    ("kind regards, long", "long"),
    ("i am from great places", "great"),
    ("the wedding is new years day", "day"),
    ("he lives on water street", "street"),
    ("tell slim to hurry up", "slim"),
    ("my friend chance is here", "chance"),
    ("good morning white", "white"),
    ("thank you will", "will"),
    ("see you in may", "may"),
    ("it is on main street", "main street"),
    ("everyone calls me red", "red"),
    ("find me on there as just me", "just"),
    ("the wifi is go team", "go"),
    ("password: welcome home", "welcome"),
    ("try go team as password", "team"),
    ("use welcome home to log in", "welcome"),
    ("it ends with two", "two"),
    ("password one", "one"),
    ("she has a weak heart", "heart"),
    ("we paid a quarter million", "million"),
]


@pytest.mark.parametrize(("text", "expected"), NAME_LIKE)
def test_everyday_words_that_stand_where_a_name_stands_are_found(find, text, expected):
    found = [word for _, masked in find("conservative", text) for word in masked.split()]
    assert set(expected.split()) <= set(found)


@pytest.mark.parametrize(
    "text",
    [
        "i hope it will be here soon",
        "will it be long",
        "may i ask you for help",
        "the next one was better",
        "i would like to block the card",
        "this is the best price",
        "did you find my order",
        "it is not the right size",
        "the password is wrong",
        "what is your name",
        "i will call you back",
        "one of them is broken",
        "CAN SOMEONE TELL ME WHAT IS GOING ON",
        "i am sooo tired of waiting 🙏",
        "pls help, it doesnt work",
        "A table for two please",
        "It is over. A friend of mine called you.",
    ],
)
def test_everyday_use_of_such_words_stays_public(find, text):
    assert find("conservative", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "call jo\u200bhn back",
        "call jose\u0301 back",
        "call \u202emoc.x@a\u202c back",
        "call ｊｏｈｎ back",
        "c\u0430ll me back",  # a Cyrillic letter
        "it is the \u2163 of them",
        "it is \u00bd of them",
        "she likes \U0001f34e",
        "we love \U0001f1eb\U0001f1f7",
        "call me\x00 back",
        "III was here",
        "A. long was here",
        "we met A friend of mine",
    ],
)
def test_what_is_written_in_odd_characters_is_never_everyday(text):
    split = ConservativePolicy(PolicyOptions(name="conservative"))
    assert split.find(Sentence(text, [0], [len(text)])) != []


PIECES = """
name's name is called me go by find as password code's pin login use to log in from at the will
. , : ; ( ) ! … ' ’ " 😂 hope cookie long day street two THE sooo
"""


@example([("(", " "), ("as", " "), ("password", "")])
@given(st.lists(st.tuples(st.sampled_from(PIECES.split()), st.sampled_from(["", " ", "  ", "\n"])), max_size=12))
def test_any_order_of_announcing_words_and_marks_is_judged(pieces):
    text = "".join(piece + gap for piece, gap in pieces)
    policy = ConservativePolicy(PolicyOptions(name="conservative"))
    policy.find(Sentence(text, [0], [len(text)]) if text else Sentence("", [], []))  # no error is the test
    assert policy.find(Sentence(f"{text} qwrtz", [0], [len(text) + 6])) != []


SPELLED = [
    ("it is five five two oh one", [("ORDER", "five five two oh one")]),
    ("call double seven three four five six one two", [("PHONE", "double seven three four five six one two")]),
    ("the code is k x 4 b as in bravo nine", [("TRACKING", "k x 4 b as in bravo nine")]),
    ("one or two of them", []),
    ("i have one", []),
    ("1 2 3 4 5", []),
]


@pytest.mark.parametrize(("text", "expected"), SPELLED)
def test_dictated_numbers(text, expected):
    from pipelines.policies.english.spoken_numbers import find_spoken_numbers

    assert [(label, text[start:end]) for start, end, label in find_spoken_numbers(text)] == expected


CUED = [
    ("dr kowalczyk will see you", ["kowalczyk"]),
    ("tell thuy long i said so", ["thuy long"]),
    ("it was sent to m. rivers today", ["m. rivers"]),
    ("thanks for your help", []),
    ("hi there", []),
    ("i'm waiting", []),
]


@pytest.mark.parametrize(("text", "expected"), CUED)
def test_names_written_small_where_a_name_is_due(find, text, expected):
    assert [masked for label, masked in find("customersim", text) if label == "NAME"] == expected
