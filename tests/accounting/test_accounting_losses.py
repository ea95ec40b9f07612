"""Losses for all levels at once, against those of dp-accounting, which takes one level after the other."""

from __future__ import annotations

import pytest
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.accounting.accountants import pld_epsilon, to_dp_event
from pipelines.accounting.events import Composed, NeighboringRelation, dp_sgd
from pipelines.accounting.losses import composed_epsilon

PARTS = st.tuples(st.integers(1, 500), st.sampled_from([1e-4, 0.01, 0.2, 0.97, 1.0]), st.floats(0.4, 30.0))


@settings(max_examples=20)
@given(parts=st.lists(PARTS, min_size=1, max_size=2), delta=st.sampled_from([1e-3, 1e-6]))
def test_epsilon_is_that_of_the_library(parts: list[tuple[int, float, float]], delta: float) -> None:
    interval = 1e-2
    events = [dp_sgd(noise_multiplier=noise, sample_rate=rate, num_steps=count) for count, rate, noise in parts]
    theirs = pld.PLDAccountant(Relation.REPLACE_ONE, value_discretization_interval=interval)
    theirs.compose(to_dp_event(event := Composed(events=tuple(events))))
    found = pld_epsilon(event, delta, NeighboringRelation.REPLACE_ONE, interval)
    assert found == pytest.approx(theirs.get_epsilon(delta), rel=1e-6, abs=1e-9)


def test_a_little_less_noise_costs_more_than_the_tolerance_above() -> None:
    noises = (1.0, 0.999)
    found = [composed_epsilon([(100, 0.01, noise)], 1e-6, 1e-2) for noise in noises]
    assert found[1] > found[0] * (1 + 1e-4)
