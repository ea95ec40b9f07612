"""The three rates of a review, as three types that cannot replace one another.

- `MissRate`, m: missed sensitive tokens over *all* tokens (JFT). For comparison with JFT only.
- `FalseNegativeRate`, gamma: over a stated distribution of secrets, the probability that any token of a secret stays
  unmasked, or that masking it by hand would change what else is masked (CRT, Proposition 6). The only rate that
  confidentiality formulas take.
- `Delta2`: over the same distribution, the probability that a secret is missed *and* its sentence is public (CRT,
  Theorem 8).

m can be far below gamma, because its denominator counts every harmless token. So a formula that took m for gamma would
promise too much. Functions check the type at run time with `require`, and the type checker checks it before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar


@dataclass(frozen=True, kw_only=True)
class _Bounded:
    """An estimate between 0 and 1, with a bound that holds with some confidence.

    Attributes:
        value: estimate.
        upper: one-sided upper bound, which formulas use; for m, the upper end of its interval.
        confidence: confidence of that bound; 1 without sampling error, or without a public set.
    """

    name: ClassVar[str]

    value: float
    upper: float
    confidence: float

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise ValueError(f"{self.name} must be between 0 and 1, not {self.value}")
        if not self.value <= self.upper <= 1:
            raise ValueError(f"the upper bound of {self.name} must lie between its value and 1, not at {self.upper}")
        if not 0 < self.confidence <= 1:
            raise ValueError(f"the confidence of {self.name} must be above 0 and at most 1, not {self.confidence}")


@dataclass(frozen=True, kw_only=True)
class MissRate(_Bounded):
    """The rate m: missed sensitive tokens over all tokens (JFT, section 3.1). No confidentiality formula takes it.

    Attributes:
        lower: lower end of the interval of m, for JFT's estimate there; None if there is no interval.
    """

    name = "the miss rate"

    lower: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lower is not None and not 0 <= self.lower <= self.value:
            raise ValueError(f"the lower end of {self.name} must lie between 0 and its value, not at {self.lower}")


@dataclass(frozen=True, kw_only=True)
class FalseNegativeRate(_Bounded):
    """The rate gamma: the probability over ``mu`` that redaction differs for a secret and a mask (CRT, Proposition 6).

    It differs if any token of the secret stays unmasked, or if the secret is masked and its redaction is unstable.

    Attributes:
        mu: distribution over secrets, in words.
    """

    name = "the false negative rate"

    mu: str


@dataclass(frozen=True, kw_only=True)
class Delta2(_Bounded):
    """The probability over ``mu`` that a secret is missed and its sentence is public (CRT, Theorem 8).

    Attributes:
        mu: distribution over secrets, in words.
    """

    name = "delta2"

    mu: str

    @classmethod
    def zero(cls, mu: str) -> Delta2:
        """Returns delta2 of a run with only private rows: no secret can escape, by construction."""
        return cls(value=0.0, upper=0.0, confidence=1.0, mu=mu)


_Rate = TypeVar("_Rate", MissRate, FalseNegativeRate, Delta2)


def require(rate: object, kind: type[_Rate]) -> _Rate:
    """Returns ``rate`` if it has the kind that a formula needs.

    Raises:
        TypeError: it is another rate, or a bare number of unknown meaning.
    """
    if type(rate) is not kind:
        raise TypeError(f"a {kind.__name__} is needed here, not a {type(rate).__name__}")
    return rate


def miss_rate_of(figures: Mapping[str, Any]) -> MissRate | None:
    """Returns m of an estimate's figures, with the ends of the recommended interval; None if not measured."""
    rate = figures.get("miss_rate")
    if not rate or rate["value"] is None:
        return None
    confidence = 1.0 if figures["is_census"] else float(figures["confidence"])
    value, (lower, upper) = rate["value"], rate["recommended"]
    return MissRate(value=value, lower=min(max(lower, 0.0), value), upper=upper, confidence=confidence)


@dataclass(frozen=True, kw_only=True)
class Stability:
    """Counts of masked reviewed secrets that change something else if they are masked by hand instead.

    Attributes:
        num_caught: number of reviewed secrets with every token masked.
        num_unstable: number of those that change any training text; gamma counts them as missed.
        num_unstable_together: number of stable ones that are not known to be stable together with others of their
            sentence.
        num_unstable_elsewhere: number of those that change other sentences than their own.
    """

    num_caught: int
    num_unstable: int
    num_unstable_together: int = 0
    num_unstable_elsewhere: int = 0


def stability_of(figures: Mapping[str, Any]) -> Stability | None:
    """Returns the measured stability; None if it was not measured, or if only a proxy judged secrets."""
    if figures["source"] == "proxy" or figures.get("num_unstable_spans") is None:
        return None
    return Stability(
        num_caught=figures["num_secret_spans"] - figures["num_unmasked_spans"],
        num_unstable=figures["num_unstable_spans"],
        num_unstable_together=figures["num_unstable_together_spans"],
        num_unstable_elsewhere=figures["num_unstable_elsewhere_spans"],
    )


def false_negative_rate_of(figures: Mapping[str, Any]) -> FalseNegativeRate | None:
    """Returns gamma of an estimate's figures, with unstable secrets counted as missed.

    Returns None if no secret was seen, if only a proxy judged, or if stability was not measured: a rate of unmasked
    secrets alone would give credit to masked ones that cost epsilon.
    """
    rate = figures.get("false_negative_rate")
    if stability_of(figures) is None or not rate or rate["value"] is None:
        return None
    return FalseNegativeRate(value=rate["value"], upper=rate["upper"], confidence=rate["confidence"], mu=figures["mu"])


def delta2_of(figures: Mapping[str, Any]) -> Delta2 | None:
    """Returns delta2 of an estimate's figures; None if no secret was seen, or if only a proxy judged."""
    rate = figures.get("delta2")
    if figures["source"] == "proxy" or not rate or rate["value"] is None:
        return None
    return Delta2(value=rate["value"], upper=rate["upper"], confidence=rate["confidence"], mu=figures["mu"])


def worst_label_of(figures: Mapping[str, Any]) -> tuple[FalseNegativeRate, Delta2] | None:
    """Returns gamma and delta2 of the worst label; None if `false_negative_rate_of` is None."""
    found = figures.get("worst_label")
    if stability_of(figures) is None or not found:
        return None
    gamma, escape = found["false_negative_rate"], found["delta2"]
    return FalseNegativeRate(**gamma, mu=found["mu"]), Delta2(**escape, mu=found["mu"])
