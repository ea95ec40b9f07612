"""The recommended intervals cover the truth as often as they say, at no more width than they need; wrong ones fail.

Misses are simulated in clusters (`benchmarks/miss_rate_coverage.py`, which also draws the figure of docs/reviewing.md):
secrets of one sentence share the chance of being missed. The width is compared with Clopper-Pearson's when the design
effect is known, which no real review can have.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from support import REPOSITORY

from pipelines.corpus.customersim import write_customersim
from pipelines.intervals import korn_graubard_of, korn_graubard_upper_of
from pipelines.miss_rate.estimate import measured
from pipelines.miss_rate.review import ReviewTable, SecretSpan, review_sentence
from pipelines.miss_rate.sampling import draw_replicate

_SPEC = importlib.util.spec_from_file_location(
    "coverage_simulation", REPOSITORY / "benchmarks" / "miss_rate_coverage.py"
)
simulation = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = simulation
_SPEC.loader.exec_module(simulation)

LEAST = 0.94
CONFIDENCE = simulation.CONFIDENCE
CELLS = [
    pytest.param(kind, rate, marks=pytest.mark.slow if rate == 0.005 else ())
    for kind in ("gamma", "m")
    for rate in simulation.RATES
]


@functools.cache
def simulated(kind, rate):
    return simulation.simulate(kind, rate)


def failures(interval, upper, kind, rate):
    """What an estimator does not live up to; ``interval`` and ``upper`` map a simulated review to their bounds."""
    found = simulated(kind, rate)
    sums, deff = found.sums, found.design_effect
    assert len(sums.hits) == 2_000
    low, high = interval(found)
    bound = upper(found)
    known_low, known_high = simulation.exact(sums.hits / deff, sums.units / deff)
    problems = []
    if np.mean((low <= rate) & (rate <= high)) < LEAST:
        problems.append("coverage")
    if np.mean(bound >= rate) < LEAST:
        problems.append("coverage of the bound")
    if np.mean(high - low) > 1.5 * np.mean(known_high - known_low):
        problems.append("width")
    if rate == 0 and np.mean(bound) > 1.2 * 3 / np.mean(sums.units / deff):
        problems.append("bound at zero")
    return problems


@pytest.mark.parametrize(("kind", "rate"), CELLS)
def test_the_recommended_interval_keeps_its_promise(kind, rate):
    def interval(found):
        return korn_graubard_of(found.sums, CONFIDENCE)

    assert failures(interval, lambda found: korn_graubard_upper_of(found.sums, CONFIDENCE), kind, rate) == []


def test_an_estimator_that_ignores_clusters_fails():
    def interval(found):
        return simulation.exact(found.sums.hits, found.sums.units)

    def upper(found):
        return simulation.exact_upper(found.sums.hits, found.sums.units)

    for rate in (0.001, 0.005, 0.02):
        assert {"coverage", "coverage of the bound"} <= set(failures(interval, upper, "m", rate))


def test_an_estimator_that_calls_zero_misses_zero_fails():
    def interval(found):
        return simulation.normal(found.sums)

    assert "coverage" in failures(interval, lambda found: interval(found)[1], "gamma", 0.001)


def test_an_estimator_of_the_wrong_rate_fails():
    """m in place of gamma: its units are all tokens, here some 18 a sentence instead of 1.4 secrets."""

    def interval(found):
        sums = found.sums
        return simulation.exact(sums.hits, sums.units * 13)

    assert "coverage" in failures(interval, lambda found: interval(found)[1], "gamma", 0.02)


def test_an_estimator_that_is_safe_and_useless_fails():
    def interval(found):
        sums = found.sums
        return simulation.exact(sums.hits / 4, sums.units / 4)

    problems = failures(interval, lambda found: interval(found)[1], "gamma", 0.0)
    assert problems == ["width", "bound at zero"]


# --- CustomerSim with a weakened policy ----------------------------------------------------------------------------


def reviews_of_customersim(folder, missed_share, seed):
    """Every turn of a CustomerSim corpus, judged by its gold labels against a policy that misses a known share.

    A weak turn loses each of its masks with probability 0.7, so that misses come together.
    """
    rng = np.random.default_rng(seed)
    reviews = []
    for file in write_customersim(folder, 600, seed):
        for line in Path(file).read_text().splitlines():
            document = json.loads(line)
            at = 0
            for turn in document["text"].split("\n"):
                tokens = [(at + m.start(), at + m.end()) for m in re.finditer(r"\S+", turn)]
                secrets = []
                for span in document["spans"]:
                    inside = [i for i, (a, b) in enumerate(tokens) if a < span["end"] and b > span["start"]]
                    if inside:
                        secrets.append(SecretSpan(inside[0], inside[-1] + 1, span["label"]))
                is_weak = rng.random() < missed_share / 0.7
                masked = [s[:2] for s in secrets if not (is_weak and rng.random() < 0.7)]
                reviews.append(
                    review_sentence(
                        num_tokens=len(tokens),
                        secrets=secrets,
                        masked=masked,
                        is_duplicate=False,
                        failed_closed=False,
                        is_flagged=True,
                    )
                )
                at += len(turn) + 1
    return reviews


def table_of(reviews, rows=None):
    table = ReviewTable(1)
    for i in range(len(reviews)) if rows is None else rows:
        table.add(reviews[i], [0])
    return table


@pytest.mark.slow
@pytest.mark.parametrize("missed_share", [0.02, 0.1])
def test_estimates_on_customersim_match_a_known_share_at_the_nominal_rate(tmp_path, missed_share):
    reviews = reviews_of_customersim(tmp_path, missed_share, 3)
    truth = measured(table_of(reviews), source="gold", is_census=True, confidence=CONFIDENCE)
    assert truth["false_negative_rate"]["value"] == pytest.approx(missed_share, rel=0.35)
    trials, covered, bounded = 150, 0, 0
    for seed in range(trials):
        rows = draw_replicate(len(reviews), 400, seed, 0)
        found = measured(table_of(reviews, rows), source="gold", is_census=False, confidence=CONFIDENCE)
        low, high = found["miss_rate"]["recommended"]
        covered += low <= truth["miss_rate"]["value"] <= high
        bounded += found["false_negative_rate"]["upper"] >= truth["false_negative_rate"]["value"]
    least = CONFIDENCE - 3 * (CONFIDENCE * (1 - CONFIDENCE) / trials) ** 0.5
    assert covered / trials >= least
    assert bounded / trials >= least
