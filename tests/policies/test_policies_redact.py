"""Spans to redacted text: what is masked is the union of the spans, and nothing else changes."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.mask import MASK
from pipelines.policies.protocol import Sentence, Span, check_offsets, check_spans
from pipelines.policies.redact import literal_mask_spans, masked_runs, redact_text, token_mask


@st.composite
def masked_sentences(draw):
    """(text, starts, ends, spans): tokens with any gaps, some tokens white space, overlapping spans."""
    pieces = draw(st.lists(st.sampled_from(["ab", "c", "é", ".", "\u00a0", "xyz", "—"]), max_size=12))
    gaps = draw(st.lists(st.sampled_from(["", " ", "  ", "\t"]), min_size=len(pieces) + 1, max_size=len(pieces) + 1))
    text, starts, ends = gaps[0], [], []
    for piece, gap in zip(pieces, gaps[1:], strict=True):
        starts.append(len(text))
        text += piece
        ends.append(len(text))
        text += gap
    spans = []
    if pieces:
        for a, b in draw(st.lists(st.tuples(*[st.integers(0, len(pieces) - 1)] * 2), max_size=4)):
            spans.append(Span(min(a, b), max(a, b) + 1, "X", "p"))
    return text, starts, ends, spans


@settings(deadline=None, max_examples=300)
@given(masked_sentences())
def test_redaction_masks_the_union_and_keeps_the_rest(case):
    text, starts, ends, spans = case
    mask = token_mask(len(starts), spans)
    covered = {t for s in spans for t in range(s.start_token, s.end_token)}
    assert [i for i, bit in enumerate(mask) if bit] == sorted(covered)

    redacted = redact_text(text, starts, ends, mask)
    runs = masked_runs(text, starts, ends, mask)
    # Rebuild the original: put what each run stands for back in its place, in order.
    hidden = [text[starts[a] : ends[b - 1]] for a, b in runs]
    if redacted == MASK:
        assert text.strip() == hidden[0].strip() or text.replace(hidden[0], "", 1).strip() == ""
    else:
        parts = redacted.split(MASK)
        assert len(parts) == len(runs) + 1
        assert "".join(p + h for p, h in zip(parts, [*hidden, ""], strict=True)) == text
    # A run hides its tokens and white space only, and two runs are kept apart by something visible.
    for a, b in runs:
        left = [i for i in range(a, b) if i not in covered]
        assert all(text[starts[i] : ends[i]].isspace() for i in left)
    for (_, b), (a, _) in itertools.pairwise(runs):
        assert text[ends[b - 1] : starts[a]].strip()
    visible = [i for i in range(len(starts)) if not text[starts[i] : ends[i]].isspace()]
    if visible and set(visible) <= covered:
        assert redacted == MASK

    each = redact_text(text, starts, ends, mask, collapse=False)
    assert each.count(MASK) == len(covered)
    assert each.replace(MASK, "") == "".join(
        c for i, c in enumerate(text) if not any(starts[t] <= i < ends[t] for t in covered)
    )


def test_a_run_swallows_its_white_space_and_leaves_none_of_its_length():
    text = "I am  John   Smith , yes"
    starts, ends = [0, 2, 6, 13, 19, 21], [1, 4, 10, 18, 20, 24]
    assert redact_text(text, starts, ends, bytes([0, 0, 1, 1, 0, 0])) == f"I am  {MASK} , yes"
    assert redact_text(text, starts, ends, bytes([0, 0, 1, 1, 0, 0]), collapse=False) == f"I am  {MASK}   {MASK} , yes"


def test_the_written_mask_token_is_masked_itself():
    text = f"say {MASK} and <MASK and MASK>"
    starts = [i for i, c in enumerate(text) if not c.isspace()]
    sentence = Sentence(text, starts, [i + 1 for i in starts])
    spans = literal_mask_spans(sentence)
    assert [(s.start_token, s.end_token, s.label) for s in spans] == [(3, 9, "LITERAL_MASK")]
    mask = token_mask(len(starts), spans)
    assert redact_text(text, sentence.starts, sentence.ends, mask) == text


@settings(deadline=None, max_examples=200)
@given(masked_sentences(), st.integers(0, 40), st.integers(0, 40))
def test_widening_takes_exactly_the_tokens_that_are_touched(case, start, end):
    text, starts, ends, _ = case
    touched = [i for i in range(len(starts)) if starts[i] < end and ends[i] > start]
    widened = Sentence(text, starts, ends).widen(start, end)
    if start >= end or not touched:
        assert widened is None
    else:
        assert widened == (touched[0], touched[-1] + 1)


@pytest.mark.parametrize(
    ("starts", "ends"),
    [([0], [2]), ([0, 1], [2, 5]), ([0, 3], [2, 9]), ([0, 2, 3], [2, 2, 5]), ([3], [5]), ([0, 3], [2])],
)
def test_offsets_that_leave_text_unprotected_are_refused(starts, ends):
    with pytest.raises(ValueError):
        check_offsets("ab cd", starts, ends)


def test_offsets_that_cover_all_visible_text_are_accepted():
    check_offsets("ab cd", [0, 3], [2, 5])
    check_offsets("  ", [], [])


@pytest.mark.parametrize(
    "span",
    [
        (0, 0, "A", "p", 1.0),
        (-1, 1, "A", "p", 1.0),
        (0, 4, "A", "p", 1.0),
        (0, 1, "John Smith", "p", 1.0),
        (0, 1, "A", "p", float("nan")),
        (0, 1, "A", "p", 1.5),
        (0, 1, "A", "p"),
    ],
)
def test_malformed_spans_are_refused(span):
    with pytest.raises(ValueError):
        check_spans([span], 3)


def test_spans_are_sorted_and_repeats_dropped_but_overlaps_kept():
    spans = [Span(1, 3, "B", "p"), Span(0, 2, "A", "p"), Span(1, 3, "B", "p")]
    assert check_spans(spans, 3) == [Span(0, 2, "A", "p"), Span(1, 3, "B", "p")]
