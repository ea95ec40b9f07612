import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pipelines.attacks import exposure as e
from pipelines.attacks.exposure_null import (
    FEWEST_CANARIES,
    NULL_MEAN_BITS,
    detectable_shift,
    judge_exposures,
    maximum_p_value,
    mean_limit,
)

ORACLES = json.loads((Path(__file__).parents[1] / "oracles" / "privacy_oracles.json").read_text("utf-8"))
SIZE = 10**6


def ranks_of(below, size=SIZE):
    """By identifiers whose order is not that of the list."""
    names = np.random.default_rng(7).permutation(len(below))
    return {
        f"c{name:04d}": e.Rank(size=size, num_below=int(b), num_tied=0) for name, b in zip(names, below, strict=True)
    }


def uniform_below(num, size=SIZE):
    return np.random.default_rng(1).integers(size, size=num)


def judge(ranks, seed=0, **settings):
    return judge_exposures(ranks, np.random.default_rng(seed), **settings)


# ------------------------------------------------------------------------------------------------------------ exposure


@pytest.mark.parametrize("row", ORACLES["exposure"]["rows"])
def test_exposure_as_the_oracle_has_it(row):
    assert e.exposure_bits(row["R"], row["rank"]) == pytest.approx(row["exposure"], abs=1e-12)
    rank = e.Rank(size=row["R"], num_below=row["rank"] - 1)
    exposure = e.exposure_of(rank)
    assert exposure.bits == exposure.low == exposure.high == pytest.approx(row["exposure"], abs=1e-12)
    # A rank that is off by one shows, but for the last of many.
    if row["rank"] < 1_000:
        assert e.exposure_bits(row["R"], row["rank"] + 1) != pytest.approx(row["exposure"], abs=1e-4)


@pytest.mark.parametrize("rank", [0, -1, 11])
def test_ranks_that_are_none_are_refused(rank):
    with pytest.raises(ValueError, match="1 to 10"):
        e.exposure_bits(10, rank)


def test_ties_are_kept_apart():
    losses = np.asarray([1.0, 2.0, 2.0 + 1e-12, 2.0 - 1e-12, 3.0])
    rank = e.rank_among(2.0, losses)
    assert (rank.size, rank.first, rank.middle, rank.last) == (6, 2, 3.5, 5)
    exposure = e.exposure_of(rank)
    shown = (exposure.low, exposure.bits, exposure.high)
    assert shown == pytest.approx((math.log2(6 / 5), math.log2(6 / 3.5), math.log2(3)))


def test_a_constant_model_has_no_exposure_by_the_papers_count():
    exposure = e.exposure_of(e.rank_among(2.0, np.full(999, 2.0)))
    assert exposure.low == 0
    assert exposure.bits == pytest.approx(1, abs=0.01)


# ------------------------------------------------------------------------------------------ sampled and fitted exposure


def test_the_interval_of_a_sampled_exposure_holds_the_true_one():
    """At 95 %, with 200 spaces; an interval for another rank does not."""
    rng = np.random.default_rng(0)
    held = wrong = 0
    for _ in range(200):
        losses = rng.normal(size=5_000)
        canary = int(rng.integers(len(losses)))
        true = e.exposure_of(e.rank_among(losses[canary], np.delete(losses, canary)))
        sampled = losses[rng.integers(len(losses), size=500)]
        found = e.sampled_exposure(losses[canary], sampled, len(losses))
        held += found.low <= true.bits + 1e-9 and true.bits <= found.high + 1e-9
        other = e.exposure_bits(len(losses), len(losses) + 1 - true.rank.middle)
        wrong += found.low <= other <= found.high
    assert held >= 182  # 190 expected; 182 or fewer by chance: 1 %
    assert wrong < 60


def test_a_sampled_exposure_says_what_sampling_cannot_reach():
    found = e.sampled_exposure(-100.0, np.random.default_rng(0).normal(size=1_023), SIZE)
    assert found.bits == 10
    assert found.high == math.log2(SIZE)
    assert found.low == pytest.approx(-math.log2(stats.beta.ppf(0.975, 1, 1_023)))


@pytest.mark.parametrize("at", [-2.0, -60.0])
def test_a_fitted_exposure_is_the_tail_of_the_fitted_distribution(at):
    sampled = stats.skewnorm.rvs(2.0, size=2_000, random_state=0)
    found = e.fitted_exposure(at, sampled, 2**20_000)
    from mpmath import mp, mpf, ncdf, npdf, quad

    mp.dps = 30
    a, loc, scale = mpf(found.shape), mpf(found.location), mpf(found.scale)
    density = lambda x: 2 / scale * npdf((x - loc) / scale) * ncdf(a * (x - loc) / scale)  # noqa: E731
    edges = [mpf(at) - mpf(2) ** power for power in range(6, -8, -1)]
    tail = quad(density, [*edges, mpf(at)])
    assert found.bits == pytest.approx(float(-mp.log(tail, 2)), rel=1e-4)
    assert e.fitted_exposure(at, sampled, 4).bits <= 2


def test_fitted_and_enumerated_agree_where_the_distribution_is_right():
    rng = np.random.default_rng(1)
    losses = stats.skewnorm.rvs(3.0, loc=50, scale=4, size=100_000, random_state=1)
    sampled = losses[rng.integers(len(losses), size=2_000)]
    for quantile in (0.001, 0.01, 0.3):
        at = float(np.quantile(losses, quantile))
        found = e.fitted_exposure(at, sampled, len(losses))
        assert found.bits == pytest.approx(-math.log2(quantile), rel=0.12)
        assert found.fit_distance < 0.03
    with pytest.raises(ValueError, match="one loss"):
        e.fitted_exposure(1.0, np.ones(10), 100)


