"""Three rates that one review yields, as three types that cannot stand in for one another.

- `MissRate`, m: missed sensitive tokens over *all* tokens (JFT). For comparison with JFT only.
- `FalseNegativeRate`, gamma: over a stated distribution of secrets, the probability that any token of one stays
  unmasked, or that masking it by hand would change what else is masked (CRT, Proposition 6). The only rate that
  confidentiality formulas take.
- `Delta2`: over the same distribution, the probability that a secret is missed *and* its sentence is public (CRT,
  Theorem 8).

m can be far below gamma, because its denominator holds every harmless token, so a formula that took m for gamma would
promise too much. Functions check at run time with `require`, and the type checker beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar


def _check(name: str, value: float, upper: float, confidence: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value}")
    if not value <= upper <= 1:
        raise ValueError(f"the upper bound of {name} must lie between its value and 1, not at {upper}")
    if not 0 < confidence <= 1:
        raise ValueError(f"the confidence of {name} must be above 0 and at most 1, not {confidence}")


@dataclass(frozen=True, kw_only=True)
class MissRate:
    """m: missed sensitive tokens over all tokens (JFT, section 3.1). No confidentiality formula takes it.

    Attributes:
        value: the estimate.
        upper: the upper end of its interval.
        confidence: of that interval; 1 for a census.
    """

    value: float
    upper: float
    confidence: float

    def __post_init__(self) -> None:
        _check("the miss rate", self.value, self.upper, self.confidence)


@dataclass(frozen=True, kw_only=True)
class FalseNegativeRate:
    """gamma: the probability over ``mu`` that redaction is not the same for a secret and a mask (CRT, Proposition 6).

    That is so where any token of it stays unmasked, and where it is masked and its redaction is unstable.

    Attributes:
        value: the estimate.
        upper: a one-sided upper bound, the number that formulas use.
        confidence: of that bound; 1 where there is no sampling error.
        mu: the distribution over secrets, in words.
    """

    value: float
    upper: float
    confidence: float
    mu: str

    def __post_init__(self) -> None:
        _check("the false negative rate", self.value, self.upper, self.confidence)


@dataclass(frozen=True, kw_only=True)
class Delta2:
    """The probability over ``mu`` that a secret is missed and its sentence is public (CRT, Theorem 8).

    Attributes:
        value: the estimate.
        upper: a one-sided upper bound, the number that formulas use.
        confidence: of that bound; 1 where there is no sampling error or no public set.
        mu: the distribution over secrets, in words.
    """

    value: float
    upper: float
    confidence: float
    mu: str

    def __post_init__(self) -> None:
        _check("delta2", self.value, self.upper, self.confidence)

    @classmethod
    def zero(cls, mu: str) -> Delta2:
        """delta2 of a run whose every row is private: nothing can escape, by construction."""
        return cls(value=0.0, upper=0.0, confidence=1.0, mu=mu)


_Rate = TypeVar("_Rate", MissRate, FalseNegativeRate, Delta2)


def require(rate: object, kind: type[_Rate]) -> _Rate:
    """``rate`` itself, when it is of the one kind that a formula is stated for.

    Raises:
        TypeError: it is another rate, or a bare number whose meaning cannot be known.
    """
    if type(rate) is not kind:
        raise TypeError(f"a {kind.__name__} is needed here, not a {type(rate).__name__}")
    return rate


def miss_rate_of(figures: Mapping[str, Any]) -> MissRate | None:
    """m of an estimate's figures, with the upper end of the recommended interval; None where it was not measured."""
    rate = figures.get("miss_rate")
    if not rate or rate["value"] is None:
        return None
    confidence = 1.0 if figures["is_census"] else float(figures["confidence"])
    return MissRate(value=rate["value"], upper=rate["recommended"][1], confidence=confidence)


@dataclass(frozen=True, kw_only=True)
class Stability:
    """How many of the reviewed secrets that are masked change something else when they are masked by hand instead.

    Attributes:
        num_caught: reviewed secrets whose every token is masked.
        num_unstable: of those, which change any text that is trained on; gamma counts them as missed.
        num_loose: stable ones that are not known to be stable together with others of their sentence.
        num_elsewhere: which change other sentences than their own.
    """

    num_caught: int
    num_unstable: int
    num_loose: int = 0
    num_elsewhere: int = 0


def stability_of(figures: Mapping[str, Any]) -> Stability | None:
    """What is known of stability; None where it was not measured, or where only a proxy says what is a secret."""
    if figures["source"] == "proxy" or figures.get("num_unstable_spans") is None:
        return None
    return Stability(
        num_caught=figures["num_secret_spans"] - figures["num_unmasked_spans"],
        num_unstable=figures["num_unstable_spans"],
        num_loose=figures["num_unstable_together_spans"],
        num_elsewhere=figures["num_unstable_elsewhere_spans"],
    )


def false_negative_rate_of(figures: Mapping[str, Any]) -> FalseNegativeRate | None:
    """gamma of an estimate's figures, unstable secrets counted as missed.

    None where no secret was seen, where only a proxy looked, or where stability was not measured: a rate of unmasked
    secrets alone would give credit to masked ones that cost epsilon.
    """
    rate = figures.get("false_negative_rate")
    if stability_of(figures) is None or not rate or rate["value"] is None:
        return None
    return FalseNegativeRate(value=rate["value"], upper=rate["upper"], confidence=rate["confidence"], mu=figures["mu"])


def delta2_of(figures: Mapping[str, Any]) -> Delta2 | None:
    """delta2 of an estimate's figures; None where no secret was seen, or where only a proxy looked."""
    rate = figures.get("delta2")
    if figures["source"] == "proxy" or not rate or rate["value"] is None:
        return None
    return Delta2(value=rate["value"], upper=rate["upper"], confidence=rate["confidence"], mu=figures["mu"])


def worst_label_of(figures: Mapping[str, Any]) -> tuple[FalseNegativeRate, Delta2] | None:
    """gamma and delta2 of the worst label; None where `false_negative_rate_of` is."""
    found = figures.get("worst_label")
    if stability_of(figures) is None or not found:
        return None
    gamma, escape = found["false_negative_rate"], found["delta2"]
    return FalseNegativeRate(**gamma, mu=found["mu"]), Delta2(**escape, mu=found["mu"])
