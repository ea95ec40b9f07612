"""What counts as missed, escaped, kept and wrongly masked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.miss_rate.review import ReviewTable, SecretSpan, review_sentence


def review(num_tokens=6, secrets=((1, 3),), masked=(), **flags):
    values = {"is_duplicate": False, "failed_closed": False, "is_flagged": False, **flags}
    spans = [SecretSpan(start, end, "NAME") for start, end in secrets]
    return review_sentence(num_tokens=num_tokens, secrets=spans, masked=masked, **values)


def test_a_secret_is_missed_when_any_token_of_it_stays():
    assert review(masked=[(1, 3)]).secrets == (("NAME", False),)
    assert review(masked=[(0, 2), (2, 5)]).secrets == (("NAME", False),)
    found = review(masked=[(1, 2)])
    assert found.secrets == (("NAME", True),)
    assert (found.num_sensitive, found.num_missed, found.num_masked) == (2, 1, 1)


def test_overlapping_secrets_share_tokens_and_stay_two_secrets():
    found = review(secrets=((1, 3), (2, 4)), masked=[(1, 3)])
    assert found.num_sensitive == 3
    assert found.num_missed == 1
    assert [missed for _, missed in found.secrets] == [False, True]


def test_only_a_row_without_mask_and_flag_is_public():
    assert review().is_public
    assert not review(masked=[(5, 6)]).is_public
    assert not review(is_flagged=True).is_public
    assert not review(failed_closed=True).is_public
    assert not review(is_duplicate=True).is_public


@pytest.mark.parametrize("flag", ["is_duplicate", "failed_closed"])
def test_rows_that_are_masked_whole_miss_nothing(flag):
    found = review(**{flag: True})
    assert (found.num_missed, found.num_masked) == (0, 6)
    assert found.secrets == (("NAME", False),)


def test_a_secret_without_tokens_is_caught_by_a_whole_mask_only():
    assert review(secrets=((2, 2),), masked=[(0, 5)]).secrets == (("NAME", True),)
    assert review(secrets=((2, 2),), failed_closed=True).secrets == (("NAME", False),)


@pytest.mark.parametrize("values", [{"secrets": ((5, 7),)}, {"masked": [(0, 7)]}, {"masked": [(3, 2)]}])
def test_spans_outside_the_sentence_are_refused(values):
    with pytest.raises(ValueError, match="inside"):
        review(**values)


def test_copies_hold_no_secret_of_their_own():
    # A missed secret in ten equal sentences is missed once out of once, not once out of ten.
    table = ReviewTable(1)
    table.add(review(), [0])
    for _ in range(9):
        table.add(review(is_duplicate=True), [0])
    assert (sum(table.secrets), sum(table.missed_secrets), sum(table.escaped_secrets)) == (1, 1, 1)
    assert (sum(table.tokens), sum(table.missed)) == (60, 2)
    assert table.num_kept == 1


def test_a_missed_secret_escapes_only_in_a_public_row():
    table = ReviewTable(1)
    table.add(review(is_flagged=True), [0])
    table.add(review(masked=[(5, 6)]), [0])
    assert (sum(table.missed_secrets), sum(table.escaped_secrets)) == (2, 0)
    table.add(review(), [0])
    assert sum(table.escaped_secrets) == 1


ranges = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda pair: tuple(sorted(pair)))


@settings(deadline=None, max_examples=200)
@given(st.lists(ranges, max_size=4), st.lists(ranges, max_size=4), st.booleans(), st.booleans(), st.booleans())
def test_counts_agree_with_sets(secrets, masked, is_duplicate, failed_closed, is_flagged):
    found = review(8, secrets, masked, is_duplicate=is_duplicate, failed_closed=failed_closed, is_flagged=is_flagged)
    sensitive = {t for start, end in secrets for t in range(start, end)}
    hidden = set(range(8)) if is_duplicate or failed_closed else {t for a, b in masked for t in range(a, b)}
    assert found.num_sensitive == len(sensitive)
    assert found.num_missed == len(sensitive - hidden)
    assert found.num_masked == len(hidden)
    for (start, end), (_, is_missed) in zip(secrets, found.secrets, strict=True):
        if end > start:
            assert is_missed == bool(set(range(start, end)) - hidden)
