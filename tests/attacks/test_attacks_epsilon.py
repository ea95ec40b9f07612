"""Lower bounds on epsilon: published values, independent references, coverage, and wrong formulas seen."""

import json
import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from pipelines.accounting.accountants import gdp_epsilon
from pipelines.accounting.events import Gaussian, NeighboringRelation
from pipelines.attacks.epsilon_clopper_pearson import clopper_pearson_bound, epsilon_of_rates
from pipelines.attacks.epsilon_comparison import ClaimedProfile, Power, claim_p_value
from pipelines.attacks.epsilon_estimates import (
    ALONE,
    GUESS_PLANS,
    epsilon_estimates,
    two_model_estimates,
)
from pipelines.attacks.epsilon_f_dp import approximate_curve, f_dp_p_value, gaussian_curve, profile_curve
from pipelines.attacks.epsilon_gaussian import gaussian_scores_bound, mu_of_rates, order_statistics_bound
from pipelines.attacks.epsilon_one_run import one_run_bound, one_run_p_value
from pipelines.attacks.epsilon_trials import GuessPlan, Trials
from pipelines.errors import ConfigError, InputError

MU_AT_4 = 0.9249308976669359  # of epsilon 4 at delta 1e-5
ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


def gaussian_trials(num, mu, seed):
    rng = np.random.default_rng(seed)
    coins = rng.random(num) < 0.5
    return Trials(rng.normal(size=num) + mu * coins, coins)


# One run


@pytest.mark.parametrize(
    ("counts", "delta", "published"),
    [((1000, 100, 75), 1e-4, 0.673), ((100_000, 1510, 1439), 1e-5, 2.675)],  # appendix D; figure 11
)
def test_the_one_run_bound_is_the_published_one(counts, delta, published):
    found = one_run_bound(*counts, delta=delta, significance=0.05)
    assert abs(found - published) < 1e-3
    # What a formula without delta, or with r in the place of m, would give, is farther away than the printed digits.
    m, r, v = counts
    assert abs(one_run_bound(m, r, v, delta=0, significance=0.05) - published) > 1e-3
    assert abs(one_run_bound(r, r, v, delta=delta, significance=0.05) - published) > 1e-3


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_the_one_run_p_value_is_its_definition_term_by_term(delta):
    m, r, v, epsilon = 60, 40, 33, 0.8
    bias = math.exp(epsilon) / (1 + math.exp(epsilon))
    mass = [math.comb(r, k) * bias**k * (1 - bias) ** (r - k) for k in range(r + 1)]
    alpha = max(sum(mass[k] for k in range(v - i, v) if k >= 0) / i for i in range(1, m + 1))
    expected = min(1.0, sum(mass[v:]) + 2 * m * delta * alpha)
    assert one_run_p_value(m, r, v, epsilon=epsilon, delta=delta) == pytest.approx(expected, rel=1e-9)


def test_a_perfect_attack_on_a_thousand_canaries_shows_five_point_eight_at_most():
    assert one_run_bound(1000, 1000, 1000, delta=0, significance=0.05) == pytest.approx(5.809, abs=1e-3)
    assert one_run_bound(1000, 1000, 1000, delta=1e-5, significance=0.05) == pytest.approx(5.782, abs=1e-3)


def test_randomised_response_is_flagged_as_often_as_stated_and_no_more():
    rng = np.random.default_rng(0)
    m, epsilon = 400, 1.0
    correct = rng.binomial(m, special.expit(epsilon), size=2000)
    values, places = np.unique(correct, return_inverse=True)
    p = np.array([one_run_p_value(m, m, int(v), epsilon=epsilon, delta=0) for v in values])[places]
    assert 0.03 < (p <= 0.05).mean() < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


# Clopper-Pearson


def test_the_clopper_pearson_bound_is_that_of_exact_tails():
    found = clopper_pearson_bound(3, 500, 60, 500, delta=1e-5, significance=0.05)
    false_positive_rate = optimize.brentq(lambda p: stats.binom.cdf(3, 500, p) - 0.025, 1e-6, 0.5)
    false_negative_rate = optimize.brentq(lambda p: stats.binom.cdf(60, 500, p) - 0.025, 1e-6, 0.5)
    assert found == pytest.approx(math.log((1 - 1e-5 - false_negative_rate) / false_positive_rate), rel=1e-9)
    assert found == pytest.approx(clopper_pearson_bound(60, 500, 3, 500, delta=1e-5, significance=0.05))
    assert abs(found - math.log((440 / 500) / (3 / 500))) > 0.5  # rates as they were counted are no bound
    assert clopper_pearson_bound(0, 500, 0, 500, delta=1e-5, significance=0.05) == pytest.approx(4.9047, abs=1e-3)


