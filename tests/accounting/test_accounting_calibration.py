"""The calibrated noise meets its target, and hardly less noise would."""

from __future__ import annotations

import pytest

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.calibration import (
    RELATIVE_TOLERANCE,
    SMALLEST_NOISE_MULTIPLIER,
    calibrate_noise_multiplier,
)
from pipelines.accounting.events import NeighboringRelation, dp_sgd
from pipelines.errors import ConfigError

REPLACE = NeighboringRelation.REPLACE_ONE


@pytest.mark.parametrize(
    ("target_epsilon", "target_delta", "sample_rate", "num_steps"),
    [
        (1.0, 1e-5, 0.1, 100),
        pytest.param(2.0, 1e-6, 0.5, 30, marks=pytest.mark.slow),
        (0.3, 1e-5, 0.2, 50),
        (1.0, 1e-5, 1.0, 5),
        # The grid that finds the neighbourhood is far off here.
        pytest.param(0.05, 1e-6, 1e-4, 10_000, marks=pytest.mark.slow),
    ],
)
def test_the_target_is_met_and_slightly_less_noise_misses_it(target_epsilon, target_delta, sample_rate, num_steps):
    found = calibrate_noise_multiplier(
        target_epsilon=target_epsilon, target_delta=target_delta, sample_rate=sample_rate, num_steps=num_steps
    )

    def at(noise):
        event = dp_sgd(noise_multiplier=noise, sample_rate=sample_rate, num_steps=num_steps)
        return epsilon(event, target_delta, REPLACE)

    assert at(found) <= target_epsilon
    assert at(found * (1 - 3 * RELATIVE_TOLERANCE)) > target_epsilon


@pytest.mark.slow
def test_the_relation_matters_and_may_be_given_by_name():
    arguments = {"target_epsilon": 1.0, "target_delta": 1e-5, "sample_rate": 0.5, "num_steps": 20}
    by_name = calibrate_noise_multiplier(**arguments, relation="replace_one")
    assert by_name == calibrate_noise_multiplier(**arguments)
    assert by_name > 1.2 * calibrate_noise_multiplier(**arguments, relation="add_or_remove_one")


def test_a_huge_target_ends_at_the_smallest_noise():
    found = calibrate_noise_multiplier(target_epsilon=1e9, target_delta=1e-5, sample_rate=0.1, num_steps=3)
    assert found == SMALLEST_NOISE_MULTIPLIER


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target_epsilon", 0.0),
        ("target_epsilon", float("inf")),
        ("target_delta", 0.0),
        ("target_delta", 1.0),
        ("sample_rate", 0.0),
        ("sample_rate", 1.1),
        ("num_steps", 0),
        ("relation", "next_door"),
    ],
)
def test_arguments_out_of_range_are_named(name, value):
    arguments = {"target_epsilon": 1.0, "target_delta": 1e-5, "sample_rate": 0.1, "num_steps": 10, name: value}
    with pytest.raises(ConfigError, match="relation" if name == "relation" else name):
        calibrate_noise_multiplier(**arguments)
