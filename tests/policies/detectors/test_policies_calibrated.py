"""The fitted conservative policy: what is forbidden whatever the model says, and what the model lets pass."""

import functools
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noisy_text import noisy_sentences

from pipelines.policies.detectors import calibrated
from pipelines.policies.detectors.calibrated import LIMITS, CalibratedPolicy, Reading
from pipelines.policies.english import contexts
from pipelines.policies.english.name_lists import personal_names
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence


@functools.cache
def policy():
    return CalibratedPolicy(PolicyOptions(name="calibrated"))


def flagged(text):
    return {span.label for span in policy().find(Sentence(text, [0], [len(text)]))}


FEATURES, TABLE = 826863304, 3638411448
SCORES = [[-75, -50, -147, -121, -167, -106, -77, -126, -73, -34], [-107, -110, -122, 11, -116, -100]]

PUBLIC = [
    "The results were published after the end of the project .",
    "It was a small building with a flat roof , and it was used as a store .",
    'She said : " It was a small building . "',
    "he didn 't want to talk about it , and it 's over",
    "the new laptop arrived yesterday evening",
    "A well @-@ known method was used to clean the surface .",
]
PRIVATE = [
    ("The results were published in 1998 .", "CHARACTER"),
    ("The results were published by Wexley .", "WORD"),
    ("The results were published by Hope .", "CAPITAL"),
    ("the password was open up please", "NAME_WORD"),
    ("it is five five two oh one", "NUMBER_WORDS"),
    ("i work for target", "TIES"),
    ("my flight to sandwich was late", "CONTEXT"),
    ("please ask for candy", "CONTEXT"),
    ("notion hired me", "CONTEXT"),
    ("the surgery went well", "WORD"),
    ("call jo\u200bhn back", "CHARACTER"),
    ("c\u0430ll me back", "WORD"),  # a Cyrillic letter
    ("rose", "WORD"),
    ("Bill is right .", "CAPITAL"),
    ("here", "BARE"),
    (", on the way", "BARE"),
    ("A. day is long", "CAPITAL"),
]
CRIMES_AND_ILLNESSES = """
slipped disc|heart attack|heart failure|detached retina|double vision|hearing loss|multiple sclerosis|aggravated assault
indecent exposure|lymphoma|leukaemia|herpes|smallpox|assaults|burglary|blackmail|perjury|morphine|cancers|hypertension
"""
PLACES_AND_TITLES = "bend|twin peaks|rugby|flint|anchorage|willow|maverick|silver springs|iron mountain|breaking bad"
STAY_HERE = ["He was seen in {} with some friends .", "It was shown in {} and they liked it .", "We watched {} again ."]


@pytest.mark.parametrize("text", PUBLIC)
def test_written_english_may_be_public(text):
    assert flagged(text) == set()


@pytest.mark.parametrize(("text", "label"), PRIVATE)
def test_what_may_be_a_secret_is_not(text, label):
    assert label in flagged(text)


@given(
    st.sampled_from(PUBLIC),
    st.integers(0, 60),
    st.sampled_from(["qwrtz", "7", "Kim", "@", "İ", "a\u0301", "ab1", "\x00"]),
)
def test_one_strange_word_makes_any_sentence_private(text, at, strange):
    words = text.split()
    words.insert(at % (len(words) + 1), strange)
    assert flagged(" ".join(words))


PIECES = """
password is name's hope ' s ’ t . : ( " – @-@ THE The target day two in sooo
"""


@given(st.lists(st.sampled_from(PIECES.split()), max_size=12))
def test_any_order_of_words_and_marks_is_judged(words):
    text = " ".join(words)
    policy().find(Sentence(text, [0], [len(text)]) if text else Sentence("", [], []))  # no error is the test
    assert flagged(f"{text} qwrtz")


@pytest.mark.parametrize("secret", CRIMES_AND_ILLNESSES.strip().replace("\n", "|").split("|"))
@pytest.mark.parametrize("frame", ["The report mentions {} as the reason .", "it is about the {} and it is over"])
def test_crimes_and_illnesses_of_plain_words_are_no_public_ones(frame, secret):
    assert flagged(frame.format(secret)) & {"WORD", "PHRASE"}
    assert not flagged(frame.format("weather"))


@pytest.mark.parametrize("name", ["sunny days nursery", "silver moon hotel", "good morning bakery"])
def test_a_business_behind_plain_words_may_be_its_name(name):
    for frame in ("Our family owns {} down by the harbour .", "we bought it at {} last week"):
        assert "PHRASE" in flagged(frame.format(name))
    assert "PHRASE" not in flagged(f"Our family owns the {name.split()[-1]} down by the harbour .")


def test_the_second_model_finds_names_of_plain_words_that_the_first_lets_pass(patch):
    texts = [frame.format(name) for frame in STAY_HERE for name in PLACES_AND_TITLES.split("|")]
    with_both = sum(not flagged(text) for text in texts)
    patch.constant(calibrated, "MAX_PROBABILITY", 1.0)
    with_one = sum(not flagged(text) for text in texts)
    assert with_one >= 10
    assert with_both <= with_one // 2


@pytest.mark.parametrize("text", ["okey thank you sir", "A catch @-@ and @-@ release rule was used ."])
def test_the_second_model_is_not_asked_about_chat_words_and_marks_of_cut_text(text):
    assert flagged(text) == set()


def test_what_is_forbidden_needs_no_model(patch):
    patch(contexts, "_weights", lambda: (np.full(contexts.NUM_BUCKETS, -127, dtype=np.int64), 0))
    patch.constant(calibrated, "MAX_PROBABILITY", 1.0)
    assert flagged("my flight to sandwich was late") == set()
    for text, label in PRIVATE:
        if label not in ("CONTEXT", "ENTITY"):
            assert label in flagged(text)


def test_the_lists_hold_no_names_and_nothing_twice():
    lists = [words for name, words in contexts.LISTS.items() if name not in ("surnames", "chat")]
    together = frozenset().union(*lists)
    assert not together & personal_names()
    assert sum(map(len, lists)) == len(together)


def test_weights_are_of_these_features():
    """Other features, or another table, make the weights meaningless: fit again (benchmarks/calibrated_policy.py)."""
    seen = [Reading(text).seen for text in (PUBLIC[0], "my flight to sandwich was late")]
    buckets = [bucket for words in seen for found in contexts.features(words) for bucket in found]
    table = (Path(contexts.__file__).parent / "weights.npz").read_bytes()
    assert zlib.crc32(np.array(buckets, dtype=np.int64).tobytes()) == FEATURES
    assert zlib.crc32(table) == TABLE
    assert [contexts.scores(words) for words in seen] == SCORES
    assert LIMITS[False, False] < LIMITS[True, False] < LIMITS[True, True] < 0
    assert LIMITS[False, False] < LIMITS[False, True] < LIMITS[True, True]


def test_it_misses_less_than_it_promises_on_text_that_it_was_not_fitted_on():
    """Set E, whose words neither its writer nor its fit has seen; more of it, with intervals: docs/policies.md."""
    made = list(noisy_sentences("E", 800, 1))
    bearing = [not flagged(text) for text, gold in made if gold]
    plain = [not flagged(text) for text, gold in made if not gold]
    assert sum(bearing) == 0
    assert sum(plain) / len(plain) >= 0.4