def test_rates_of_randomised_response_give_its_epsilon():
    for epsilon, delta in [(0.5, 0.0), (3.0, 0.01)]:
        wrong = (1 - delta) / (1 + math.exp(epsilon))
        assert epsilon_of_rates(wrong, wrong, delta) == pytest.approx(epsilon)
    assert epsilon_of_rates(0.5, 0.5, 0.0) == epsilon_of_rates(0.9, 0.9, 0.0) == 0
    assert epsilon_of_rates(0.0, 0.5, 0.0) == math.inf


# f-DP


def largest_tail(m, c, v, slopes):
    """The largest probability of v or more right guesses that the inequalities leave, by linear programming.

    1 - f is the least of the lines a + b x in ``slopes``; unknowns are p_0 ... p_c.
    """
    numbers = np.arange(c + 1)
    right, wrong = numbers / m, (c - numbers) / m
    rows, limits = [], []
    for j in range(1, c + 1):
        above, from_below = numbers >= j, numbers >= j - 1
        for a, b in slopes:
            rows.append(right * above - b * wrong * from_below)
            limits.append(a)
    found = optimize.linprog(
        -(numbers >= v).astype(float), A_ub=np.array(rows), b_ub=limits, A_eq=np.ones((1, c + 1)), b_eq=[1]
    )
    return -found.fun


@pytest.mark.parametrize(("m", "c", "v"), [(30, 20, 18), (20, 20, 17), (60, 12, 12)])
@pytest.mark.parametrize("family", ["approximate", "gaussian"])
def test_the_f_dp_p_value_is_that_of_linear_programming(m, c, v, family):
    if family == "approximate":
        epsilon, delta = 1.0, 1e-3
        curve = approximate_curve(epsilon, delta)
        slopes = [(delta, math.exp(epsilon)), (1 - math.exp(-epsilon) * (1 - delta), math.exp(-epsilon))]
    else:
        mu = 0.8
        curve = gaussian_curve(mu)
        at = special.ndtr(np.linspace(-6, 6, 400))  # tangents of Phi(Phi^-1(x) + mu)
        heights = special.ndtr(special.ndtri(at) + mu)
        steepness = np.exp(-mu * special.ndtri(at) - mu**2 / 2)
        slopes = list(zip(heights - steepness * at, steepness, strict=True))
    found = f_dp_p_value(m, c, v, curve=curve)
    assert found == pytest.approx(largest_tail(m, c, v, slopes), rel=0.01)
    assert f_dp_p_value(m, c, v, curve=gaussian_curve(1.2)) > 1.1 * f_dp_p_value(m, c, v, curve=gaussian_curve(0.8))


def test_curves_are_inverse_to_trade_off_functions():
    for x in (0.001, 0.2, 0.6, 0.99):
        least = gaussian_curve(1.3)(x)
        assert 1 - special.ndtr(special.ndtri(1 - least) - 1.3) == pytest.approx(x)
        for delta in (0.0, 1e-3):
            least = approximate_curve(1.0, delta)(x)
            trade_off = max(0, 1 - delta - math.e * least, (1 - delta - least) / math.e)
            assert 1 - trade_off >= x - 1e-12
            assert least == 0 or 1 - trade_off == pytest.approx(x)


def test_a_gaussian_mechanism_is_not_refuted_at_its_own_mu():
    flags = []
    for seed in range(200):
        trials = gaussian_trials(500, MU_AT_4, seed)
        v = trials.correct_guesses(50, 50, np.random.default_rng(seed))
        flags.append(f_dp_p_value(500, 100, v, curve=gaussian_curve(MU_AT_4)) <= 0.05)
    assert Power.of(flags).low <= 0.05
    v = gaussian_trials(500, 8.0, 1).correct_guesses(200, 200, np.random.default_rng(1))
    assert f_dp_p_value(500, 400, v, curve=gaussian_curve(MU_AT_4)) < 1e-3


# Gaussian


def test_mu_of_rates_is_that_of_the_likeliest_test():
    for mu, threshold in [(0.5, 0.1), (2.0, 1.4)]:
        assert mu_of_rates(stats.norm.sf(threshold), stats.norm.cdf(threshold, mu)) == pytest.approx(mu)
    assert mu_of_rates(0.6, 0.6) == 0
    assert gdp_epsilon(MU_AT_4, 1e-5) == pytest.approx(4, abs=1e-6)


