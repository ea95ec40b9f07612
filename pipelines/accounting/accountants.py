"""Accountants from an event to an epsilon: PLD by default, RDP for comparison, and GDP-CLT, which is asymptotic.

PLD and RDP come from dp-accounting. PLD rounds every privacy loss up (Koskela et al. 2020; Doroshenko et al. 2022,
"Connect the dots"), so its epsilon is an upper bound at any discretisation: a coarser grid is looser, never wrong. A
lower bound (`pipelines.accounting.lower_bound`) shows how tight it is. Functions import dp-accounting, because it loads
scipy.stats, which is slow.

Li et al. (2022, section 2 and appendix B) compose trade-off functions with the PRV accountant of Gopi, Lee and
Wutschitz (2021). PLD replaces it here: both convolve the same privacy losses, and PLD lies between PRV's lower and
upper bound on every row of the oracle table. Nothing here is called PRV.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Final, Literal

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from pipelines.accounting.events import (
    Event,
    Gaussian,
    NeighboringRelation,
    NonPrivate,
    PoissonSampled,
    UnsupportedEventError,
    adds_no_noise,
    as_sampled,
    is_silent,
    leaves,
)

AccountantName = Literal["pld", "pld_lower", "rdp", "gdp_clt"]

_USUAL_INTERVAL = 1e-4
_FINEST_INTERVAL = 1e-6
_COARSEST_INTERVAL = 1e-2
_POINTS_PER_EPSILON = 1e5
_LARGEST_EXPECTED_LOSS = 1e5
_LARGEST_TABLE = 1e8
_ROUNDING: Final = 1e-14
"""Error of delta for each step that the Fourier transform of a composition may make, with room to spare. Measured: up
to 3e-14 at 1,000 steps and 3e-11 at 100,000."""


@dataclass(frozen=True, kw_only=True)
class EpsilonFigure:
    """An accountant's figure for an event.

    Attributes:
        epsilon: the figure; None if the accountant does not cover the event or the relation.
        accountant: ``pld``, ``pld_lower``, ``rdp`` or ``gdp_clt``.
        relation: neighbouring relation of the figure.
        is_bound: true for an upper bound. False for a lower bound and for an asymptotic figure, which no guarantee may
            use.
        note: reason why there is no figure, or its limits.
    """

    epsilon: float | None
    accountant: AccountantName
    relation: NeighboringRelation
    is_bound: bool
    note: str = ""


@functools.lru_cache(maxsize=256)
def epsilon(event: Event, delta: float, relation: NeighboringRelation | str = NeighboringRelation.REPLACE_ONE) -> float:
    """Returns the smallest known upper bound on epsilon at ``delta``, by PLD.

    Args:
        event: privacy event of the training.
        delta: probability that the bound may fail, strictly between 0 and 1.
        relation: neighbouring relation of the claimed notion.

    Returns:
        An epsilon >= 0; 0 if nothing private was touched, infinity if a mechanism added no noise.

    Raises:
        UnsupportedEventError: an event of no known kind.
        ValueError: delta out of range, or a relation that is none of `NeighboringRelation`.
    """
    _check_delta(delta)
    relation = NeighboringRelation(relation)
    if is_silent(event):
        return 0.0
    if adds_no_noise(event):
        return math.inf
    if _expected_loss(event) > _LARGEST_EXPECTED_LOSS:
        return _epsilon_without_sampling(event, delta, relation)
    interval = _COARSEST_INTERVAL
    while True:
        bound = pld_epsilon(event, delta, relation, interval)
        wanted = _wanted_interval(bound)
        if wanted >= interval:
            return bound
        interval = max(wanted, interval / 10)


def epsilon_at_most(event: Event, delta: float) -> float:
    """Returns a quick upper bound for display: PLD on a coarse grid, under replacement of a record.

    It is at most a few per cent above `epsilon` for usual trainings, and more if epsilon is far below 1. No claim uses
    it.
    """
    if is_silent(event):
        return 0.0
    if adds_no_noise(event):
        return math.inf
    if _expected_loss(event) > _LARGEST_EXPECTED_LOSS:
        return _epsilon_without_sampling(event, delta, NeighboringRelation.REPLACE_ONE)
    return pld_epsilon(event, delta, NeighboringRelation.REPLACE_ONE, _COARSEST_INTERVAL)


def _wanted_interval(bound: float) -> float:
    """Returns the grid for an epsilon of about ``bound``.

    The table of losses is about epsilon / interval long. A huge epsilon keeps a coarser grid, so that a run with hardly
    any noise takes seconds and does not fill the memory. A tiny epsilon needs a finer grid, because rounding up over
    thousands of steps would swamp it.
    """
    fine = min(_USUAL_INTERVAL, max(_FINEST_INTERVAL, bound / 1_000))
    return max(fine, bound / _POINTS_PER_EPSILON)


def is_within_rounding(event: Event, delta: float) -> bool:
    """Returns true if delta is so small that the rounding of a composition's Fourier transform may exceed it."""
    return delta < _ROUNDING * sum(count for count, _ in leaves(event))


