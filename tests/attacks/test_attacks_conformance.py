"""Conformance tests against releases that are drawn here: exact where all is well, and each sees its own fault."""

import numpy as np
import pytest

from pipelines.attacks.conformance import LEAST_P_VALUE, VECTOR_LENGTH, Releases, combined

NUM, RATE, NOISE = 200, 0.1, 1.5
SHARE = 0.5**0.5


def released(rng, *, noise=NOISE, moves=1.0, samples=None, shared=0.0, num_steps=6, runs=(0, 0, 0, 1, 1, 2)):
    """P-values of steps whose noise, moves and samples are as told."""
    found = Releases(NUM, RATE, rng)
    common = rng.normal(size=VECTOR_LENGTH)
    for at, run in zip(range(num_steps), runs, strict=True):
        step = at if run == 0 else at - 1
        drawn = rng.random(NUM) < RATE if samples is None else samples(at)
        found.sampled(run, step, drawn.astype(np.int64))
        spare = [
            noise * (np.sqrt(1 - shared) * rng.normal(size=VECTOR_LENGTH) + np.sqrt(shared) * common) for _ in range(2)
        ]
        moved = {name: SHARE * moves + noise * rng.normal(size=int(drawn.sum())) for name in ("embedding", "head")}
        still = noise * rng.normal(size=50)
        found.released(run, step, noise_multiplier=NOISE, moved=moved, still=still, spare=spare, share=SHARE)
    return found.p_values()


@pytest.mark.slow
def test_what_is_correct_is_rejected_no_more_often_than_the_level_says():
    rng = np.random.default_rng(0)
    found = [released(rng) for _ in range(300)]
    for name in found[0]:
        values = np.array([one[name] for one in found])
        for level in (0.01, 0.05, 0.2):  # four standard deviations
            assert (values <= level).mean() <= level + 4 * np.sqrt(level * (1 - level) / 300), (name, level)
    assert np.mean([combined(one.values()) <= 0.05 for one in found]) <= 0.1
    assert {name for name in found[0] if name.startswith("fresh noise")} == {
        "fresh noise between tensors", "fresh noise between steps", "fresh noise between runs",
        "fresh noise after a resume",
    }  # fmt: skip


def shuffled():
    order = np.random.default_rng(5).permutation(NUM)
    return lambda at: np.isin(np.arange(NUM), order[20 * at : 20 * at + 20])


def in_pairs(at):
    return np.repeat(np.random.default_rng([6, at]).random(NUM // 2) < RATE, 2)


def of_one_size(at):
    return np.isin(np.arange(NUM), np.random.default_rng([7, at]).choice(NUM, 20, replace=False))


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ({"noise": 0.9 * NOISE}, "size of the noise"),
        ({"noise": 1.1 * NOISE}, "size of the noise"),
        ({"shared": 0.3}, "fresh noise between steps"),
        ({"shared": 0.3}, "fresh noise after a resume"),
        ({"shared": 0.3}, "fresh noise between runs"),
        ({"shared": 0.3}, "fresh noise between tensors"),
        ({"moves": 2.0}, "largest move of a record, all tensors"),
        ({"samples": lambda at: np.random.default_rng(at).random(NUM) < 2 * RATE}, "sizes of samples"),
        ({"samples": in_pairs}, "pairs sampled together"),
    ],
)
def test_each_fault_is_seen_by_its_own_test(changed, test):
    assert released(np.random.default_rng(1), **changed)[test] < 1e-5


@pytest.mark.parametrize(
    ("samples", "test"),
    [
        (of_one_size, "sizes of samples"),
        (lambda at: shuffled()(at % 10), "how often each record is sampled"),
        (lambda at: of_one_size(at % 2), "how often each record is sampled"),
        (lambda at: of_one_size(0), "records sampled again"),
    ],
)
def test_samples_that_are_not_poisson_are_seen(samples, test):
    num_steps = 60
    found = released(
        np.random.default_rng(2), samples=samples, num_steps=num_steps, runs=(*(0,) * (num_steps - 3), 1, 1, 2)
    )
    assert found[test] < 1e-5


def test_a_record_that_moves_less_is_no_fault():
    assert released(np.random.default_rng(3), moves=0.5)["largest move of a record, all tensors"] > 0.5


def test_p_values_are_combined_by_bonferroni_and_stay_above_zero():
    assert combined([0.01, 0.5]) == pytest.approx(0.02)
    assert combined([0.9, 0.8]) == 1
    assert combined([0.0, 1.0]) == LEAST_P_VALUE
    assert combined([float("nan"), 1.0]) == LEAST_P_VALUE  # weights that are no numbers are no training
