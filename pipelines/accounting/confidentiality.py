"""Credit for redaction in a mechanism's privacy: closed forms of CRT (Propositions 5 to 7, Theorem 8) and of JFT.

Order of operations: compose first, amplify once. A policy misses a secret once, not at every step or every night, so a
rate may only be applied to the *total* loss. The types enforce this: `compose` takes and returns `PrivacyLoss`, the
formulas here turn it into an `AmplifiedLoss`, and nothing composes that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.accounting.events import (
    Composed,
    Event,
    NeighboringRelation,
    NoEvent,
    PoissonSampled,
    SelfComposed,
    UnsupportedEventError,
)
from pipelines.files import finite
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, MissRate, require


@dataclass(frozen=True)
class PrivacyLoss:
    """An (epsilon, delta) of a mechanism itself, before any credit for redaction."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon must be >= 0, not {self.epsilon}")
        if not self.delta >= 0:
            raise ValueError(f"delta must be >= 0, not {self.delta}")

    def as_json(self) -> dict[str, float | None]:
        """Returns the figures as JSON values; None for an infinite epsilon."""
        return {"epsilon": finite(self.epsilon), "delta": self.delta}


@dataclass(frozen=True, kw_only=True)
class AmplifiedLoss:
    """An (epsilon, delta) with credit for redaction, which cannot be composed further.

    Attributes:
        epsilon, delta: figures; a delta of 1 or more says nothing.
        unamplified: loss without credit from which it was computed.
        is_guarantee: false for a figure whose argument does not hold (JFT's light noise).
    """

    epsilon: float
    delta: float
    unamplified: PrivacyLoss
    is_guarantee: bool = True

    def as_json(self) -> dict[str, float | None]:
        """Returns the figures as JSON values; None for infinite ones."""
        return {"epsilon": finite(self.epsilon), "delta": finite(self.delta)}

    @property
    def is_vacuous(self) -> bool:
        """True if it promises nothing."""
        return not (self.delta < 1 and math.isfinite(self.epsilon))


