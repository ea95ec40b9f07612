"""Releases on the same people compose whatever their files, and a release without a bound has no bound for a person."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from built_releases import release as of_records
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.events import Composed, Gaussian, dp_sgd
from pipelines.accounting.facts import PERSON, ReleaseFacts
from pipelines.accounting.groups import group_epsilon, joint_epsilon
from pipelines.accounting.ledger import (
    Budget,
    composed_epsilon,
    of_people,
    overlapping,
    person_epsilon_of,
    project,
    refusal,
    without_bound,
)
from pipelines.numbers import upper_bound

DELTA = 1e-6
STEPS = dp_sgd(noise_multiplier=2.0, sample_rate=0.0064, num_steps=250)


def release(number, space="customers", *, bound=None, by_owner=False, files=None, event=STEPS, **changes):
    """A release on files of its own (or on ``files``) and on the people of a space; "" if nobody knows whose."""
    made = of_records("dpsgd", number, tokens=frozenset(files or {f"file-{number}"}), event=event, **changes)
    record = PERSON if by_owner else "sentence"
    return replace(made, facts=replace(made.facts, owner_space=space, owner_bound=bound, record=record))


def groups(releases, unit="owner", scope="overlap"):
    return {frozenset(r.release_id for r in group) for group in overlapping(releases, scope, unit)}


def test_two_files_that_share_nothing_compose_for_a_person_of_one_space():
    found = [release(1, by_owner=True), release(2, by_owner=True), release(3, "staff", by_owner=True)]
    assert groups(found) == {frozenset({"r1", "r2"}), frozenset({"r3"})}
    assert groups(found, "record") == {frozenset({"r1"}), frozenset({"r2"}), frozenset({"r3"})}
    assert person_epsilon_of(found[:2], DELTA, "customers") == composed_epsilon(found[:2], DELTA) > 0


def test_unknown_people_may_be_any():
    found = [release(1), release(2, "staff"), release(3, "")]
    assert groups(found) == {frozenset({"r1", "r2", "r3"})}
    assert groups([*found[:2], replace(found[2], facts=None)]) == {frozenset({"r1", "r2", "r3"})}
    for costs_nothing in ({"is_public": False}, {"state": "abandoned"}):
        assert len(groups([*found[:2], replace(found[2], **costs_nothing)])) == 3
    assert len(groups(found, "record")) == 3


UNNAMED = "/field/customer"


@pytest.mark.parametrize(("before", "after"), [(UNNAMED, "customers"), ("customers", UNNAMED)])
def test_a_name_that_came_or_went_starts_no_new_account(before, after):
    """The same people, first without a name of their space and then with one, or the other way round."""
    first, new = release(1, before, by_owner=True), release(2, after, by_owner=True)
    assert groups([first, new]) == {frozenset({"r1", "r2"})}
    assert [r.release_id for r in of_people([first], [], after, "overlap")] == ["r1"]
    assert [r.release_id for r in of_people([first, new], [new], after, "overlap")] == ["r1"]
    found = project([first], new, Budget(epsilon=1e9, unit="owner"))
    assert (found.spent, found.together, found.unbounded) == (math.inf, math.inf, ("r1",))
    assert groups([release(1, UNNAMED), release(2, "/folder/"), release(3, UNNAMED)]) == {frozenset({"r1", "r2", "r3"})}
    named = release(3, "staff", by_owner=True)
    assert groups([first, new, named]) == {frozenset({"r1", "r2", "r3"})}
    assert len(groups([replace(first, state="abandoned"), replace(new, state="abandoned"), named])) == 3


def test_files_in_common_link_people_of_different_spaces():
    found = [release(1), replace(release(2, "staff"), overlaps=("r1",)), release(3, "staff")]
    assert groups(found) == {frozenset({"r1", "r2", "r3"})}
    assert groups(found, scope="store") == {frozenset({"r1", "r2", "r3"})}


@pytest.mark.parametrize(
    "other",
    [
        release(2),  # by record, and nobody counted how many are a person's
        release(2, ""),
        replace(release(2, bound=4), facts=None),
        release(2, "staff", by_owner=True),
        release(2, bound=4, insecure_test_seed=True),
    ],
)
def test_what_does_not_bound_a_person_has_no_bound(other):
    first = release(1, by_owner=True)
    assert person_epsilon_of([first], DELTA, "customers") < math.inf
    assert person_epsilon_of([first, other], DELTA, "customers") == math.inf
    assert math.isinf(composed_epsilon([other], DELTA)) == other.insecure_test_seed  # record budgets are untouched
    assert without_bound([first, other], "customers") == (() if other.insecure_test_seed else ("r2",))
    assert person_epsilon_of([first, replace(other, state="abandoned")], DELTA, "customers") < math.inf


def test_without_a_space_nobody_knows_what_a_person_is():
    assert person_epsilon_of([release(1, "", by_owner=True)], DELTA, "") == math.inf
    assert person_epsilon_of([], DELTA, "") == 0


@pytest.mark.parametrize(("size", "expected"), [(4, 2.637), pytest.param(16, 2.638, marks=pytest.mark.slow)])
def test_halves_of_a_training_compose_to_the_whole(size, expected):
    """The figures for 500 steps are those of an independent implementation."""
    rate = {4: 0.0064, 16: 0.0016}[size]
    event = dp_sgd(noise_multiplier=2.0, sample_rate=rate, num_steps=250)
    halves = [release(n, bound=size, event=event) for n in (1, 2)]
    assert person_epsilon_of(halves, DELTA, "customers") == pytest.approx(expected, rel=5e-3)
    whole = dp_sgd(noise_multiplier=2.0, sample_rate=rate, num_steps=500)
    assert person_epsilon_of(halves, DELTA, "customers") == pytest.approx(group_epsilon(whole, DELTA, size), rel=1e-6)


@pytest.mark.slow
def test_different_bounds_compose_as_direct_integration_says():
    """One step of a training with 3 records of a person, and one of people: the divergence over the plane is delta."""
    parts, delta = ((1, 0.3, 1.5), (3, 0.2, 2.0)), 1e-3
    events = tuple((size, dp_sgd(noise_multiplier=s, sample_rate=q, num_steps=1)) for size, q, s in parts)
    found = joint_epsilon(events, delta)
    densities, cell = [], 1.0
    for size, rate, noise in parts:
        x = np.linspace(-9 * noise - size, 9 * noise + size, 2_001)
        weights, moves = binom.pmf(np.arange(size + 1), size, rate), np.arange(size + 1)
        density = (weights * np.exp(-(((x[:, None] - moves) / noise) ** 2) / 2)).sum(1) / noise / math.sqrt(2 * math.pi)
        densities.append(density)
        cell *= x[1] - x[0]
    first, second = (np.outer(a, b) for a, b in (densities, [d[::-1] for d in densities]))
    assert np.maximum(first - math.exp(found) * second, 0).sum() * cell == pytest.approx(delta, rel=0.03)
    assert found > max(joint_epsilon((part,), delta) for part in events)


_EVENTS = (Gaussian(noise_multiplier=9.0), dp_sgd(noise_multiplier=4.0, sample_rate=0.05, num_steps=20))


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(st.lists(st.tuples(st.sampled_from(_EVENTS), st.sampled_from([None, 1, 3])), min_size=1, max_size=4))
def test_the_total_is_no_less_than_any_part_and_grows(trainings):
    found = [release(n, by_owner=k is None, bound=k, event=event) for n, (event, k) in enumerate(trainings)]
    totals = [person_epsilon_of(found[:n], 1e-5, "customers") for n in range(len(found) + 1)]
    singles = [person_epsilon_of([one], 1e-5, "customers") for one in found]
    assert totals[0] == 0
    assert all(after >= before * (1 - 1e-3) for before, after in itertools.pairwise(totals))
    assert totals[-1] >= max(singles) * (1 - 1e-3)
    assert totals[-1] >= composed_epsilon(found, 1e-5) * (1 - 1e-3)  # a record is part of its person
    assert person_epsilon_of(found[::-1], 1e-5, "customers") == totals[-1]


def test_steps_on_people_cost_a_person_what_they_cost_a_record():
    one = release(1, by_owner=True)
    assert person_epsilon_of([one], DELTA, "customers") == pytest.approx(epsilon(Composed(events=(STEPS,)), DELTA))
    several = [person_epsilon_of([release(1, bound=k)], DELTA, "customers") for k in (1, 2, 4)]
    assert several == sorted(several)
    assert several[0] == person_epsilon_of([one], DELTA, "customers")


def test_a_budget_for_a_person_counts_other_files():
    first, again = release(1, by_owner=True), release(2, by_owner=True)
    alone, both = (person_epsilon_of(found, first.delta, "customers") for found in ([first], [first, again]))
    budget = Budget(epsilon=(alone + both) / 2, unit="owner")
    found = project([first], again, budget)
    assert (found.spent, found.alone, found.together) == pytest.approx((alone, alone, both))
    assert found.exceeds(budget)
    assert not project([first], again, replace(budget, unit="record")).exceeds(budget)
    assert not project([release(1, "staff", by_owner=True)], again, budget).exceeds(budget)
    text = refusal(found, budget)
    for part in (
        "1 earlier release on these people",
        "guarantee.budget_unit = 'owner'",
        "set a smaller",
        upper_bound(both),
    ):
        assert part in text, part


def test_a_refusal_names_what_has_no_bound_and_the_next_step():
    budget = Budget(epsilon=1e9, unit="owner")
    first, new = release(1), release(2, by_owner=True)
    text = refusal(project([first], new, budget), budget, "r2")
    for part in ("release r1", "guarantee.owner_bound", "budget_unit = 'record'", "corpus.owner_space", "infinity"):
        assert part in text, part
    own = refusal(project([], release(2), budget), budget, "r2")
    assert "set corpus.owner_from, and train.unit = 'owner' or guarantee.owner_bound" in own
    assert "r2" not in own


def test_of_people_are_those_that_share_no_record():
    own = release(1)
    found = [own, release(2), release(3, "staff"), release(4, state="abandoned"), release(5, purpose="audit")]
    assert [r.release_id for r in of_people(found, [own], "customers", "overlap")] == ["r2"]
    assert of_people(found, [own], "", "overlap") == ()
    assert [r.release_id for r in of_people([*found, release(6, "")], [own], "customers", "overlap")] == [
        "r2", "r3", "r6",
    ]  # fmt: skip


@pytest.mark.parametrize("bound", [None, 3])
def test_the_ledger_keeps_the_bound_and_older_lines_have_none(bound):
    facts = release(1, bound=bound).facts
    assert ReleaseFacts.from_json(facts.to_json()) == facts
    assert ("owner_bound" in facts.to_json()) == (bound is not None)
    assert facts.records_of_a_person("customers") == bound
    assert facts.records_of_a_person("staff") is facts.records_of_a_person("") is None
    with pytest.raises(TypeError):  # as an older version does with a key of this one
        ReleaseFacts.from_json({**facts.to_json(), "of_a_later_version": 1})