def _expected_loss(event: Event) -> float:
    """Returns an upper bound on the mean privacy loss of the event in nats, by convexity of the divergence."""
    total = 0.0
    for count, leaf in leaves(event):
        if isinstance(leaf, PoissonSampled) and leaf.event.noise_multiplier:
            total += count * leaf.sample_rate * 2 / leaf.event.noise_multiplier**2
        elif isinstance(leaf, Gaussian):
            total += count * 2 / leaf.noise_multiplier**2
    return total


def _epsilon_without_sampling(event: Event, delta: float, relation: NeighboringRelation) -> float:
    """Returns an upper bound in closed form without credit for sampling, for events with hardly any noise.

    A sampled step is a mixture of the full step and of a step that does not depend on the record. So by convexity of
    the hockey-stick divergence the full step dominates it. Gaussians compose exactly (Dong, Roth and Su 2022,
    Corollary 3.3).
    """
    reach = 2.0 if relation is NeighboringRelation.REPLACE_ONE else 1.0
    mu_squared = 0.0
    for count, leaf in leaves(event):
        if isinstance(leaf, PoissonSampled) and leaf.event.noise_multiplier:
            mu_squared += count * (reach / leaf.event.noise_multiplier) ** 2
        elif isinstance(leaf, Gaussian):
            mu_squared += count * (reach / leaf.noise_multiplier) ** 2
    return gdp_epsilon(math.sqrt(mu_squared), delta)


def pld_epsilon(event: Event, delta: float, relation: NeighboringRelation, interval: float) -> float:
    """Returns epsilon by PLD on one grid of privacy losses (``interval`` in nats): an upper bound for any grid.

    If delta is within the rounding of the Fourier transform, it is the bound without credit for sampling.
    """
    if _expected_loss(event) > _LARGEST_TABLE * interval or is_within_rounding(event, delta):
        return _epsilon_without_sampling(event, delta, relation)
    if relation is NeighboringRelation.REPLACE_ONE and not (is_silent(event) or adds_no_noise(event)):
        from pipelines.accounting.losses import composed_epsilon  # dp-accounting is slow to import

        mechanisms = [as_sampled(count, leaf) for count, leaf in leaves(event)]
        return composed_epsilon([one for one in mechanisms if one[1] > 0], delta, interval)
    from dp_accounting import UnsupportedEventError as UnknownToLibraryError
    from dp_accounting import pld

    accountant = pld.PLDAccountant(to_dp_relation(relation), value_discretization_interval=interval)
    try:
        accountant.compose(to_dp_event(event))
    except UnknownToLibraryError as error:
        raise UnsupportedEventError("the PLD accountant does not cover this event") from error
    return float(accountant.get_epsilon(delta))


def pld_lower_epsilon(
    event: Event, delta: float, relation: NeighboringRelation, upper: float | None = None
) -> float | None:
    """Returns a lower bound on the cost of the event for its worst pair of neighbours. It is never claimed.

    Args:
        event: privacy event of the training.
        delta: delta, strictly between 0 and 1.
        relation: neighbouring relation.
        upper: `epsilon` of the same arguments, if it is known already.

    Returns:
        A number at most `epsilon`; None if no table holds the losses.
    """
    _check_delta(delta)
    relation = NeighboringRelation(relation)
    if is_silent(event):
        return 0.0
    if adds_no_noise(event):
        return math.inf
    if _expected_loss(event) > _LARGEST_EXPECTED_LOSS:
        return None
    from pipelines.accounting.lower_bound import lower_epsilon  # dp-accounting is slow to import

    return lower_epsilon(event, delta, relation, epsilon(event, delta, relation) if upper is None else upper)


def rdp_epsilon(event: Event, delta: float, relation: NeighboringRelation | str) -> float | None:
    """Returns epsilon by Renyi DP (Mironov 2017; Poisson sampling by Mironov, Talwar and Zhang 2019).

    dp-accounting's RDP accountant takes the noise of a plain Gaussian event relative to the sensitivity under the
    accountant's own relation. Its PLD accountant takes it relative to the norm of one record, as events here do. Under
    replacement the sum moves by twice that norm, so RDP gets half the noise.

    Args:
        event: privacy event of the training.
        delta: delta, strictly between 0 and 1.
        relation: neighbouring relation.

    Returns:
        Epsilon; None for Poisson sampling under replacement, which dp-accounting refuses. A figure for another relation
        would be a wrong claim.
    """
    _check_delta(delta)
    relation = NeighboringRelation(relation)
    if is_silent(event):
        return 0.0
    if adds_no_noise(event):
        return math.inf
    from dp_accounting import UnsupportedEventError as UnknownToLibraryError
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant(neighboring_relation=to_dp_relation(relation))
    noise_share = 0.5 if relation is NeighboringRelation.REPLACE_ONE else 1.0
    try:
        accountant.compose(to_dp_event(event, noise_share))
    except UnknownToLibraryError:
        return None
    return float(accountant.get_epsilon(delta))


