"""Windows cover everything; masked characters are the union of the spans, exactly."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.policies.detectors.windows import windows
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span
from pipelines.policies.redact import redact_text, render_jft, token_mask
from pipelines.policies.registry import make_policy


@given(st.integers(0, 400), st.integers(1, 40), st.integers(0, 39))
def test_windows_cover_every_token_and_leave_no_short_rest(num_tokens, size, overlap):
    if overlap >= size:
        with pytest.raises(ValueError, match="overlap"):
            windows(num_tokens, size, overlap)
        return
    cuts = windows(num_tokens, size, overlap)
    assert set(itertools.chain.from_iterable(range(a, b) for a, b in cuts)) == set(range(num_tokens))
    assert all(b - a == min(size, num_tokens) for a, b in cuts)
    assert not cuts or cuts[-1][1] == num_tokens
    assert all(first[1] - second[0] >= overlap for first, second in itertools.pairwise(cuts))


@st.composite
def masked_sentences(draw):
    words = draw(st.lists(st.text("abé,.", min_size=1, max_size=4), min_size=1, max_size=12))
    gaps = draw(st.lists(st.sampled_from(["", " ", "  ", "\n"]), min_size=len(words), max_size=len(words)))
    text, starts, ends = "", [], []
    for word, gap in zip(words, gaps, strict=True):
        starts.append(len(text))
        text += word
        ends.append(len(text))
        text += gap
    pairs = draw(st.lists(st.tuples(st.integers(0, len(words) - 1), st.integers(1, len(words))), max_size=6))
    spans = [
        Span(a, b, label, "p")
        for (a, b), label in zip(pairs, itertools.cycle(["A", "PRON", "OBJ"]), strict=False)
        if a < b
    ]
    return text, starts, ends, spans


@given(masked_sentences())
def test_masked_characters_are_the_union_of_adjacent_nested_and_overlapping_spans(case):
    text, starts, ends, spans = case
    union = {i for s in spans for token in range(s.start_token, s.end_token) for i in range(starts[token], ends[token])}
    mask = token_mask(len(starts), spans)
    assert {i for t, m in enumerate(mask) if m for i in range(starts[t], ends[t])} == union
    kept = [c for i, c in enumerate(text) if i not in union and not c.isspace()]
    for collapse in (True, False):
        redacted = redact_text(text, starts, ends, mask, collapse=collapse)
        assert [c for c in redacted.replace("<MASK>", "") if not c.isspace()] == kept
    assert redact_text(text, starts, ends, mask, collapse=False).count("<MASK>") == sum(mask)
    assert [c for c in render_jft(text, starts, ends, spans).replace("<mask>", "") if not c.isspace()] == kept


@given(st.integers(0, 40), st.integers(1, 40), st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=8))
def test_a_character_find_is_widened_to_exactly_the_tokens_that_it_touches(start, length, words):
    text = " ".join(words)
    starts = [sum(len(w) + 1 for w in words[:i]) for i in range(len(words))]
    ends = [a + len(w) for a, w in zip(starts, words, strict=True)]
    found = Sentence(text, starts, ends).widen(start, start + length)
    touched = [i for i in range(len(words)) if starts[i] < start + length and ends[i] > start]
    assert (list(range(*found)) if found else []) == touched


def test_a_pattern_that_backtracks_fails_its_row_within_its_time():
    text = "a" * 60 + "!"
    policy = make_policy(PolicyOptions(name="regex", patterns={"A": r"(?:a|aa)+$"}, pattern_seconds=0.05))
    with pytest.raises(TimeoutError):
        policy.find(Sentence(text, [0], [len(text)]))
