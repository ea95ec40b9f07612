"""The small English model that ships: what it finds, its size, and what it was made from."""

import pytest
from support.simple_offsets import words_of

from pipelines.errors import ConfigError
from pipelines.policies.english.noisy_entities import FOLDER
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy


@pytest.fixture(scope="module")
def policy():
    return make_policy(PolicyOptions(name="noisy_entities"))


def found(policy, text, label="PERSON"):
    sentence = Sentence(text, *words_of(text))
    words = sentence.tokens()
    return [" ".join(words[s.start_token : s.end_token]) for s in policy.find(sentence) if s.label == label]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("my name is anna kowalski", "anna kowalski"),
        ("this is priya speaking", "priya"),
        ("thx @benny_84 see u tmrw", "@ benny_84"),
        ("CALL MARCUS WEBER ABOUT IT", "MARCUS WEBER"),
        ("lunch w/ tom and lisa", "lisa"),
    ],
)
def test_names_in_any_case_and_handles_are_found(policy, text, name):
    assert any(name in run for run in found(policy, text)), found(policy, text)


@pytest.mark.parametrize(
    "text",
    ["i cant log in since monday", "how much is the second bag?", "ok thank you so much", "it says the code is wrong"],
)
def test_plain_sentences_stay(policy, text):
    assert policy.find(Sentence(text, *words_of(text))) == []


def test_text_of_any_length_and_odd_text_is_read(policy):
    assert "anna" in found(policy, "nothing here at all . " * 300 + "ask anna about it")[-1]
    for text in ("", "\u200b", "\U0001f600", "x" * 5_000):
        starts, ends = ([0], [len(text)]) if text.strip() else ([], [])
        policy.find(Sentence(text, starts, ends))


def test_other_languages_are_refused():
    with pytest.raises(ConfigError, match="reads English"):
        make_policy(PolicyOptions(name="noisy_entities", language="de"))


def test_it_is_small_and_says_what_it_was_made_from():
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 10_000_000
    notice = (FOLDER / "NOTICE.txt").read_text(encoding="utf-8")
    assert "CC BY 4.0" in notice
    assert "Apache 2.0" in notice
