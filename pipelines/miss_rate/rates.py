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
from typing import Any, ClassVar, TypeVar


@dataclass(frozen=True, kw_only=True)
class _Bounded:
    """An estimate between 0 and 1, and the number that holds with some confidence.

    Attributes:
        value: the estimate.
        upper: an upper bound: one-sided, the number that formulas use; of m, the upper end of its interval.
        confidence: of that bound; 1 where there is no sampling error, or no public set.
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
    """m: missed sensitive tokens over all tokens (JFT, section 3.1). No confidentiality formula takes it."""

    name = "the miss rate"


@dataclass(frozen=True, kw_only=True)
class FalseNegativeRate(_Bounded):
    """gamma: the probability over ``mu`` that redaction is not the same for a secret and a mask (CRT, Proposition 6).

    That is so where any token of it stays unmasked, and where it is masked and its redaction is unstable.

    Attributes:
        mu: the distribution over secrets, in words.
    """

    name = "the false negative rate"

    mu: str


@dataclass(frozen=True, kw_only=True)
class Delta2(_Bounded):
    """The probability over ``mu`` that a secret is missed and its sentence is public (CRT, Theorem 8).

    Attributes:
        mu: the distribution over secrets, in words.
    """

    name = "delta2"

    mu: str

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
        num_unstable_together: stable ones that are not known to be stable together with others of their sentence.
        num_unstable_elsewhere: which change other sentences than their own.
    """

    num_caught: int
    num_unstable: int
    num_unstable_together: int = 0
    num_unstable_elsewhere: int = 0


def stability_of(figures: Mapping[str, Any]) -> Stability | None:
    """What is known of stability; None where it was not measured, or where only a proxy says what is a secret."""
    if figures["source"] == "proxy" or figures.get("num_unstable_spans") is None:
        return None
    return Stability(
        num_caught=figures["num_secret_spans"] - figures["num_unmasked_spans"],
        num_unstable=figures["num_unstable_spans"],
        num_unstable_together=figures["num_unstable_together_spans"],
        num_unstable_elsewhere=figures["num_unstable_elsewhere_spans"],
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
