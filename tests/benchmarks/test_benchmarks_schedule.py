"""The simulated schedule against cases whose answer is known."""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from schedule import CASES, Load, Trouble, simulate

LOADS = st.lists(st.builds(Load, st.integers(1, 40), st.integers(1, 9).map(float)), max_size=4)


@given(loads=LOADS, workers=st.integers(1, 12))
def test_without_trouble_a_stage_takes_the_rounded_up_share_of_each_worker(loads: list[Load], workers: int) -> None:
    found = simulate(loads, workers, Trouble(), 0)
    assert found.seconds == sum(math.ceil(load.partitions / workers) * load.seconds for load in loads)
    assert found.busy_seconds == sum(load.partitions * load.seconds for load in loads)
    assert (found.num_lost, found.lost_seconds) == (0, 0)


@given(loads=LOADS, workers=st.integers(1, 12), seed=st.integers(0, 9), case=st.sampled_from(sorted(CASES)))
def test_no_schedule_is_shorter_than_its_work_or_its_longest_partition(
    loads: list[Load], workers: int, seed: int, case: str
) -> None:
    found = simulate(loads, workers, CASES[case], seed)
    assert found == simulate(loads, workers, CASES[case], seed)
    assert found.seconds * workers >= found.busy_seconds * (1 - 1e-9)
    assert found.lost_seconds <= found.busy_seconds


@pytest.mark.parametrize(("seconds", "per_hour", "replacement"), [(1800.0, 1.0, 0.0), (3600.0, 1.0, 600.0)])
def test_a_worker_that_is_lost_again_and_again_takes_the_expected_time(
    seconds: float, per_hour: float, replacement: float
) -> None:
    trouble = Trouble(losses_per_hour=per_hour, replacement_seconds=replacement)
    num_partitions = 2_000
    found = [simulate([Load(num_partitions, seconds)], 1, trouble, seed).seconds / num_partitions for seed in range(8)]
    rate = per_hour / 3600
    expected = (math.exp(rate * seconds) - 1) * (1 / rate + replacement)
    error = statistics.stdev(found) / math.sqrt(len(found))
    assert abs(statistics.mean(found) - expected) < 4 * error + 0.005 * expected
    assert abs(statistics.mean(found) - seconds) > 10 * error  # losses do show


def test_one_slow_worker_holds_up_a_stage_by_its_last_partition() -> None:
    """Nine of ten workers take 10 s, one 40 s: they end 36 and 1 partitions after 40 s; that one then has one more."""
    trouble = Trouble(slow_share=0.1, slow_factor=4.0)
    assert simulate([Load(37, 10.0)], 10, trouble, 0).seconds == 40
    assert simulate([Load(38, 10.0)], 10, trouble, 0).seconds == 80


def test_the_mean_of_a_partition_stays_what_it_is() -> None:
    found = simulate([Load(200_000, 1.0)], 1, Trouble(spread=0.5), 0)
    assert found.seconds / 200_000 == pytest.approx(1, abs=4 * math.sqrt((math.exp(0.25) - 1) / 200_000))