@pytest.mark.parametrize("bound", ["order statistics", "scores"])
def test_gaussian_bounds_hold_as_often_as_stated_and_come_near(bound):
    values = []
    for seed in range(400):
        trials = gaussian_trials(300, MU_AT_4, seed)
        level = {"delta": 1e-5, "significance": 0.1}
        values.append(
            order_statistics_bound(trials.in_scores, trials.out_scores, shares=(0.1,), **level)
            if bound == "order statistics"
            else gaussian_scores_bound(trials.in_scores, trials.out_scores, **level)
        )
    flagged = Power.of([value > 4 for value in values])
    assert flagged.low <= 0.1
    assert flagged.num_flagged > 0  # a bound that is never wrong is far too low
    assert np.mean(values) > 1.8


def test_the_bound_at_an_order_statistic_is_that_of_exact_tails():
    """The rate above the k-th largest of n exceeds p just when fewer than k of n lie above the (1 - p)-quantile."""
    trials = gaussian_trials(400, 1.5, 2)
    n, missed = len(trials.out_scores), (trials.in_scores <= np.sort(trials.out_scores)[-20]).sum()
    false_positive_rate = optimize.brentq(lambda p: stats.binom.cdf(19, n, p) - 0.025, 1e-6, 0.9)
    false_negative_rate = optimize.brentq(lambda p: stats.binom.cdf(missed, 400 - n, p) - 0.025, 1e-6, 1 - 1e-6)
    found = order_statistics_bound(trials.in_scores, trials.out_scores, shares=(20 / n,), delta=1e-5, significance=0.05)
    mu = stats.norm.isf(false_positive_rate) - stats.norm.ppf(false_negative_rate)
    assert found == pytest.approx(gdp_epsilon(mu, 1e-5), rel=1e-6)


def test_order_statistics_take_ties_for_no_evidence():
    constant = np.zeros(500)
    assert order_statistics_bound(constant, constant, shares=(0.1, 0.5), delta=1e-5, significance=0.05) == 0


@pytest.mark.parametrize(("num", "shift"), [(6, 2.0), (60, 0.8), (3000, 30.0)])
def test_the_bound_by_two_samples_is_that_of_noncentral_t(num, shift):
    rng = np.random.default_rng(1)
    with_it, without = rng.normal(shift, size=num), rng.normal(size=2 * num)
    found = gaussian_scores_bound(with_it, without, delta=1e-5, significance=0.05)
    statistic = stats.ttest_ind(with_it, without).statistic
    degrees, scale = 3 * num - 2, math.sqrt(1.5 / num)
    if shift < 10:
        parameter = optimize.brentq(lambda c: stats.nct.sf(statistic, degrees, c) - 0.05, 1e-9, statistic)
        assert found == pytest.approx(gdp_epsilon(parameter * scale, 1e-5), rel=1e-3)
        assert abs(found - gdp_epsilon(statistic * scale, 1e-5)) > 0.3  # the shift as it was seen is no bound
    else:
        assert gdp_epsilon(28, 1e-5) < found < gdp_epsilon(statistic * scale, 1e-5)


# Side by side


def test_scores_are_joined_by_identifier():
    scores, coins = {"b": 2.0, "a": 1.0}, {"a": False, "b": True}
    joined = Trials.joined(scores, coins)
    assert joined.scores.tolist() == [1, 2]
    assert joined.included.tolist() == [False, True]
    for wrong in ({"a": 1.0}, {**scores, "c": 0.0}):
        with pytest.raises(InputError):
            Trials.joined(wrong, coins)
    with pytest.raises(InputError):
        Trials.joined({"a": math.nan, "b": 1.0}, coins)


def test_ties_are_no_evidence():
    rng = np.random.default_rng(0)
    coins = np.arange(1000) < 500  # an order that follows the coins must not help
    trials = Trials(np.zeros(1000), coins)
    assert 400 < trials.correct_guesses(500, 500, rng) < 600
    for estimate in epsilon_estimates(trials, delta=1e-5, confidence=0.95, rng=rng).values():
        assert estimate.value < 0.3, estimate.estimator


