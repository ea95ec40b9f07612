"""The evaluation of scores against slow references; and that it holds its level, which two usual mistakes do not."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from pipelines.attacks import membership_evaluation as evaluation

RNG = np.random.default_rng


def drawn(seed, num_members=40, num_non_members=30, shift=0.7, digits=1):
    """Scores with ties."""
    rng = RNG(seed)
    return rng.normal(shift, 1, num_members).round(digits), rng.normal(0, 1, num_non_members).round(digits)


def kernel(x, y):
    return 1.0 if x > y else 0.5 if x == y else 0.0


@pytest.mark.parametrize("seed", range(4))
def test_auc_and_its_variance_by_all_pairs(seed):
    members, others = drawn(seed)
    table = np.array([[kernel(x, y) for y in others] for x in members])
    assert evaluation.auc(members, others) == pytest.approx(table.mean())
    variance = table.mean(axis=1).var(ddof=1) / len(members) + table.mean(axis=0).var(ddof=1) / len(others)
    low, high = evaluation.auc_interval(members, others, 0.9)
    value = table.mean()
    error = math.sqrt(variance) / (value * (1 - value))
    assert stats.norm.interval(0.9, math.log(value / (1 - value)), error) == pytest.approx(
        (math.log(low / (1 - low)), math.log(high / (1 - high)))
    )


def test_the_difference_of_two_scores_on_the_same_records():
    rng = RNG(0)
    members, others = drawn(1, 300, 200)
    also = members + rng.normal(0, 0.3, 300), others + rng.normal(0, 0.3, 200)
    value, (low, high), p_value = evaluation.auc_difference((members, also[0]), (others, also[1]), 0.95)
    assert value == pytest.approx(evaluation.auc(members, others) - evaluation.auc(*also))
    assert low < value < high
    assert 0 < p_value < 1
    # They move together: the interval is far shorter than that of two scores of different records.
    alone = np.ptp(evaluation.auc_interval(members, others, 0.95))
    assert high - low < 0.7 * alone
    assert evaluation.auc_difference((members, members), (others, others), 0.95)[2] == 1.0


def test_perfect_scores_leave_an_interval():
    low, high = evaluation.auc_interval(np.ones(30), np.zeros(20), 0.95)
    assert (low, high) == (pytest.approx(0.025 ** (1 / 20)), 1)
    low, high = evaluation.auc_interval(np.ones(30), np.ones(20), 0.95)
    assert low < 0.5 < high
    assert evaluation.auc_p_value(np.ones(3), np.ones(3)) == 1


@pytest.mark.parametrize("wanted", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_operating_points_by_trying_every_threshold(wanted):
    members, others = drawn(5)
    figures = evaluation.evaluate(members, others, generator=RNG(0), false_positive_rates=(wanted,), num_resamples=50)
    (point,) = figures.points
    tried = [(np.mean(others >= t), np.mean(members >= t)) for t in (*members, *others, 99.0)]
    assert point.true_positive_rate == max(true for false, true in tried if false <= wanted)
    assert point.is_resolved == (wanted * 30 >= 1)
    assert point.num_false_positives <= wanted * 30
    if point.num_false_positives == 0:
        assert point.false_positive_rate_upper == pytest.approx(1 - 0.05 ** (1 / 30))
    low, high = point.interval
    assert low <= point.true_positive_rate <= high
    assert set(figures.roc) >= {(0.0, 0.0), (1.0, 1.0)}
    for false, true in figures.roc:
        assert (false, true) in tried or (false, true) == (0, 0)
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(figures.roc))
    assert area == pytest.approx(figures.auc)


def test_the_bootstrap_resamples_records():
    members, others = drawn(2)
    rng, wanted = RNG(7), (0.1, 0.4)
    aucs, rates = evaluation._bootstrap(members, others, wanted, 30, RNG(7))
    counts = [rng.multinomial(n, np.full(n, 1 / n), size=30) for n in (len(members), len(others))]
    for row in range(30):
        inside, outside = (np.repeat(s, c[row]) for s, c in zip((members, others), counts, strict=True))
        assert aucs[row] == pytest.approx(np.mean([[kernel(x, y) for y in outside] for x in inside]))
        for column, rate in enumerate(wanted):
            tried = [(np.mean(outside >= t), np.mean(inside >= t)) for t in (*inside, *outside, 99.0)]
            assert rates[row, column] == pytest.approx(max(true for false, true in tried if false <= rate))


def test_the_best_threshold():
    members, others = drawn(3)

    def right(threshold):
        return np.mean(members >= threshold) + np.mean(others < threshold)

    size = min(len(members), len(others))
    found = evaluation.best_threshold(members[:size], others[:size])
    members, others = members[:size], others[:size]
    assert right(found) == max(right(t) for t in (*members, *others))


def is_unbiased(measure):
    """Whether members and non-members that are drawn alike are told apart as often as by a coin (4 standard errors)."""
    rng, num_trials, size = RNG(0), 400, 40
    shares = [measure(rng.normal(size=size), rng.normal(size=size), rng) for _ in range(num_trials)]
    return abs(np.mean(shares) - 0.5) < 4 * 0.5 / math.sqrt(size * num_trials)


def test_accuracy_is_measured_on_the_half_that_chose_no_threshold():
    def ours(members, others, rng):
        return evaluation.accuracy_at_a_threshold_of_the_other_half(members, others, rng, 0.95).value

    def on_the_same_half(members, others, rng):
        threshold = evaluation.best_threshold(members[:20], others[:20])
        return ((members[:20] >= threshold).mean() + (others[:20] < threshold).mean()) / 2

    assert is_unbiased(ours)
    assert not is_unbiased(on_the_same_half)
    rng, misses = RNG(1), 0
    for _ in range(400):
        found = evaluation.accuracy_at_a_threshold_of_the_other_half(*rng.normal(size=(2, 40)), rng, 0.95)
        misses += not found.interval[0] <= 0.5 <= found.interval[1]
    assert misses <= stats.binom.ppf(0.9995, 400, 0.05)


def test_a_higher_accuracy_shows():
    members, others = drawn(0, 400, 500, shift=2)
    found = evaluation.accuracy_at_a_threshold_of_the_other_half(members, others, RNG(0), 0.95)
    assert found.num_measured == 400
    low, high = found.interval
    assert low < stats.norm.cdf(1) < high
    assert evaluation.accuracy_at_a_threshold_of_the_other_half(members[:3], others, RNG(0), 0.95) is None


@pytest.mark.parametrize(("num_members", "num_non_members"), [(30, 30), (150, 60)])
def test_intervals_and_p_values_hold_their_level(num_members, num_non_members):
    rng, trials = RNG(1), 200
    outside, low_p, beats = 0, 0, 0
    for _ in range(trials):
        scores = rng.normal(size=(2, num_members + num_non_members))
        inside, others = scores[:, :num_members], scores[:, num_members:]
        low, high = evaluation.auc_interval(inside[0], others[0], 0.95)
        outside += not low <= 0.5 <= high
        low_p += evaluation.auc_p_value(inside[0], others[0]) < 0.05
        beats += evaluation.auc_difference(inside, others, 0.95)[2] < 0.05
    # Exact binomial limits: wrong once in a thousand.
    most, least = stats.binom.ppf([0.9995, 0.0005], trials, 0.05)
    assert least <= outside <= most
    assert least <= low_p <= most
    assert beats <= most


def test_holm_by_its_steps():
    p_values = {"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}
    assert evaluation.holm(p_values) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert evaluation.holm({}) == {}
    rng, trials = RNG(3), 1000
    first = sum(min(evaluation.holm(dict(enumerate(rng.random(8)))).values()) < 0.05 for _ in range(trials))
    uncorrected = sum(rng.random(8).min() < 0.05 for _ in range(trials))
    assert first <= stats.binom.ppf(0.9995, trials, 0.05) < uncorrected


def test_scores_must_be_numbers():
    for members in ([0.0], [0.0, math.nan], [0.0, math.inf]):
        with pytest.raises(ValueError):
            evaluation.evaluate(np.array(members), np.zeros(3), generator=RNG(0))
