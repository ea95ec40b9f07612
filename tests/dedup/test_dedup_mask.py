"""Spreading a list of duplicates over the sentences of a partition."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dedup.mask import Decision, decide_rows
from pipelines.errors import StoreError

ROWS = [(f"d{n // 3}", n % 3) for n in range(12)]
KEEP = Decision(is_duplicate=False, duplicate_of=None, occurrence=1)
MASKED = Decision(is_duplicate=True, duplicate_of="d0:0", occurrence=4)


def decide(rows, listed, cuts=()):
    edges = [0, *sorted(cuts), len(rows)]
    batches = [rows[a:b] for a, b in itertools.pairwise(edges)]
    decided = []
    for batch, columns in zip(batches, decide_rows(batches, listed), strict=True):
        assert [len(c) for c in columns] == [len(batch)] * 3
        decided += [Decision(*values) for values in zip(*columns, strict=True)]
    return decided


@settings(deadline=None, max_examples=150)
@given(st.sets(st.sampled_from(range(12))), st.lists(st.integers(0, 12), max_size=4))
def test_listed_rows_get_their_decision_and_all_others_are_kept(listed, cuts):
    given_decisions = {n: MASKED._replace(occurrence=n + 2) for n in listed}
    duplicates = [(ROWS[n], given_decisions[n]) for n in sorted(listed)]
    assert decide(ROWS, duplicates, cuts) == [given_decisions.get(n, KEEP) for n in range(12)]


def test_no_sentences_no_decisions():
    assert decide([], []) == []


@pytest.mark.parametrize(
    "listed",
    [
        [("elsewhere", 0)],
        [("d0", 7)],
        [("d1", 0), ("d0", 1)],
        [("d0", 1), ("d0", 1)],
        [("d0", 0), ("elsewhere", 0), ("d1", 0)],
    ],
)
def test_a_list_that_does_not_fit_is_refused(listed):
    with pytest.raises(StoreError, match="does not match"):
        decide(ROWS, [(row, MASKED) for row in listed])
    with pytest.raises(StoreError, match="does not match"):
        decide([], [(row, MASKED) for row in listed])