def test_estimators_stand_side_by_side_below_their_ceilings():
    found = epsilon_estimates(
        gaussian_trials(1000, MU_AT_4, 3), delta=1e-5, confidence=0.95, rng=np.random.default_rng(3)
    )
    assert len(found) == 7
    for name, estimate in found.items():
        assert estimate.estimator == name
        assert 0 < estimate.value < 4
        assert estimate.ceiling is None or estimate.value < estimate.ceiling
        json.dumps(estimate.document(), allow_nan=False)
    assert found["gaussian_order_statistics"].value > 2
    assert not found["one_run"].assumptions
    assert not found["f_dp"].assumptions
    assert all(found[name].assumptions for name in found if name not in ("one_run", "f_dp"))


def test_a_perfect_attack_reaches_every_ceiling():
    rng = np.random.default_rng(0)
    coins = rng.random(400) < 0.5
    found = epsilon_estimates(Trials(coins * 10.0 + rng.random(400), coins), delta=1e-5, confidence=0.95, rng=rng)
    for estimate in found.values():
        assert estimate.ceiling is None or estimate.value == pytest.approx(estimate.ceiling), estimate.estimator
    shared = 0.05 / len(GUESS_PLANS)  # tries share the confidence
    assert found["one_run"].ceiling == one_run_bound(400, 320, 320, delta=1e-5, significance=shared)


def test_two_models_are_compared_canary_by_canary():
    rng = np.random.default_rng(0)
    names = [f"canary {at}" for at in range(600)]
    difficulty = rng.normal(size=600) * 0.3
    with_it = dict(zip(names, difficulty + rng.normal(size=600) + 3, strict=True))
    without = dict(zip(reversed(names), (difficulty + rng.normal(size=600))[::-1], strict=True))
    level = {"delta": 1e-5, "confidence": 0.95}
    found = two_model_estimates(with_it, without, rng=np.random.default_rng(1), **level)
    assert set(found) == {"clopper_pearson", "gaussian", "gaussian_order_statistics", "gaussian_scores"}
    assert found["clopper_pearson"].value > 2
    assert found["clopper_pearson"].num_trials == 1200
    assert all(ALONE in estimate.assumptions for estimate in found.values())
    same = two_model_estimates(without, without, rng=np.random.default_rng(1), **level)
    assert all(estimate.value == 0 for estimate in same.values())
    with pytest.raises(InputError):
        two_model_estimates(with_it, {"another": 0.0}, rng=rng, **level)


def test_a_profile_is_nearly_the_mechanisms_own_curve():
    claimed = ClaimedProfile.of(Gaussian(noise_multiplier=1 / MU_AT_4), ADD_OR_REMOVE)
    assert {delta: epsilon for epsilon, delta in claimed.points}[1e-5] == pytest.approx(4, abs=0.01)
    of_profile, of_gaussian = (
        f_dp_p_value(500, 100, 88, curve=curve) for curve in (profile_curve(claimed.points), gaussian_curve(MU_AT_4))
    )
    assert of_gaussian < of_profile < 1.2 * of_gaussian
    # A single point allows everything to come out with probability delta; the profile does not.
    assert f_dp_p_value(1000, 800, 800, curve=approximate_curve(4, 1e-5)) > 1e-5
    assert f_dp_p_value(1000, 800, 800, curve=profile_curve(claimed.points)) < 1e-7
    with pytest.raises(ConfigError):
        ClaimedProfile.of(Gaussian(noise_multiplier=0), ADD_OR_REMOVE)


@pytest.mark.parametrize("changed", [{"relation": NeighboringRelation.REPLACE_ONE}, {"group_size": 2}])
def test_guesses_test_a_claim_of_their_kind_only(changed):
    claimed = ClaimedProfile.of(Gaussian(noise_multiplier=1 / MU_AT_4), ADD_OR_REMOVE)
    with pytest.raises(ConfigError):
        claim_p_value(gaussian_trials(100, 8.0, 0), claimed, rng=np.random.default_rng(0), **changed)


def test_the_p_value_of_a_claim_pays_for_what_it_tries():
    trials = gaussian_trials(1000, 8.0, 0)
    claimed = ClaimedProfile.of(Gaussian(noise_multiplier=1 / MU_AT_4), ADD_OR_REMOVE)

    def p_value(*plans):
        return claim_p_value(trials, claimed, rng=np.random.default_rng(0), plans=plans)

    best = GuessPlan(0.4, 0.4)
    assert p_value(best) < 1e-6
    assert p_value(GuessPlan(0.005, 0.005), best) == pytest.approx(2 * p_value(best))
    honest = claim_p_value(
        gaussian_trials(1000, MU_AT_4, 0), claimed, rng=np.random.default_rng(0), plans=(GuessPlan(0.4, 0.4),)
    )
    assert honest > 0.5
