"""The privacy cost of the best of several private trainings, if their number is drawn at random.

Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential Privacy" (ICLR 2022, arXiv 2110.03620), Theorem 2,
which sharpens Liu and Talwar (STOC 2019): draw a number K from a truncated negative binomial distribution, run a
private training K times, each time with new random hyper-parameters, and publish only the best run. This is
differentially private at a few times the cost of one run, for any K. The number must be drawn before, nothing else of
the runs may be published, and the score must be part of the mechanism's output. A score on public text is. A score on
private text must be private itself.

No claim of a run rests on this: `reticent compare` trains a given list of models, so these are composed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

ORDERS: Sequence[int] = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512, 768, 1024)


def dp_sgd_rdp(order: int, *, noise_multiplier: float, sample_rate: float, num_steps: int) -> float:
    """Returns the Renyi divergence of DP-SGD at an integer order, if one record is added or removed.

    Mironov, Talwar and Zhang 2019 (arXiv 1908.10530), section 3.3: log(A) / (order - 1) for each step, with
    A = sum_k C(order, k) (1-q)^(order-k) q^k exp(k (k-1) / (2 sigma^2)).

    Args:
        order: order, at least 2.
        noise_multiplier: sigma, standard deviation of the noise over the clipping norm.
        sample_rate: q, probability with which a record enters a step, up to 1.
        num_steps: number of steps.
    """
    if order < 2 or order != int(order):
        raise ValueError(f"order must be an integer of at least 2, not {order}")
    if sample_rate == 1:
        return num_steps * order / (2 * noise_multiplier**2)
    terms = [
        math.lgamma(order + 1)
        - math.lgamma(k + 1)
        - math.lgamma(order - k + 1)
        + (order - k) * math.log1p(-sample_rate)
        + k * math.log(sample_rate)
        + k * (k - 1) / (2 * noise_multiplier**2)
        for k in range(order + 1)
    ]
    largest = max(terms)
    log_a = largest + math.log(math.fsum(math.exp(term - largest) for term in terms))
    return num_steps * max(0.0, log_a) / (order - 1)


def mean_number(eta: float, gamma: float) -> float:
    """Returns the mean of the truncated negative binomial distribution (Papernot and Steinke 2022, Definition 1).

    Args:
        eta: shape of the distribution, above -1: 1 is the geometric, 0 the logarithmic distribution.
        gamma: parameter between 0 and 1.
    """
    if eta <= -1 or not 0 < gamma < 1:
        raise ValueError("eta must be above -1, and gamma between 0 and 1")
    if eta == 0:
        return (1 / gamma - 1) / math.log(1 / gamma)
    return eta * (1 - gamma) / (gamma * (1 - math.pow(gamma, eta)))


@lru_cache(maxsize=32)
def gamma_of(eta: float, mean: float) -> float:
    """Returns the gamma with this mean number of candidates, by bisection, rounded to the more expensive side.

    Raises:
        ValueError: the mean is not above 1.
    """
    if not mean > 1:
        raise ValueError("on average more than one candidate has to be run")
    low, high = math.log(1e-300), math.log1p(-1e-15)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_number(eta, math.exp(middle)) > mean else (low, middle)
    return math.exp(low)


def selected_rdp(order: float, rdp: float, *, other_order: float, other_rdp: float, eta: float, gamma: float) -> float:
    """Returns the Renyi divergence at ``order`` of the best of K runs: Papernot and Steinke 2022, Theorem 2.

    Args:
        order, rdp: order above 1, and divergence of one run at it.
        other_order, other_rdp: order of at least 1, which may be another, and divergence of one run at it.
        eta, gamma: parameters of the distribution of K.
    """
    if not (order > 1 and other_order >= 1):
        raise ValueError("orders must be above 1, and at least 1")
    return (
        rdp
        + (1 + eta) * (1 - 1 / other_order) * other_rdp
        + (1 + eta) * math.log(1 / gamma) / other_order
        + math.log(mean_number(eta, gamma)) / (order - 1)
    )


def epsilon_of_rdp(order: float, rdp: float, delta: float) -> float:
    """Returns epsilon at ``delta`` (Canonne, Kamath and Steinke 2020, arXiv 2004.00010v3, Proposition 12)."""
    return max(0.0, rdp + math.log1p(-1 / order) - math.log(delta * order) / (order - 1))


def selected_epsilon(
    *, noise_multiplier: float, sample_rate: float, num_steps: int, delta: float, mean: float, eta: float = 0.0
) -> tuple[float, float]:
    """Returns epsilon of publishing the best of K trainings by DP-SGD, if one record is added or removed.

    Args:
        noise_multiplier, sample_rate, num_steps: settings of each training; take the most expensive candidate's.
        delta: delta at which epsilon is stated.
        mean: mean of K; the number itself is drawn.
        eta: shape of the distribution of K; larger shapes vary less, and cost more.

    Returns:
        The epsilon, and that of a single run by the same accounting.
    """
    mechanism = {"noise_multiplier": noise_multiplier, "sample_rate": sample_rate, "num_steps": num_steps}
    losses = {order: dp_sgd_rdp(order, **mechanism) for order in ORDERS}  # type: ignore[arg-type]
    gamma = gamma_of(eta, mean)
    alone = min(epsilon_of_rdp(order, rdp, delta) for order, rdp in losses.items())
    # The two orders are independent, and the second enters only through these terms.
    other = min(losses, key=lambda order: (1 - 1 / order) * losses[order] + math.log(1 / gamma) / order)
    chosen = min(
        epsilon_of_rdp(
            order, selected_rdp(order, rdp, other_order=other, other_rdp=losses[other], eta=eta, gamma=gamma), delta
        )
        for order, rdp in losses.items()
    )
    return chosen, alone
