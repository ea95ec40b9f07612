"""Tests of the noise inside a tensor, on noise drawn here: exact for the engine's noise, and each sees its fault."""

import math

import numpy as np
import pytest
import torch
from scipy import special

from pipelines.attacks.conformance import LEAST_P_VALUE, combined
from pipelines.attacks.noise_structure import LONGEST_VECTOR, MOST_VECTORS, SHORTEST_VECTOR, NoiseStructure
from pipelines.dp.noise import BLOCK, add_noise

SHAPE = "shape of the noise"
INSIDE = "noise repeated inside a tensor"
LATER = "noise repeated at another place of a later tensor"


def engine_noise(seed, size=LONGEST_VECTOR):
    """The engine's own standard normals."""
    values = torch.zeros(size)
    add_noise([values], 1.0, np.random.default_rng(seed))
    return values.double().numpy()


def p_values(*tensors):
    structure = NoiseStructure()
    for noise in tensors:
        structure.add(noise)
    return structure.p_values()


@pytest.mark.slow
def test_noise_of_the_engine_is_rejected_no_more_often_than_the_level_says():
    found = [p_values(*(engine_noise([at, tensor], 5_000) for tensor in range(2))) for at in range(300)]
    assert set(found[0]) == {SHAPE, INSIDE, LATER}
    for name in found[0]:
        values = np.array([one[name] for one in found])
        for level in (0.01, 0.05, 0.2):  # four standard deviations
            assert (values <= level).mean() <= level + 4 * np.sqrt(level * (1 - level) / 300), (name, level)
        assert values.min() < 0.1  # it is a test at all


def repeated(distance, size=LONGEST_VECTOR, start=0):
    """Noise that repeats once, from ``start``, at that distance."""
    noise = engine_noise(1, size)
    noise[start + distance : start + 2 * distance] = noise[start : start + distance][: size - start - distance]
    return noise


@pytest.mark.parametrize(
    ("noise", "test"),
    [
        (repeated(BLOCK), INSIDE),
        (repeated(BLOCK - 5_000), INSIDE),
        (repeated(75_536), INSIDE),  # half a tensor of 20,000 canaries and the spare coordinates
        (repeated(30_011, start=40_000), INSIDE),
        (repeated(1_500, size=SHORTEST_VECTOR * 3), INSIDE),
        (np.repeat(engine_noise(1, BLOCK), 2), INSIDE),
        (np.repeat(engine_noise(1, BLOCK), 2)[1:], INSIDE),
        (np.tile(engine_noise(1, 300), 400), INSIDE),
        ((2 * special.ndtr(engine_noise(1)) - 1) * math.sqrt(3), SHAPE),
        (np.abs(engine_noise(1)), SHAPE),
        (np.clip(engine_noise(1), -2.9, 2.9), SHAPE),
    ],
    ids=[
        "block", "shifted", "half", "elsewhere", "short", "neighbours", "odd neighbours", "period", "uniform",
        "absolute", "cut tails",
    ],
)  # fmt: skip
def test_each_fault_is_seen_by_its_own_test(noise, test):
    found = p_values(noise)
    assert found[test] < 1e-9, found
    assert p_values(engine_noise(1))[test] > 1e-4


def test_noise_of_an_earlier_tensor_is_seen_at_any_shift():
    noise = engine_noise(2, LONGEST_VECTOR + BLOCK)
    found = p_values(noise[:LONGEST_VECTOR], engine_noise(3), noise[BLOCK:])
    assert found[LATER] < 1e-9 < 1e-4 < min(found[SHAPE], found[INSIDE])


def test_too_little_noise_has_no_structure():
    assert set(p_values(engine_noise(1, SHORTEST_VECTOR - 1))) == {SHAPE}
    assert p_values() == {}
    assert p_values(np.zeros(LONGEST_VECTOR))[SHAPE] < 1e-9


def halves(size):
    """Tensors of that size, one after the other, each with equal halves."""
    noise = engine_noise(1)
    whole = len(noise) // size * size
    tensors = noise[:whole].reshape(-1, 2, size // 2)
    tensors[:, 1] = tensors[:, 0]
    return noise[:whole]


@pytest.mark.parametrize(
    "size",
    [
        2,
        4,
        8,
        16,
        32,
        64,
        256,
        516,
        1_458,
        2_580,
        4_096,
        16_384,
        65_536,
        9_000,
        12_900,
        32_768,
        25_800,
        40_000,
        51_600,
        64_000,
        90_000,
        131_000,
    ],
)
def test_equal_halves_of_tensors_of_any_size_are_seen(size):
    assert p_values(halves(size))[INSIDE] < 1e-9


def test_3000_numbers_that_repeat_across_the_middle_are_enough_for_an_alarm():
    noise = engine_noise(1)
    noise[70_000:73_000] = noise[40_000:43_000]
    assert p_values(noise)[INSIDE] < 1e-9


def test_a_tensor_without_noise_in_one_half_counts_for_0():
    noise = engine_noise(1)
    noise[BLOCK:] = 0
    assert np.isnan(p_values(noise)[INSIDE])
    assert combined(p_values(noise).values()) == LEAST_P_VALUE


def test_searches_are_limited():
    structure = NoiseStructure()
    noise = engine_noise(1, SHORTEST_VECTOR)
    for _ in range(MOST_VECTORS):
        structure.add(engine_noise(2, SHORTEST_VECTOR))
    before = structure.p_values()[INSIDE]
    structure.add(np.repeat(noise, 2))
    assert structure.p_values()[INSIDE] == before
