"""Epsilon of a group of records: closed forms, the pair of a record, neighbours in the plane, and an oracle table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from pipelines.accounting import groups
from pipelines.accounting.accountants import epsilon, gdp_epsilon, pld_epsilon
from pipelines.accounting.events import Composed, Gaussian, NeighboringRelation, NoEvent, NonPrivate, dp_sgd
from pipelines.accounting.groups import group_epsilon

REPLACE = NeighboringRelation.REPLACE_ONE


def sgd(noise, rate, steps):
    return dp_sgd(noise_multiplier=noise, sample_rate=rate, num_steps=steps)


@pytest.mark.parametrize(
    ("size", "rate", "delta", "expected"),
    [
        (1, 0.256, 1e-5, 38.886), (4, 0.064, 1e-5, 38.825), (16, 0.016, 1e-5, 38.844),
        (1, 0.0256, 1e-6, 2.635), (4, 0.0064, 1e-6, 2.637), (16, 0.0016, 1e-6, 2.638),
    ],
)  # fmt: skip
def test_figures_of_an_independent_implementation(size, rate, delta, expected):
    assert group_epsilon(sgd(2.0, rate, 500), delta, size) == pytest.approx(expected, rel=0.005)


@pytest.mark.slow
def test_figures_of_a_usual_training():
    event = sgd(1.46, 0.0256, 312)
    assert group_epsilon(event, 1e-6, 2) == pytest.approx(6.343, rel=2e-3)
    assert group_epsilon(event, 1e-6, 4) == pytest.approx(14.35, rel=2e-3)
    assert group_epsilon(event, 1e-6, 16) == pytest.approx(88.55, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "rate", "steps"), [(2.0, 0.0256, 500), (0.8, 0.3, 3), (5.0, 0.9, 40)])
def test_a_group_of_one_has_the_pair_of_a_record(noise, rate, steps):
    event = sgd(noise, rate, steps)
    ours = groups._on_grid(groups._mechanisms(((1, event),)), 1e-6, 1e-4)
    assert ours == pytest.approx(pld_epsilon(event, 1e-6, REPLACE, 1e-4), rel=1e-6)
    assert group_epsilon(event, 1e-6, 1) == epsilon(event, 1e-6)


@pytest.mark.parametrize(("size", "noise", "steps"), [(2, 8.0, 10), (4, 16.0, 7), (3, 2.0, 1)])
def test_without_sampling_it_is_a_gaussian(size, noise, steps):
    expected = gdp_epsilon(2 * size * math.sqrt(steps) / noise, 1e-5)
    assert group_epsilon(sgd(noise, 1.0, steps), 1e-5, size) == pytest.approx(expected, rel=1e-9)
    on_grid = groups._on_grid(groups._mechanisms(((size, sgd(noise, 1.0, steps)),)), 1e-5, 1e-4)
    assert on_grid == pytest.approx(expected, rel=2e-4)
    assert group_epsilon(Gaussian(noise_multiplier=noise), 1e-5, size) == pytest.approx(
        gdp_epsilon(2 * size / noise, 1e-5), rel=1e-9
    )


@pytest.mark.parametrize(("size", "rate", "noise"), [(2, 0.1, 1.0), (5, 0.3, 3.0), (16, 0.02, 0.7)])
def test_one_step_is_direct_integration(size, rate, noise):
    """At the epsilon that is returned, the divergence of the pair, integrated by hand, is delta."""
    delta = 1e-4
    found = group_epsilon(sgd(noise, rate, 1), delta, size)
    x = np.linspace(-12 * noise - size, 12 * noise + size, 2_000_001)
    moves = np.arange(size + 1)
    weights = binom.pmf(moves, size, rate)
    density = sum(w * np.exp(-(((x - j) / noise) ** 2) / 2) for w, j in zip(weights, moves, strict=True))
    density = density / (noise * math.sqrt(2 * math.pi))
    divergence = np.maximum(density - math.exp(found) * density[::-1], 0).sum() * (x[1] - x[0])
    assert divergence <= delta * (1 + 1e-6)
    assert divergence == pytest.approx(delta, rel=0.05)


def divergence_in_the_plane(first, second, noise, level):
    """H of two mixtures of Gaussians in the plane, on a fine grid."""
    reach = 6 * noise + 4
    axis = np.linspace(-reach, reach, 241)
    x, y = np.meshgrid(axis, axis)

    def density(mixture):
        return sum(weight * np.exp(-((x - v[0]) ** 2 + (y - v[1]) ** 2) / (2 * noise**2)) for weight, v in mixture) / (
            2 * math.pi * noise**2
        )

    cell = (axis[1] - axis[0]) ** 2
    return float(np.maximum(density(first) - math.exp(level) * density(second), 0).sum() * cell)


def sampled_sums(contributions, rate):
    """The mixture of sums of a sample of contributions: pairs of a probability and a vector."""
    found = []
    for chosen in itertools.product((0, 1), repeat=len(contributions)):
        weight = math.prod(rate if taken else 1 - rate for taken in chosen)
        found.append(
            (weight, sum((np.asarray(c) for c, t in zip(contributions, chosen, strict=True) if t), np.zeros(2)))
        )
    return found


@pytest.mark.parametrize("seed", range(12))
def test_no_neighbours_in_the_plane_exceed_the_pair(seed):
    rng = np.random.default_rng(seed)
    size, noise, level = int(rng.integers(1, 4)), float(rng.uniform(0.5, 2)), float(rng.uniform(0, 1.5))
    rate = float(rng.uniform(0.05, 0.9))

    def contributions():
        angles = rng.uniform(0, 2 * math.pi, size) if seed % 2 else rng.normal(0, 0.4, size)
        lengths = rng.uniform(0, 1, size) ** 0.2
        return [length * np.array([math.cos(a), math.sin(a)]) for length, a in zip(lengths, angles, strict=True)]

    one, other = contributions(), [-v for v in contributions()]
    found = divergence_in_the_plane(sampled_sums(one, rate), sampled_sums(other, rate), noise, level)
    extreme = [np.array([1.0, 0.0])] * size
    bound = divergence_in_the_plane(
        sampled_sums(extreme, rate), sampled_sums([-v for v in extreme], rate), noise, level
    )
    assert found <= bound + 2e-4
    # The pair on a line, as the module has it, is the extreme pair in the plane.
    moves, weights = np.arange(size + 1), binom.pmf(np.arange(size + 1), size, rate)
    pair = groups.Pair(size, rate, noise, 1e-12)
    place = np.interp(level, pair.losses(nodes := np.linspace(pair._low, pair._high, 100_001)), nodes)
    exact = (ndtr((moves - place) / noise) - math.exp(level) * ndtr(-(moves + place) / noise)) @ weights
    assert exact == pytest.approx(bound, abs=2e-4)


def test_a_figure_for_fewer_records_would_be_refuted():
    """The extreme person with three records exceeds the divergence that two records explain."""
    noise, rate, delta = 1.0, 0.3, 1e-3
    level = group_epsilon(sgd(noise, rate, 1), delta, 2)
    extreme = [np.array([1.0, 0.0])] * 3
    found = divergence_in_the_plane(
        sampled_sums(extreme, rate), sampled_sums([-v for v in extreme], rate), noise, level
    )
    assert found > 2 * delta


@pytest.mark.slow
def test_it_grows_with_the_size_and_stays_below_the_usual_group_bound():
    event, delta = sgd(4.0, 0.05, 50), 1e-6
    found = [group_epsilon(event, delta, size) for size in range(1, 9)]
    assert found == sorted(found)
    for size, value in enumerate(found, start=1):
        if size > 1:
            usual = size * epsilon(event, delta / (size * math.exp(value)))
            assert value <= usual * (1 + 1e-3)


def test_a_delta_near_rounding_has_the_bound_without_credit():
    """The Fourier transform alone would give 4.726, and the truth is 4.855."""
    event = sgd(2.0, 0.01, 1000)
    assert group_epsilon(event, 1e-14, 2) > 4.855
    assert group_epsilon(event, 1e-9, 2) < 4.4


def test_special_events_and_bad_arguments():
    silent = Composed(events=(sgd(0.0, 0.0, 3), sgd(2.0, 0.1, 10)))
    assert group_epsilon(silent, 1e-6, 3) == group_epsilon(sgd(2.0, 0.1, 10), 1e-6, 3)
    assert group_epsilon(NoEvent(), 1e-6, 5) == 0
    assert group_epsilon(Composed(events=(NonPrivate(), sgd(1.0, 0.1, 2))), 1e-6, 5) == math.inf
    assert group_epsilon(sgd(0.0, 0.1, 2), 1e-6, 5) == math.inf
    assert group_epsilon(sgd(0.01, 0.5, 1000), 1e-6, 5) > 1e6  # hardly any noise: the closed form, at once
    mixed = Composed(events=(sgd(2.0, 0.1, 10), Gaussian(noise_multiplier=30.0)))
    assert group_epsilon(mixed, 1e-6, 3) > group_epsilon(sgd(2.0, 0.1, 10), 1e-6, 3)
    for size in (0, -1, True):
        with pytest.raises(ValueError, match="at least one record"):
            group_epsilon(sgd(1.0, 0.1, 2), 1e-6, size)
    with pytest.raises(ValueError, match="delta"):
        group_epsilon(sgd(1.0, 0.1, 2), 0.0, 2)


@pytest.mark.parametrize("size", [pytest.param(5, marks=pytest.mark.slow), 40, 300])
def test_a_large_group_without_sampling_has_the_closed_form_and_no_epsilon_of_zero(size):
    """Guards a weight of 0 that met an infinite factor: epsilon was 0 then."""
    event = dp_sgd(noise_multiplier=0.3, sample_rate=1.0, num_steps=5)
    assert group_epsilon(event, 1e-6, size) == pytest.approx(gdp_epsilon(2 * size * math.sqrt(5) / 0.3, 1e-6), rel=1e-3)


def test_memory_does_not_grow_with_the_number_of_records(patch):
    """Without chunks by the number of moves, 65,536 places of some 2,000 moves take a gigabyte for each array."""
    pair = groups.Pair(200_000, 0.005, 40.0, 1e-12)
    num_moves = len(pair._moves)
    assert num_moves > 1_000
    sizes = []
    patch(groups, "ndtr", lambda x: sizes.append(x.size) or ndtr(x))
    levels = np.linspace(-1.0, 1.0, 9_000)
    pair._divergences(levels, np.linspace(pair._low, pair._high, 9_000))
    assert sum(sizes) == 9_000 * num_moves
    assert max(sizes) <= 1 << 22


def test_chunks_do_not_change_the_figure(patch):
    found = groups.Pair(50, 0.02, 2.0, 1e-12).discretised(1e-2).get_delta_for_epsilon(1.0)
    patch.constant(groups, "_CELLS", 1_000)
    assert groups.Pair(50, 0.02, 2.0, 1e-12).discretised(1e-2).get_delta_for_epsilon(1.0) == pytest.approx(found)
