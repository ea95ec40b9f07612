"""What claims suppose of held rows, against every small pair of neighbouring corpora, through the gate's own search.

A toy policy masks the word after "dear", and the two words after "sir", whatever they are; everything else it misses.
So a name, a number and a harmless word ("lamp") are masked in one sentence and stand in others. Public rows are trained
on without noise: between neighbours none of them may change (`pipelines.accounting.held_rows`).
"""

import functools
import itertools
import re
from collections import Counter
from typing import NamedTuple

import pytest
from gate_corpora import redacted, through_the_gate
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.accounting.facts import CorpusFacts
from pipelines.accounting.held_rows import about_held_rows
from pipelines.gate.hits import ranges_of
from pipelines.gate.strings import Choice, StringIndex, masked_strings
from pipelines.mask import MASK
from pipelines.policies.held import masked_text
from pipelines.settings.gate import GateConfig
from pipelines.walks import upstream

CHOICE = Choice()
ITEMS = (
    *("dear zed", "see Zed", "dear lamp", "the lamp", "dear 12 3", "call 123", "sir zed lim", "see zed lim", "see lim"),
    *("dear zed and zed", "zed and lamp", "fine"),
)
WORD = re.compile(rf"{MASK}|\w+")


def policy(text):
    """Half-open ranges of characters that are masked; what is masked already is read as a word, and is no find."""
    words = list(WORD.finditer(text))
    found = []
    for at, word in enumerate(words):
        count = {"dear": 1, "sir": 2}.get(word[0], 0)
        if word[0] == "dear" and at + 1 < len(words) and words[at + 1][0].isdigit():
            count = 2  # a number in groups
        found += [other.span() for other in words[at + 1 : at + 1 + count] if other[0] != MASK]
    merged = []
    for start, end in found:
        if merged and not text[merged[-1][1] : start].strip():
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


class World(NamedTuple):
    public: Counter
    private: tuple  # the record of each row; None for a public one
    searched: frozenset
    held: tuple


@functools.cache
def world(corpus):
    """What training reads of a corpus of sentences."""
    rows = [
        {
            "doc_id": "d",
            "sentence_index": at,
            "text": text,
            "spans": [{"start": start, "end": end, "label": "NAME"} for start, end in policy(text)],
        }
        for at, text in enumerate(corpus)
    ]
    strings = {found.string: "NAME" for found in masked_strings(rows, CHOICE)}
    index = StringIndex(strings)
    public, private, held = Counter(), [], []
    for row in rows:
        text = redacted(row["text"], policy(row["text"]))
        is_held = MASK not in text and bool(index.find(CHOICE.words(text)))
        if is_held:
            text = masked_text(text, ranges_of(text, strings, CHOICE))
        private.append(text if MASK in text else None)
        held.append(is_held)
        public[text] += MASK not in text
    return World(+public, tuple(private), frozenset(strings), tuple(held))


def occurrences(text, string):
    return ranges_of(text, {string: "NAME"}, CHOICE)


def without(text, string):
    """A sentence in which every occurrence of a string is masked by hand."""
    return masked_text(text, occurrences(text, string))


def equal_strings(strings, string):
    """Those that the gate takes for equal."""
    return {other for other in strings if other == string or (other + string).replace(" ", "").isdigit()}


def neighbours(length):
    """Corpora, a string that is masked in each, and the same corpora with every occurrence masked."""
    for corpus in itertools.product(ITEMS, repeat=length):
        for string in sorted(world(corpus).searched):
            yield corpus, string, tuple(without(text, string) for text in corpus)


def substitutions(one, other):
    return sum(a != b for a, b in zip(one.private, other.private, strict=True))


def test_masking_every_occurrence_changes_no_public_row_and_no_more_rows_than_the_group_has():
    attained = set()
    for length in (1, 2, 3):
        for corpus, string, masked in neighbours(length):
            one, other = world(corpus), world(masked)
            if other.searched != one.searched - equal_strings(one.searched, string):
                continue  # another string came or went: supposed not to happen
            assert one.public == other.public, (corpus, string)
            shown = [redacted(text, policy(text)) for text in corpus]
            group = sum(bool(occurrences(text, string)) for text in shown)  # it stands there unmasked
            assert substitutions(one, other) <= group, (corpus, string)
            attained.add((group, substitutions(one, other)))
    assert {(0, 0), (1, 1), (2, 2)} <= attained