def gdp_clt_epsilon(event: Event, delta: float, relation: NeighboringRelation | str) -> float | None:
    """Returns epsilon of the Gaussian limit for Poisson sampling (Bu, Dong, Long and Su 2020, Corollary 5.4).

    It is asymptotic in the number of steps and lies below the truth at real numbers of steps. It is shown for
    comparison with published figures and never claimed.

    Args:
        event: privacy event of the training.
        delta: delta, strictly between 0 and 1.
        relation: neighbouring relation.

    Returns:
        Epsilon; None under replacement, for which the limit is not stated.
    """
    _check_delta(delta)
    if is_silent(event):
        return 0.0
    if NeighboringRelation(relation) is not NeighboringRelation.ADD_OR_REMOVE_ONE:
        return None
    if adds_no_noise(event):
        return math.inf
    mu_squared = 0.0
    for count, leaf in leaves(event):
        if isinstance(leaf, PoissonSampled):
            if leaf.sample_rate == 0:
                continue
            exponent = leaf.event.noise_multiplier**-2
            if exponent > 700:
                return math.inf
            mu_squared += count * leaf.sample_rate**2 * math.expm1(exponent)
        elif isinstance(leaf, Gaussian):
            mu_squared += count * leaf.noise_multiplier**-2
    return gdp_epsilon(math.sqrt(mu_squared), delta)


def gdp_epsilon(mu: float, delta: float) -> float:
    """Returns the epsilon at ``delta`` of mu-Gaussian DP (Dong, Roth and Su 2022, Corollary 2.13), by root search.

    Args:
        mu: sensitivity over noise of a single Gaussian release, at least 0.
        delta: delta, strictly between 0 and 1.
    """

    def delta_of(eps: float) -> float:
        # exp(eps) * Phi(b) in logarithms: exp(eps) alone overflows at large mu.
        return float(ndtr(-eps / mu + mu / 2) - math.exp(eps + float(log_ndtr(-eps / mu - mu / 2))))

    if mu == 0 or delta_of(0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_of(high) > delta:
        high *= 2
    return float(brentq(lambda eps: delta_of(eps) - delta, 0.0, high, xtol=1e-12))


@functools.lru_cache(maxsize=64)
def all_epsilons(event: Event, delta: float, relation: NeighboringRelation) -> tuple[EpsilonFigure, ...]:
    """Returns every accountant's figure for an event. PLD, which claims use, comes first.

    Args:
        event: privacy event of the training.
        delta: delta, strictly between 0 and 1.
        relation: neighbouring relation.
    """
    rdp_figure = rdp_epsilon(event, delta, relation)
    clt_figure = gdp_clt_epsilon(event, delta, relation)
    pld_figure = epsilon(event, delta, relation)
    lower_figure = pld_lower_epsilon(event, delta, relation, pld_figure)
    uncovered = "this accountant does not cover the event under this relation"
    asymptotic = "asymptotic in the number of steps, not a bound"
    return (
        EpsilonFigure(epsilon=pld_figure, accountant="pld", relation=relation, is_bound=True),
        EpsilonFigure(
            epsilon=lower_figure,
            accountant="pld_lower",
            relation=relation,
            is_bound=False,
            note="a lower bound: the event costs at least this much for its worst neighbours"
            if lower_figure is not None
            else "delta is too small, or the noise too low, for a lower bound",
        ),
        EpsilonFigure(
            epsilon=rdp_figure,
            accountant="rdp",
            relation=relation,
            is_bound=True,
            note=uncovered if rdp_figure is None else "",
        ),
        EpsilonFigure(
            epsilon=clt_figure,
            accountant="gdp_clt",
            relation=relation,
            is_bound=False,
            note=f"{asymptotic}; {uncovered}" if clt_figure is None else asymptotic,
        ),
    )


def to_dp_event(event: Event, noise_share: float = 1.0) -> Any:
    """Returns the event as a dp-accounting event, with every noise multiplier times ``noise_share``.

    Raises:
        UnsupportedEventError: an event of no known kind.
    """
    import dp_accounting

    parts = []
    for count, leaf in leaves(event):
        if isinstance(leaf, NonPrivate):
            mechanism = dp_accounting.NonPrivateDpEvent()
        elif isinstance(leaf, Gaussian):
            mechanism = dp_accounting.GaussianDpEvent(leaf.noise_multiplier * noise_share)
        else:
            mechanism = dp_accounting.GaussianDpEvent(leaf.event.noise_multiplier * noise_share)
            if leaf.sample_rate < 1:
                mechanism = dp_accounting.PoissonSampledDpEvent(leaf.sample_rate, mechanism)
        parts.append(dp_accounting.SelfComposedDpEvent(mechanism, count))
    return dp_accounting.ComposedDpEvent(parts)


def to_dp_relation(relation: NeighboringRelation) -> Any:
    """Returns the relation as dp-accounting's own."""
    import dp_accounting

    return dp_accounting.NeighboringRelation[NeighboringRelation(relation).name]


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1, not {delta}")
