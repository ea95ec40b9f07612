"""Planning of a review that is large enough for a small bound.

Each review of a unit (a token for m, a secret for gamma and delta2) finds a miss or not. Units of one sentence are
alike, and the design effect accounts for that. The plan is for the one-sided bound that `reticent estimate` will
recommend, if the large part of the sample is reviewed too (`pipelines.miss_rate.large`).
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

from scipy import stats

from pipelines.errors import ConfigError
from pipelines.intervals import clopper_pearson_upper, num_clean_reviews_needed

Target = Literal["gamma", "miss_rate", "delta2"]
UNITS: Final = {"gamma": "secrets", "miss_rate": "tokens", "delta2": "secrets"}
_MOST = 10**9


def num_reviews_needed(bound: float, confidence: float, expected_rate: float, assurance: float) -> tuple[int, int]:
    """Returns the number of independent units to review for some assurance, and the allowed misses among them.

    Args:
        bound: one-sided upper bound to reach.
        confidence: confidence of the bound.
        expected_rate: expected true rate; below ``bound``.
        assurance: probability, at that rate, that the bound is ``bound`` or less.

    Raises:
        ConfigError: a value is out of range, or the expected rate leaves no room below the bound.
    """
    for name, value in (("bound", bound), ("confidence", confidence), ("assurance", assurance)):
        if not 0 < value < 1:
            raise ConfigError(f"{name} must lie strictly between 0 and 1, not at {value:g}")
    if not 0 <= expected_rate < bound:
        raise ConfigError(
            f"the expected rate must be at least 0 and below the bound {bound:g}, not {expected_rate:g}: "
            "no number of reviews brings a bound below the rate itself"
        )
    allowed = 0
    while True:
        units = _units_for(allowed, bound, confidence)
        if units > _MOST:
            raise ConfigError(
                f"more than {_MOST:,} reviews: the expected rate {expected_rate:g} is too close to the bound {bound:g}"
            )
        # P(at most `allowed` misses); with expected_rate 0 it is 1 at once.
        if float(stats.binom.cdf(allowed, units, expected_rate)) >= assurance:
            return units, allowed
        allowed += max(1, allowed // 64)


def _units_for(misses: int, bound: float, confidence: float) -> int:
    """Returns the fewest units for which this many misses still give the bound."""
    if misses == 0:
        return num_clean_reviews_needed(bound, confidence)
    low, high = misses + 1, math.ceil(10 * (misses + 5) / bound)
    while low < high:
        middle = (low + high) // 2
        if clopper_pearson_upper(misses, middle, confidence) <= bound:
            high = middle
        else:
            low = middle + 1
    return low


def plan(
    target: Target,
    *,
    bound: float,
    confidence: float,
    expected_rate: float = 0.0,
    assurance: float = 0.8,
    design_effect: float = 1.0,
    units_per_sentence: float | None = None,
    num_population: int | None = None,
    large_share: float = 0.25,
) -> dict[str, Any]:
    """Plans the number of units and sentences to review.

    Args:
        target: rate to bound.
        bound, confidence, expected_rate, assurance: see `num_reviews_needed`.
        design_effect: number of clustered units for each independent one; from an earlier estimate, at least 1.
        units_per_sentence: number of secrets (or tokens) in an average sentence, from an earlier estimate; None if
            unknown.
        num_population: number of training sentences; the plan never asks for more.
        large_share: ``sample.large_sentences``: share of large sentences to review in addition, if there are any.

    Raises:
        ConfigError: see `num_reviews_needed`; or the design effect is below 1.
    """
    if not 1 <= design_effect < math.inf:
        raise ConfigError(f"the design effect must be at least 1, not {design_effect:g}")
    if units_per_sentence is not None and not 0 < units_per_sentence < math.inf:
        raise ConfigError(f"units per sentence must be above 0, not {units_per_sentence:g}")
    independent, allowed = num_reviews_needed(bound, confidence, expected_rate, assurance)
    clean = math.ceil(num_clean_reviews_needed(bound, confidence) * design_effect)
    units = math.ceil(independent * design_effect)
    sentences = None if units_per_sentence is None else math.ceil(units / units_per_sentence)
    is_census = num_population is not None and sentences is not None and sentences >= num_population
    return {
        "target": target,
        "bound": bound,
        "confidence": confidence,
        "expected_rate": expected_rate,
        "assurance": assurance,
        "design_effect": design_effect,
        "unit": UNITS[target],
        "num_units": units,
        "num_units_if_none_is_missed": clean,
        "num_misses_allowed": math.floor(allowed * design_effect),
        "units_per_sentence": units_per_sentence,
        "num_sentences": num_population if is_census else sentences,
        "num_large_sentences": 0 if is_census or sentences is None else math.ceil(large_share * sentences),
        "num_population_sentences": num_population,
        "is_census": is_census,
    }
