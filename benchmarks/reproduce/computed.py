"""Cells that are calculations: accounting of the papers' settings by this project's accountants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from dp_accounting import rdp

from pipelines.accounting.accountants import NeighboringRelation, epsilon, gdp_clt_epsilon, pld_epsilon, to_dp_event
from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.confidentiality import amplify_epsilon
from pipelines.accounting.events import dp_sgd
from pipelines.training.methods.redaction_schedule import redaction_probability

ADD_OR_REMOVE: Final = NeighboringRelation.ADD_OR_REMOVE_ONE
_GRID: Final = 1e-3
_OPACUS_ORDERS: Final = [1 + tenth / 10 for tenth in range(1, 100)] + [float(order) for order in range(12, 64)]
"""Orders of Rényi DP in the authors' call of Opacus (main.py of github.com/wyshi/lm_privacy)."""


def bayesian_epsilon(epsilon_of_training: float, gamma: float) -> dict[str, float]:
    """Returns the ε that is left if a share γ is missed (CRT, Theorem 8.3)."""
    return {"epsilon": amplify_epsilon(epsilon_of_training, gamma)}


def unsampled_step(noise: float, delta: float) -> dict[str, float]:
    """Returns the ε of one Gaussian release without credit for sampling, the least cost of a private update."""
    event = dp_sgd(noise_multiplier=noise, sample_rate=1.0, num_steps=1)
    return {"epsilon": epsilon(event, delta, ADD_OR_REMOVE)}


def converted(rows: float, target: float, factor: float = 1.0, epochs: float = 3.0) -> dict[str, float]:
    """Converts noise for an ε by RDP to the ε of the Gaussian limit and of PLD (Li et al., Table 1).

    SST-2 takes batches of 1,024 for 3 epochs (``epochs``). The authors scale both by a whole factor for larger tasks,
    so that rate and steps are only roughly those of SST-2 (``task_name_to_factor`` of
    examples/classification/run_wrapper.py in github.com/lxuechen/private-transformers). δ is half of one over the
    number of rows.
    """
    rate = factor * 1_024 / rows
    steps, delta = round(factor * epochs / rate), 0.5 / rows
    event = dp_sgd(noise_multiplier=_noise(rate, steps, target, rows), sample_rate=rate, num_steps=steps)
    return {
        "epsilon_clt": float(gdp_clt_epsilon(event, delta, ADD_OR_REMOVE) or 0.0),
        "epsilon_pld": pld_epsilon(event, delta, ADD_OR_REMOVE, _GRID),
    }


def moments_epsilon(noise: float, batches: float, epochs: float, delta: float) -> dict[str, float]:
    """Returns the ε of DPSGD as Opacus counted it in 2021, and by PLD (Selective DP, Table 2).

    The sampling rate is one over the number of batches of an epoch. Rényi DP of each order becomes ε by Proposition 3
    of Mironov (2017), ρ - ln(δ) / (α - 1), which is looser than today's conversions.
    """
    event = dp_sgd(noise_multiplier=noise, sample_rate=1 / batches, num_steps=round(batches * epochs))
    accountant = rdp.RdpAccountant(orders=_OPACUS_ORDERS)
    accountant.compose(to_dp_event(event))
    by_order = zip(accountant.rdp, _OPACUS_ORDERS, strict=True)
    spent = min(float(rho) - math.log(delta) / (order - 1) for rho, order in by_order)
    return {"epsilon": spent, "epsilon_pld": pld_epsilon(event, delta, ADD_OR_REMOVE, _GRID)}


def schedule_saving(kind: str, steps: float) -> dict[str, float]:
    """Returns the Rényi DP that a schedule saves beside a second stage of JFT of the same steps, in per cent.

    Rényi DP grows with the number of private steps, so the saving is the expected share of redacted steps (Domain
    Private Transformers, Figure 2).
    """
    total = round(steps)
    share = math.fsum(redaction_probability(kind, step, total) for step in range(total)) / total
    return {"saving_percent": 100 * share}


def kept_by_truth(num: float, share: float) -> dict[str, float]:
    """Returns the accuracy (%) of a model that knows nothing, on names that its own scores and the truth chose.

    Of the names that were trained on, those with the highest scores are kept, and of the others those with the lowest
    (``scripts/find_test_dialog_name_from_names_with_ppl.py`` of github.com/wyshi/lm_privacy). The upper half is then
    taken for trained on (``attacks/mem_inference.py`` there).

    Args:
        num: number of names of either kind.
        share: share that is kept.
    """
    members, others = np.random.default_rng(0).normal(size=(2, round(num)))
    kept = round(share * num)
    scores = np.concatenate([np.sort(members)[-kept:], np.sort(others)[:kept]])
    is_member = np.repeat([True, False], kept)[np.argsort(-scores)]
    return {"accuracy_percent": 100 * float(is_member[:kept].sum() + (~is_member[kept:]).sum()) / (2 * kept)}


def effective_noise(batch: float, target: float, rows: float = 42_061.0, steps: float = 400.0) -> dict[str, float]:
    """Returns noise over batch size for a fixed number of steps and the rows of E2E (Li et al., Figure 3, left)."""
    return {"effective_noise": _noise(batch / rows, round(steps), target, rows) / batch}


def square_root_rule(batch: float, rows: float = 50_000.0, epochs: float = 50.0) -> dict[str, float]:
    """Returns σ = c·√q over the noise that is needed, with c from a batch of 4,096 (Li et al., Figure 7)."""

    def needed(size: float) -> float:
        return _noise(size / rows, round(epochs * rows / size), 3.0, rows)

    return {"share": needed(4_096.0) * (batch / 4_096.0) ** 0.5 / needed(batch)}


def _noise(rate: float, steps: int, target: float, rows: float) -> float:
    return calibrate_noise_multiplier(
        target_epsilon=target,
        target_delta=0.5 / rows,
        sample_rate=rate,
        num_steps=steps,
        relation=ADD_OR_REMOVE,
        accountant="rdp",
    )


FUNCTIONS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    function.__name__: function
    for function in (
        bayesian_epsilon,
        unsampled_step,
        converted,
        moments_epsilon,
        schedule_saving,
        kept_by_truth,
        effective_noise,
        square_root_rule,
    )
}
