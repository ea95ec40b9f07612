"""Policies that read placeholders: the answer is a fixed point, and does not depend on what a mask hides."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reticent
from pipelines.corpus.split import Splitter
from pipelines.mask import MASK
from pipelines.policies.judging.by_hand import mask_by_hand, whole_tokens
from pipelines.policies.judging.judge import Request
from pipelines.policies.judging.stabilise import PLACEHOLDER, Stabiliser, Tokens, reading_of
from pipelines.policies.protocol import Span

WORDS = ("Ann", "b", "c", "d9", "tail")
SPLITTER = Splitter(mode="turns")
Pairs = set[tuple[str, str]]


def words_of(tokens: Tokens) -> list[str]:
    text, starts, ends = tokens
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def finder(pairs: Pairs, name: str, seen: list[str] | None = None) -> Callable[..., list[list[Span] | str]]:
    """Finds a word by the one before it; "*" stands for any, and "!" fails on the text."""

    def find(readings: Sequence[Tokens]) -> list[list[Span] | str]:
        found: list[list[Span] | str] = []
        for reading in readings:
            if seen is not None:
                seen.append(reading[0])
            words = ["", *words_of(reading)]
            hits = [i for i in range(1, len(words)) if {(words[i - 1], words[i]), ("*", words[i])} & pairs]
            failed = any(("!", word) in pairs for word in words)
            found.append(name if failed else [Span(i - 1, i, name, name) for i in hits])
        return found

    return find


def sentence(words: Sequence[str]) -> tuple[str, list[int], list[int]]:
    text = " ".join(words)
    starts = [sum(len(w) + 1 for w in words[:i]) for i in range(len(words))]
    return text, starts, [start + len(word) for start, word in zip(starts, words, strict=True)]


def masked(spans: set[Span] | str) -> set[int]:
    assert isinstance(spans, set)
    return {token for span in spans for token in range(span.start_token, span.end_token)}


pairs = st.sets(st.tuples(st.sampled_from(("*", "", PLACEHOLDER, *WORDS)), st.sampled_from(WORDS)), max_size=8)
lines = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7)


@given(patterns=pairs, model=pairs, words=lines)
def test_masking_by_hand_all_that_was_masked_changes_nothing(patterns: Pairs, model: Pairs, words: list[str]) -> None:
    """The two properties that the module promises: idempotent, and nothing is found in the reading that is left."""
    marked = sentence(words)
    finders = [finder(patterns, "p"), finder(model, "m")]
    (found,) = Stabiliser(finders).find_all([(*marked, [])])
    tokens = masked(found)
    given_all = [Span(token, token + 1, "HAND", "hand") for token in tokens]
    (again,) = Stabiliser(finders).find_all([(*marked, given_all)])
    assert masked(again) == tokens
    mask = bytes(token in tokens for token in range(len(words)))
    left = reading_of(*marked, mask)
    for find in finders:
        (finds,) = find([left.tokens])
        assert all(left.is_placeholder[span.start_token] for span in finds if isinstance(span, Span))


@given(patterns=pairs, model=pairs, words=lines)
def test_the_answer_is_that_of_asking_again_and_again(patterns: Pairs, model: Pairs, words: list[str]) -> None:
    """The slow way: patterns, then the model, each on the reading that is left, until neither finds anything."""
    tokens: set[int] = set()
    while True:
        before = set(tokens)
        for known in (patterns, model):
            read, places = [], []
            for token, word in enumerate(words):
                if token not in tokens:
                    read.append(word)
                    places.append(token)
                elif token - 1 not in tokens:
                    read.append(PLACEHOLDER)
                    places.append(token)
            hits = zip(["", *read], read, places, strict=False)
            tokens = tokens | {at for left, word, at in hits if {(left, word), ("*", word)} & known}
        if tokens == before:
            break
    (found,) = Stabiliser([finder(patterns, "p"), finder(model, "m")]).find_all([(*sentence(words), [])])
    assert masked(found) == tokens


@given(words=lines, others=lines, model=pairs)
def test_a_model_never_reads_what_patterns_find(words: list[str], others: list[str], model: Pairs) -> None:
    """Two values of a secret that patterns find, "d9" and "d9 d9": the model reads the same text in both worlds."""
    always = {("*", "d9")}
    worlds = [[*words, "d9", *others], [*words, "d9", "d9", *others]]
    read: list[list[str]] = [[], []]
    for world, seen in zip(worlds, read, strict=True):
        Stabiliser([finder(always, "p"), finder(model, "m", seen)]).find_all([(*sentence(world), [])])
    assert read[0] == read[1]
    assert not any("d9" in text for text in read[0])


def unions(*finders: Callable[..., list[list[Span] | str]]) -> Callable[..., list[list[Span] | str]]:
    def find(readings: Sequence[Tokens]) -> list[list[Span] | str]:
        each = [found(readings) for found in finders]
        return [
            [span for spans in of_one if isinstance(spans, list) for span in spans]
            for of_one in zip(*each, strict=True)
        ]

    return find


@given(patterns=pairs, model=pairs, words=lines)
def test_reading_the_original_too_leaves_no_more_open_than_reading_it_alone(
    patterns: Pairs, model: Pairs, words: list[str]
) -> None:
    """Every word that policies find in the original is masked, and the result is still a fixed point."""
    marked = sentence(words)
    finders = [finder(patterns, "p"), finder(model, "m")]
    alone = unions(*finders)
    (plain,) = alone([marked])
    (found,) = Stabiliser(finders, original=alone).find_all([(*marked, [])])
    tokens = masked(found)
    assert isinstance(plain, list)
    assert masked(set(plain)) <= tokens
    given_all = [Span(token, token + 1, "HAND", "hand") for token in tokens]
    (again,) = Stabiliser(finders, original=alone).find_all([(*marked, given_all)])
    assert masked(again) == tokens


REAL = (
    '{"born":"1990-02-11","ssn":"219099999"}',
    "emidio p lombardo lives at 12 Elm Rd, Iceland 80296",
    "passport X4RTBPFW4 expires soon, ask Usamov and Bowers",
    "landlord lindqvist won't fix it; call 020 7946 0018 or mail jo@example.org on 3 May 2021",
    '<contact name="Bilal Chaudhry" tel="0161 496 0752"/>',
    "RT @ ManUtd : Ready for Louis van Gaal 's first press conference , at Old Trafford",
)
POLICIES = ("high_entity", "presidio", "addresses", "identifiers", "fields")


@pytest.fixture(scope="module")
def both_ways() -> tuple[reticent.Redactor, reticent.Redactor]:
    return tuple(
        reticent.Redactor(POLICIES, stabilise=way, check_language=False, dates_and_numbers="careful")
        for way in (True, False)
    )  # type: ignore[return-value]


@settings(max_examples=40, deadline=None)
@given(parts=st.lists(st.sampled_from(REAL), min_size=1, max_size=3), joint=st.sampled_from((" ", "\n", ", ")))
def test_real_policies_leave_no_letter_open_that_they_find_in_the_original(
    both_ways: tuple[reticent.Redactor, reticent.Redactor], parts: list[str], joint: str
) -> None:
    text = joint.join(parts)
    stable, plain = (
        {at for find in redactor.redact([text])[0].finds for at in range(find.start, find.end) if text[at].isalnum()}
        for redactor in both_ways
    )
    assert plain <= stable


def test_several_sentences_share_what_was_read_and_keep_their_own_answers() -> None:
    seen: list[str] = []
    finders = [finder({("*", "d9")}, "p"), finder({(PLACEHOLDER, "tail")}, "m", seen)]
    stabiliser = Stabiliser(finders)
    rows = [(*sentence(words), []) for words in (["d9", "tail"], ["d9", "d9", "tail"], ["b"], ["d9", "tail"])]
    assert [masked(found) for found in stabiliser.find_all(rows)] == [{0, 1}, {0, 1, 2}, set(), {0, 1}]
    assert len(seen) == len(set(seen))
    assert [masked(found) for found in stabiliser.find_all(rows[:1])] == [{0, 1}]
    assert len(seen) == len(set(seen))


def test_what_stands_for_a_mask_is_no_find() -> None:
    """A find that begins or ends with placeholders is the rest of it; one of placeholders alone is none."""

    def over_all(readings: Sequence[Tokens]) -> list[list[Span] | str]:
        return [[Span(0, len(words_of(reading)), "ALL", "m")] for reading in readings]

    given_spans = [Span(0, 2, "HAND", "hand"), Span(4, 5, "HAND", "hand")]
    (found,) = Stabiliser([over_all]).find_all([(*sentence(["a", "b", "c", "d", "e"]), given_spans)])
    assert found == {*given_spans, Span(2, 4, "ALL", "m")}


def test_a_policy_that_fails_ends_its_sentence_only() -> None:
    finders = [finder({("*", "Ann"), ("!", "d9")}, "p"), finder({("!", PLACEHOLDER)}, "m")]
    rows = [(*sentence(words), []) for words in (["d9", "b"], ["Ann", "b"], ["b", "c"])]
    assert Stabiliser(finders).find_all(rows) == ["p", "m", set()]


@given(words=lines, data=st.data())
def test_a_reading_has_a_placeholder_for_each_masked_run(words: list[str], data: st.DataObject) -> None:
    mask = bytes(data.draw(st.lists(st.integers(0, 1), min_size=len(words), max_size=len(words))))
    reading = reading_of(*sentence(words), mask)
    expected, runs = [], []
    for token, word in enumerate(words):
        if not mask[token]:
            expected.append(word)
            runs.append((token, token + 1))
        elif token and mask[token - 1]:
            runs[-1] = (runs[-1][0], token + 1)
        else:
            expected.append(PLACEHOLDER)
            runs.append((token, token + 1))
    assert words_of(reading.tokens) == expected
    assert list(reading.back) == runs
    assert reading.tokens[0] == " ".join(expected)
    assert list(reading.is_placeholder) == [bool(mask[first]) for first, _ in runs]


PIECES = ("Ann", "mail@x.org", "(9-7)", "T6A.", "it's", "Dr.", "-", MASK, "é", "10,000.", "don't.")


@pytest.mark.parametrize("seed", range(200))
def test_a_sentence_masked_by_hand_is_cut_as_the_pipeline_cuts_it(seed: int) -> None:
    """Against the slow way: the characters are overwritten, and the whole sentence is cut anew."""
    rng = random.Random(seed)
    text = "".join(rng.choice(PIECES) + rng.choice(("", " ", "  ")) for _ in range(rng.randint(1, 6))).strip()
    secrets = []
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(text))
        secrets.append((start, rng.randint(start + 1, min(len(text), start + 6))))
    hidden = [any(start <= at < end for start, end in secrets) for at in range(len(text))]
    overwritten = "".join(
        char if not hidden[at] else "" if at and hidden[at - 1] else MASK for at, char in enumerate(text)
    )
    made = mask_by_hand(Request(text, *SPLITTER.tokens(text)), secrets, SPLITTER.tokens)
    assert made.text == overwritten
    assert (list(made.starts), list(made.ends)) == tuple(map(list, SPLITTER.tokens(overwritten)))


def test_whole_tokens_are_those_that_a_secret_touches() -> None:
    row = Request("to mail@x.org now", *SPLITTER.tokens("to mail@x.org now"))
    assert whole_tokens(row, (5, 6)) == (3, 13)
    assert whole_tokens(row, (0, 4)) == (0, 13)
    assert whole_tokens(row, (2, 3)) == (2, 3)