def test_masking_one_find_by_hand_sets_rows_free_that_only_it_held():
    """Why neighbours mask every occurrence."""
    changed = 0
    for corpus in itertools.product(ITEMS, repeat=2):
        for at, text in enumerate(corpus):
            for start, end in policy(text):
                masked = (*corpus[:at], text[:start] + MASK + text[end:], *corpus[at + 1 :])
                changed += world(corpus).public != world(masked).public
    assert changed > 10
    assert world(("dear lamp", "the lamp")).held == (False, True)
    assert world((f"dear {MASK}", "the lamp")).public == {"the lamp": 1}


def test_another_string_that_comes_or_goes_with_it_can_free_rows():
    """Why claims suppose that none does: masked within a longer string, a shorter one is left to be searched for."""
    changed = [
        (corpus, string)
        for length in (2, 3)
        for corpus, string, masked in neighbours(length)
        if world(corpus).public != world(masked).public
    ]
    assert (("dear zed", "sir zed lim", "see lim"), "zed") in changed
    for corpus, string in changed:
        one = world(corpus)
        other = world(tuple(without(text, string) for text in corpus))
        assert other.searched != one.searched - equal_strings(one.searched, string)


def test_a_replaced_record_can_free_rows_and_does_not_where_the_same_are_held():
    """Why claims about replacement suppose that the same rows are held for the same strings."""
    changed = 0
    for corpus in itertools.product(ITEMS, repeat=2):
        for at, new in itertools.product(range(2), ITEMS):
            one, other = world(corpus), world((*corpus[:at], new, *corpus[at + 1 :]))
            if (one.private[at] is None) or (other.private[at] is None):
                continue  # neighbours of a claim about the private set differ there
            changed += one.public != other.public
            if (one.held, one.searched) == (other.held, other.searched):
                assert one.public == other.public
                assert substitutions(one, other) <= 1
    assert changed > 10


@settings(deadline=None, max_examples=15)
@given(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=8), st.integers(0, 8))
def test_the_stages_make_the_same_of_a_corpus(tmp_path_factory, corpus, cut):
    texts = [(text, policy(text), False) for text in corpus]
    partitions = [part for part in (texts[:cut], texts[cut:]) if part]
    config = GateConfig(max_held_fraction=1.0, everyday_words=True, min_characters=1)
    out = through_the_gate(tmp_path_factory.mktemp("gate"), partitions, config)
    expected = world(tuple(corpus))
    assert Counter(row["redacted_text"] for row in out.public) == expected.public
    assert [row["redacted_text"] for row in out.private] == [text for text in expected.private if text is not None]
    assert out.index == expected.searched


@pytest.mark.parametrize("notion", ["confidentiality", "group_confidentiality", "dp_private_set", "selective_dp"])
def test_claims_say_what_they_suppose_where_rows_may_be_held(notion):
    holds = CorpusFacts(dedup_stability=1, dedup_reason="", has_public_rows=True, holds_rows=True)
    told = " ".join(about_held_rows(notion, holds))
    if notion in ("dp_private_set", "selective_dp"):
        assert "the same sentences are held, for the same strings, in both worlds" in told
    else:
        assert "masking every occurrence of that string" in told
        assert "counts towards the group" in told
        assert "adds no other string to the gate's search and removes none" in told
    never = CorpusFacts(dedup_stability=1, dedup_reason="", has_public_rows=True)
    original = CorpusFacts(dedup_stability=1, dedup_reason="", reads_redacted=False, holds_rows=True)
    assert about_held_rows(notion, never) == about_held_rows(notion, original) == []


def test_delta2_gives_no_credit_for_held_rows():
    """It is measured on what the policies let pass, before the gate has held anything."""
    assert not {"gate", "gate_strings", "shard"} & upstream(["estimate"])
