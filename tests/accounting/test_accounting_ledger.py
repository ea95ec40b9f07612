"""Releases compose exactly where they may share records, and a budget counts what the composition spends."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.events import Composed, Gaussian, NoEvent, PoissonSampled, dp_sgd
from pipelines.accounting.ledger import (
    Budget,
    Release,
    composed_epsilon,
    composed_event,
    overlapping,
    project,
    refusal,
)
from pipelines.numbers import upper_bound

DELTA = 1e-5


def release(name, tokens=(), overlaps=(), event=None, **values):
    event = event or PoissonSampled(sample_rate=1.0, event=Gaussian(noise_multiplier=4.0))
    tokens = None if tokens is None else frozenset(tokens)
    return Release(
        release_id=name, key=name * 8, event=event, delta=DELTA, tokens=tokens, overlaps=tuple(overlaps), **values
    )


def groups(releases, scope="overlap"):
    return {frozenset(r.release_id for r in group) for group in overlapping(releases, scope)}


def test_two_gaussian_releases_cost_what_one_with_less_noise_does():
    """sigma twice is sigma / sqrt(2) once: the sum of both epsilons would be too much, one of them too little."""
    one = release("a")
    total = composed_epsilon([one, release("b")], DELTA)
    assert total == pytest.approx(epsilon(Gaussian(noise_multiplier=4 / math.sqrt(2)), DELTA), rel=1e-3)
    assert epsilon(one.event, DELTA) * 1.2 < total < 2 * epsilon(one.event, DELTA) * 0.95


@pytest.mark.slow
def test_composition_is_the_accountants_own():
    first = dp_sgd(noise_multiplier=1.1, sample_rate=0.02, num_steps=40)
    second = dp_sgd(noise_multiplier=1.4, sample_rate=0.05, num_steps=20)
    total = composed_epsilon([release("a", event=first), release("b", event=second)], DELTA)
    assert total == pytest.approx(epsilon(Composed(events=(first, second)), DELTA), rel=1e-9)


def test_equal_mechanisms_are_counted_together():
    event = dp_sgd(noise_multiplier=1.1, sample_rate=0.02, num_steps=40)
    composed = composed_event([release(str(n), event=event) for n in range(100)])
    assert [part.count for part in composed.events] == [4000]


def test_an_abandoned_training_costs_nothing_and_one_in_progress_all():
    one = release("a")
    assert composed_epsilon([replace(one, state="abandoned")], DELTA) == 0
    assert composed_epsilon([replace(one, state="in_training")], DELTA) == composed_epsilon([one], DELTA) > 0
    assert composed_epsilon([release("a", event=NoEvent())], DELTA) == 0


def test_noise_that_can_be_repeated_is_no_noise():
    assert composed_epsilon([release("a"), release("b", insecure_test_seed=True)], DELTA) == math.inf


def test_releases_overlap_in_chains():
    """b holds a file of a, c one of b: a record of c is charged for a as well, which is too much, never too little."""
    found = [
        release("a", {"1"}),
        release("b", {"2"}, overlaps=["a"]),
        release("x", {"9"}),
        release("c", {"3"}, overlaps=["b"]),
    ]
    assert groups(found) == {frozenset("abc"), frozenset("x")}
    assert groups(found, "store") == {frozenset("abcx")}
    assert groups([]) == groups([], "store") == set()


def test_a_release_of_unknown_data_overlaps_with_every_other():
    found = [release("a", {"1"}), release("u", None), release("b", {"2"})]
    assert groups(found) == {frozenset("aub")}
    assert groups([release("u", None), release("v", None)]) == {frozenset("uv")}


@settings(deadline=None, max_examples=80)
@given(st.lists(st.frozensets(st.integers(0, 12), min_size=1, max_size=4), max_size=8))
def test_groups_are_the_connected_components(data):
    """Entries name only tokens that are new to the ledger; the groups are those of the full sets all the same."""
    entered: list[Release] = []
    for number, files in enumerate(data):
        tokens = {str(f) for f in files}
        known = [r for r in entered if tokens & r.tokens]
        new = tokens.difference(*(r.tokens for r in known))
        entered.append(release(f"r{number}", new, [r.release_id for r in known]))
    components = [{n} for n in range(len(data))]
    for a, files in enumerate(data):
        for b in range(a):
            if files & data[b]:
                first = next(c for c in components if a in c)
                second = next(c for c in components if b in c)
                if first is not second:
                    first |= second
                    components.remove(second)
    assert groups(entered) == {frozenset(f"r{n}" for n in c) for c in components}


def test_a_budget_is_for_what_overlaps():
    alone = composed_epsilon([release("a")], DELTA)
    both = composed_epsilon([release("a"), release("b")], DELTA)
    earlier, budget = [release("a", {"1"})], Budget(epsilon=(alone + both) / 2)
    again, other = release("b", (), overlaps=["a"]), release("b", {"2"})
    refused = project(earlier, again, budget)
    assert (refused.spent, refused.alone, refused.together) == pytest.approx((alone, alone, both))
    assert refused.exceeds(budget)
    assert not refused.exceeds(Budget(epsilon=both))
    assert not project(earlier, other, budget).exceeds(budget)
    assert project(earlier, other, replace(budget, scope="store")).exceeds(budget)
    assert project([], again, replace(budget, delta=1e-9)).alone > alone


def test_no_budget_allows_infinity_or_what_is_not_a_number():
    budget = Budget(epsilon=1e6)
    found = project([], release("a", insecure_test_seed=True), budget)
    assert found.exceeds(budget)
    assert replace(found, together=math.nan).exceeds(budget)
    assert "infinity" in refusal(found, budget)


def test_a_refusal_says_what_was_spent_what_is_asked_and_what_to_do():
    budget = Budget(epsilon=1.3)
    text = refusal(project([release("a", {"1"})], release("b", {"1"}, ["a"]), budget), budget)
    alone, both = epsilon(Gaussian(noise_multiplier=4.0), DELTA), epsilon(Gaussian(noise_multiplier=4 / 2**0.5), DELTA)
    for part in (
        "1 earlier release ",
        upper_bound(alone),
        upper_bound(both),
        "budget_epsilon = 1.3",
        "train.target_epsilon",
    ):
        assert part in text
