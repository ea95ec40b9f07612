"""The sequential test of repeated audits, whose alarm is ever false for at most one correct engine in a thousand.

An alarm stops a repeated run. A test at 5 % would stop a correct one within weeks. So evidence is kept as the wealth of
a gambler who bets against the claim (Ville 1939; Shafer 2021; Ramdas et al. 2023, "Game-theoretic statistics and safe
anytime-valid inference"). If all claims are true, the probability that the wealth ever reaches 1 / rate is at most
rate, over all audits together and at any time.

The p-value p of an audit becomes a bet that pays e(p) = (1 - p + p ln p) / (p (ln p)^2), the mean of k p^(k-1) over k
in (0, 1). Its expectation is at most 1 under the claim (Vovk and Wang 2021, "E-values", section 2). Staked wealth
shrinks during good audits, so the stake is spread: 1 / (n (n + 1)) of it bets on "broken from audit n on". With A the
staked wealth, A_n = (A_(n-1) + 1 / (n (n + 1))) e(p_n), and 1 / (n + 1) is not yet staked. A mixture of martingales is
a martingale. So an engine that breaks at audit n is caught at once if its p-value pays 1,000 n (n + 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pipelines.errors import ConfigError, InputError

SCHEMA_VERSION: Final = 1
FALSE_ALARM_RATE: Final = 0.001

_NEAR_ONE: Final = 1e-6
"""Distance from 1 below which the formula of the bet cancels; its limit there is 1/2."""


def log_bet(p_value: float) -> float:
    """Returns the logarithm of a bet's payment: Vovk and Wang 2021, section 2."""
    if not 0 < p_value <= 1:
        raise ValueError(f"a p-value lies above 0 and at most at 1, not at {p_value}")
    if 1 - p_value < _NEAR_ONE:
        return -math.log(2)
    log_p = math.log(p_value)
    return math.log(1 - p_value + p_value * log_p) - log_p - 2 * math.log(-log_p)


@dataclass(frozen=True, kw_only=True)
class SequentialTest:
    """The state between audits, which the caller keeps as a plain document.

    Attributes:
        false_alarm_rate: probability that correct engines ever raise an alarm, over all audits together.
        log_staked: logarithm of the staked wealth; None before the first audit.
        audits: identifiers of the counted audits, in order. A repeated audit counts once: a cached audit is no new
            evidence.
        alarmed_by: audit at which the wealth first reached 1 / false_alarm_rate; None as long as it has not.
    """

    false_alarm_rate: float = FALSE_ALARM_RATE
    log_staked: float | None = None
    audits: tuple[str, ...] = ()
    alarmed_by: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.false_alarm_rate < 1:
            raise ConfigError(f"the rate of false alarms must be between 0 and 1, not {self.false_alarm_rate}")

    @property
    def wealth(self) -> float:
        """Evidence against the claims, 1 at first. True claims let it ever reach 1 / rate with probability <= rate."""
        staked = 0.0 if self.log_staked is None else math.exp(min(self.log_staked, 700.0))
        return staked + 1 / (len(self.audits) + 1)

    @property
    def is_alarm(self) -> bool:
        """True if the wealth ever reached 1 / false_alarm_rate. It stays true until a new test begins."""
        return self.alarmed_by is not None

    def after(self, audit: str, p_value: float) -> SequentialTest:
        """Returns the state after an audit.

        Args:
            audit: identifier of the audit; a repeated one changes nothing.
            p_value: p-value of the claim, valid given all earlier audits: fresh coins and noise, settings fixed before.
        """
        if audit in self.audits:
            return self
        night = len(self.audits) + 1
        fresh = -math.log(night) - math.log(night + 1)
        staked = fresh if self.log_staked is None else _log_sum(self.log_staked, fresh)
        state = replace(self, log_staked=staked + log_bet(p_value), audits=(*self.audits, audit))
        if not state.is_alarm and state.wealth >= 1 / self.false_alarm_rate:
            return replace(state, alarmed_by=audit)
        return state

    def document(self) -> dict[str, Any]:
        """Returns the state as JSON values, with a version."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "audits": list(self.audits)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> SequentialTest:
        """Reads a state from `document`.

        Raises:
            InputError: the document has no form that this version reads. It does not count as "no alarm".
        """
        try:
            if document["schema_version"] != SCHEMA_VERSION:
                raise ValueError
            staked, alarmed_by = document["log_staked"], document["alarmed_by"]
            return cls(
                false_alarm_rate=float(document["false_alarm_rate"]),
                log_staked=None if staked is None else float(staked),
                audits=tuple(str(audit) for audit in document["audits"]),
                alarmed_by=None if alarmed_by is None else str(alarmed_by),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("this is not the state of nightly audits that this version can read") from error


def _log_sum(one: float, other: float) -> float:
    high, low = max(one, other), min(one, other)
    return high + math.log1p(math.exp(low - high))