# ------------------------------------------------------------------------------------------------- the null hypothesis


@pytest.mark.parametrize(
    ("size", "tied"),
    [(20, 6), *(pytest.param(*given, marks=pytest.mark.slow) for given in ((SIZE, 0), (20, 0), (1, 0)))],
)
def test_the_null_is_rejected_at_its_level(size, tied):
    """200 judgements of 50 canaries at 5 %: at most 5 %, Bonferroni's loss included, and a good part of it."""
    rng = np.random.default_rng(0)
    rejected = []
    for seed in range(200):
        below = rng.integers(size, size=FEWEST_CANARIES)
        below -= below % (tied + 1) if tied else 0
        ranks = {}
        for number, first in enumerate(below):
            num_tied = min(tied, size - 1 - int(first))
            ranks[f"c{number}"] = e.Rank(size=size, num_below=int(first), num_tied=num_tied)
        rejected.append(judge(ranks, seed).conclusion == "rejected")
    assert 1 <= sum(rejected) <= 20  # 10 at most expected; more than 20 by chance: 0.1 %


def test_ranks_that_are_off_by_one_are_rejected():
    """In a space of 20, as a count from 0 would give them to whoever expects a count from 1, or the other way round."""
    below = uniform_below(2_000, 20)
    assert judge(ranks_of(below, 20)).conclusion == "not rejected"
    assert judge(ranks_of(np.maximum(below - 1, 0), 20)).conclusion == "rejected"
    assert judge(ranks_of(np.minimum(below + 1, 19), 20)).conclusion == "rejected"


def test_ranks_in_falling_order_of_loss_are_rejected():
    """A model that knows its canaries, with its ranks counted from the wrong end."""
    assert judge(ranks_of(SIZE - 1 - uniform_below(100, 1_000))).conclusion == "rejected"


def test_memorised_canaries_are_found_and_a_join_by_position_hides_them():
    """60 canaries that stand among the first 1,000 of 10^6; given the ranks of other candidates, they do not."""
    rng = np.random.default_rng(3)
    losses = rng.normal(20, 2, size=2_000)
    canaries = {f"c{number}": int(index) for number, index in enumerate(rng.choice(2_000, 60, replace=False))}
    for index in canaries.values():
        losses[index] -= 3

    def ranks(joined):
        return {name: e.rank_among(losses[at], np.delete(losses, at)) for name, at in joined.items()}

    assert judge(ranks(canaries)).conclusion == "rejected"
    shifted = {name: (index + 1) % 2_000 for name, index in canaries.items()}
    assert judge(ranks({n: i for n, i in shifted.items() if i not in canaries.values()})).conclusion != "rejected"


def test_one_canary_says_nothing_of_no_leak():
    """Three bits: one in eight canaries that nothing was learnt of has more."""
    judgement = judge({"one": e.Rank(size=SIZE, num_below=SIZE // 8 - 1)})
    assert judgement.conclusion == "too few canaries"
    assert judgement.p_maximum == pytest.approx(1 / 8, abs=1e-5)
    assert "1 canary is too few" in judgement.reading
    assert "50 are needed" in judgement.reading
    assert judge(ranks_of(uniform_below(49))).conclusion == "too few canaries"
    assert judge(ranks_of(uniform_below(50))).conclusion == "not rejected"
    assert judge({"one": e.Rank(size=SIZE, num_below=0)}).conclusion == "rejected"
    with pytest.raises(ValueError, match="no canary"):
        judge({})


@pytest.mark.parametrize("num", [1, 10, 50, 200])
def test_a_mean_above_its_limit_rejects(num):
    assert mean_limit(num) == pytest.approx(1.4427 + 3 * 1.4427 / math.sqrt(num), abs=1e-3)
    p_at_limit = stats.gamma.sf(num * mean_limit(num) / NULL_MEAN_BITS, num)
    assert p_at_limit < 0.05 / 3 or num == 1
    draws = -np.log2(1 - np.random.default_rng(0).random((20_000, num))).mean(axis=1)
    assert (draws > mean_limit(num)).mean() == pytest.approx(p_at_limit, abs=0.003)


def test_the_maximum_has_its_own_distribution():
    draws = (-np.log2(1 - np.random.default_rng(0).random((50_000, 10)))).max(axis=1)
    assert draws.mean() == pytest.approx(4.2, abs=0.05)
    for bits in (1.0, 4.0, 8.0):
        assert maximum_p_value(bits, 10) == pytest.approx((draws >= bits).mean(), abs=0.007)
    assert maximum_p_value(0.0, 10) == 1
    assert maximum_p_value(40.0, 1) == pytest.approx(2**-40)


def test_what_is_called_detectable_is_detected():
    shift = detectable_shift(50, 0.05)
    bits = -np.log2(1 - np.random.default_rng(0).random((2_000, 50))) + shift
    p_values = stats.gamma.sf(bits.sum(axis=1) / NULL_MEAN_BITS, 50)
    assert (3 * p_values <= 0.05).mean() == pytest.approx(0.95, abs=0.02)


def test_judgements_do_not_depend_on_the_order_of_canaries():
    ranks = ranks_of(uniform_below(60))
    assert judge(ranks) == judge(dict(reversed(ranks.items())))
    json.dumps(judge(ranks).document())