def compose(losses: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """Composes several releases on the same records by basic composition: epsilons and deltas add up.

    To compose the *events* (`Composed`) and account for them once is tighter, if the events are known.

    Raises:
        TypeError: a loss was amplified already; amplify the total instead.
    """
    for loss in losses:
        if type(loss) is not PrivacyLoss:
            raise TypeError("only unamplified losses compose: compose first, then amplify once")
    return PrivacyLoss(math.fsum(loss.epsilon for loss in losses), math.fsum(loss.delta for loss in losses))


def amplify_epsilon(total_epsilon: float, rate: float) -> float:
    """Returns log(1 + rate * (e^epsilon - 1)), in a form that neither overflows nor loses small values.

    Args:
        total_epsilon: epsilon of the whole mechanism, at least 0; infinity gives infinity.
        rate: rate between 0 and 1.

    Raises:
        ValueError: the rate is out of range.
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"a rate must be between 0 and 1, not {rate}")
    if rate == 0:
        return 0.0
    if total_epsilon > 500:
        return total_epsilon + math.log(rate) if math.isfinite(total_epsilon) else math.inf
    return math.log1p(rate * math.expm1(total_epsilon))


def bayesian_confidentiality(
    total: PrivacyLoss, false_negative_rate: FalseNegativeRate, delta2: Delta2
) -> AmplifiedLoss:
    """Returns (log(1 + gamma (e^epsilon - 1)), gamma delta + delta2) for a secret drawn from mu: CRT, Theorem 8.3.

    Args:
        total: loss of the whole training under ``replace_one``, all phases and releases composed.
        false_negative_rate: gamma; its upper bound is used.
        delta2: delta2; its upper bound is used.

    Raises:
        TypeError: another kind of rate, or a loss that was amplified already.
        ValueError: gamma and delta2 are stated over different distributions.
    """
    gamma, escape = require(false_negative_rate, FalseNegativeRate), require(delta2, Delta2)
    _require_unamplified(total)
    if gamma.mu != escape.mu:
        raise ValueError("gamma and delta2 must be stated over the same distribution of secrets")
    return AmplifiedLoss(
        epsilon=amplify_epsilon(total.epsilon, gamma.upper),
        delta=gamma.upper * total.delta + escape.upper,
        unamplified=total,
    )


def bayesian_with_original(
    on_redacted: PrivacyLoss, false_negative_rate: FalseNegativeRate, delta2: Delta2, on_original: PrivacyLoss
) -> AmplifiedLoss:
    """Returns `bayesian_confidentiality` if other phases read the original text, without credit for redaction.

    Adds the amplified loss of all phases on redacted text and the plain loss of those on the original. Basic
    composition holds: for each secret and each outcome y of the redacted phases, the original phases obey
    Pr[S | D_x, y] <= e^eps2 Pr[S | D', y] + delta2'. Averaging over x and y leaves the Bayesian statement about y,
    and a test function in [0, 1] after it.

    Raises:
        TypeError: another kind of rate, or a loss that was amplified already.
    """
    _require_unamplified(on_original)
    amplified = bayesian_confidentiality(on_redacted, false_negative_rate, delta2)
    return AmplifiedLoss(
        epsilon=amplified.epsilon + on_original.epsilon,
        delta=amplified.delta + on_original.delta,
        unamplified=compose([on_redacted, on_original]),
    )


def num_missed_of_group(group_size: int, false_negative_rate: FalseNegativeRate | None) -> int:
    """Returns the number of secrets of a group that count as missed: gamma's share, rounded up, or all of them.

    Args:
        group_size: number of secrets of the group.
        false_negative_rate: gamma, whose upper bound is used; None if it is unknown: then all secrets count.

    Raises:
        TypeError: another kind of rate.
    """
    if group_size < 0:
        raise ValueError(f"group_size must be >= 0, not {group_size}")
    if false_negative_rate is None:
        return group_size
    missed = require(false_negative_rate, FalseNegativeRate).upper * group_size
    # A product like 0.1 * 30 = 3.0000000000000004 must not round up to 4, and a tiny one must not round down to 0.
    return min(group_size, math.ceil(missed - 1e-9) or math.ceil(missed))


def group_confidentiality(total: PrivacyLoss, num_missed: int) -> AmplifiedLoss:
    """Returns (k epsilon, k e^(k epsilon) delta) for k missed secrets of a group: CRT, Theorem 8.2.

    The theorem's text multiplies by the share that the policy *detects*. Its proof (Proposition 5) shows that only the
    *missed* secrets cost anything.

    Args:
        total: unamplified loss under ``replace_one``.
        num_missed: k, number of secrets of the group that the policy misses, counted once per kept sentence.

    Raises:
        TypeError: the loss was amplified already.
        ValueError: ``num_missed`` is negative or not a whole number.
    """
    _require_unamplified(total)
    if isinstance(num_missed, bool) or not isinstance(num_missed, int) or num_missed < 0:
        raise ValueError(f"num_missed must be a whole number >= 0, not {num_missed}")
    if num_missed == 0:
        return AmplifiedLoss(epsilon=0.0, delta=0.0, unamplified=total)
    group_epsilon = num_missed * total.epsilon
    if total.delta == 0:
        group_delta = 0.0
    else:
        log_delta = math.log(num_missed) + group_epsilon + math.log(total.delta)
        group_delta = math.exp(log_delta) if log_delta < 0 else math.inf
    return AmplifiedLoss(epsilon=group_epsilon, delta=group_delta, unamplified=total)


def group_loss(total: PrivacyLoss, group_size: int) -> PrivacyLoss:
    """Returns the group privacy for ``group_size`` records (Dwork and Roth 2014, Theorem 2.2, and its delta).

    Args:
        total: unamplified loss for one record.
        group_size: number of records that differ.

    Raises:
        ValueError: ``group_size`` is below 1.
    """
    if group_size < 1:
        raise ValueError(f"group_size must be at least 1, not {group_size}")
    if group_size == 1:
        return total
    group = group_confidentiality(total, group_size)
    return PrivacyLoss(group.epsilon, group.delta)


def jft_amplified(base: PrivacyLoss, miss_rate: MissRate) -> AmplifiedLoss:
    """Returns JFT's figure for light noise, amplified at rate m: (log(1 + m (e^epsilon - 1)), m delta).

    It is never a guarantee: misses are drawn once and not at every step, m counts tokens and not records, and the paper
    itself calls the figure an empirical estimate. See `bayesian_confidentiality` for the sound statement.

    Args:
        base: loss of phase 1 as a whole, at its own sampling rate.
        miss_rate: m, whose upper bound is used.

    Raises:
        TypeError: another kind of rate, or a loss that was amplified already.
    """
    rate = require(miss_rate, MissRate)
    _require_unamplified(base)
    return AmplifiedLoss(
        epsilon=amplify_epsilon(base.epsilon, rate.upper),
        delta=rate.upper * base.delta,
        unamplified=base,
        is_guarantee=False,
    )


def jft_light_noise(
    event: Event, delta: float, miss_rate: MissRate, relation: NeighboringRelation, on_original: Event | None = None
) -> AmplifiedLoss:
    """Returns JFT's own accounting of light noise: epsilon of the event with each sampling rate p replaced by p m.

    ``on_original`` is the event of later phases on the original text. Their rates stay.

    It is never a guarantee, for the reasons given at `jft_amplified`.

    Raises:
        TypeError: another kind of rate.
        UnsupportedEventError: the event holds a step without sampling, whose rate cannot be scaled.
    """
    from pipelines.accounting.accountants import epsilon  # dp-accounting is slow to import

    rate = require(miss_rate, MissRate)
    after = () if on_original is None else (on_original,)
    scaled = Composed(events=(_scale_sample_rates(event, rate.upper), *after))
    return AmplifiedLoss(
        epsilon=epsilon(scaled, delta, relation),
        delta=delta,
        unamplified=PrivacyLoss(epsilon(Composed(events=(event, *after)), delta, relation), delta),
        is_guarantee=False,
    )


def _scale_sample_rates(event: Event, rate: float) -> Event:
    match event:
        case NoEvent():
            return event
        case PoissonSampled():
            return PoissonSampled(sample_rate=event.sample_rate * rate, event=event.event)
        case SelfComposed():
            return SelfComposed(count=event.count, event=_scale_sample_rates(event.event, rate))
        case Composed():
            return Composed(events=tuple(_scale_sample_rates(part, rate) for part in event.events))
    raise UnsupportedEventError("light noise scales sampling rates, and this event has a step without sampling")


def _require_unamplified(loss: object) -> None:
    if type(loss) is not PrivacyLoss:
        raise TypeError("an unamplified PrivacyLoss is needed here: compose first, then amplify once")
