"""What choosing the best of several private trainings costs, where their number is drawn at random.

Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential Privacy" (ICLR 2022, arXiv 2110.03620), Theorem 2,
which sharpens Liu and Talwar (STOC 2019): draw a number K from a truncated negative binomial distribution, run a
private training K times, each time with hyper-parameters drawn anew, and publish the best run alone. That is
differentially private at a few times the cost of one run, however large K may come out. It asks that the number was
drawn before, that everything else of the runs stays unpublished, and that the score is a part of what the mechanism
gives out: a score on public text is; one on private text must be made private itself.

No claim of a run rests on this: `reticent compare` runs what it is told, so its models are composed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

ORDERS: Sequence[int] = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512, 768, 1024)


def dp_sgd_rdp(order: int, *, noise_multiplier: float, sample_rate: float, num_steps: int) -> float:
    """Renyi divergence of DP-SGD at an integer order, when one record is added or removed.

    Mironov, Talwar and Zhang 2019 (arXiv 1908.10530), section 3.3: log(A) / (order - 1) for each step, with
    A = sum_k C(order, k) (1-q)^(order-k) q^k exp(k (k-1) / (2 sigma^2)).

    Args:
        order: at least 2.
        noise_multiplier: of the noise, over the clipping norm.
        sample_rate: with which a record enters a step, up to 1.
        num_steps: steps.
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
    """The mean of the truncated negative binomial distribution (Papernot and Steinke 2022, Definition 1).

    Args:
        eta: its shape, above -1: 1 is the geometric, 0 the logarithmic distribution.
        gamma: between 0 and 1.
    """
    if eta <= -1 or not 0 < gamma < 1:
        raise ValueError("eta must be above -1, and gamma between 0 and 1")
    if eta == 0:
        return (1 / gamma - 1) / math.log(1 / gamma)
    return eta * (1 - gamma) / (gamma * (1 - math.pow(gamma, eta)))


@lru_cache(maxsize=32)
def gamma_of(eta: float, mean: float) -> float:
    """The gamma for which as many candidates are run on average, by bisection; rounded to the dearer side.

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
    """Renyi divergence at ``order`` of the best of K runs: Papernot and Steinke 2022, Theorem 2.

    Args:
        order, rdp: of one run; the order is above 1.
        other_order, other_rdp: of one run, at an order of at least 1 that may be another.
        eta, gamma: of the distribution of K.
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
    """Epsilon at ``delta`` (Canonne, Kamath and Steinke 2020, arXiv 2004.00010v3, Proposition 12)."""
    return max(0.0, rdp + math.log1p(-1 / order) - math.log(delta * order) / (order - 1))


def selected_epsilon(
    *, noise_multiplier: float, sample_rate: float, num_steps: int, delta: float, mean: float, eta: float = 0.0
) -> tuple[float, float]:
    """Epsilon of publishing the best of K trainings by DP-SGD, when one record is added or removed.

    Args:
        noise_multiplier, sample_rate, num_steps: of each training; the largest cost among the candidates.
        delta: that epsilon is stated at.
        mean: of K; the number itself is drawn.
        eta: shape of its distribution; larger ones vary less, and cost more.

    Returns:
        The epsilon, and that of a single run by the same accounting.
    """
    mechanism = {"noise_multiplier": noise_multiplier, "sample_rate": sample_rate, "num_steps": num_steps}
    losses = {order: dp_sgd_rdp(order, **mechanism) for order in ORDERS}  # type: ignore[arg-type]
    gamma = gamma_of(eta, mean)
    alone = min(epsilon_of_rdp(order, rdp, delta) for order, rdp in losses.items())
    # The two orders are free of each other, and the second enters through these terms alone.
    other = min(losses, key=lambda order: (1 - 1 / order) * losses[order] + math.log(1 / gamma) / order)
    chosen = min(
        epsilon_of_rdp(
            order,
            selected_rdp(order, rdp, other_order=other, other_rdp=losses[other], eta=eta, gamma=gamma),
            delta,
        )
        for order, rdp in losses.items()
    )
    return chosen, alone
