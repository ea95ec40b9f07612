"""Cells that are calculations: accounting of the papers' settings by this project's accountants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pipelines.accounting.accountants import NeighboringRelation, epsilon, gdp_clt_epsilon, pld_epsilon
from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.confidentiality import amplify_epsilon
from pipelines.accounting.events import Event, dp_sgd

ADD_OR_REMOVE: Final = NeighboringRelation.ADD_OR_REMOVE_ONE
SST2_ROWS: Final = 67_349
_GRID: Final = 1e-3


def bayesian_epsilon(epsilon_of_training: float, gamma: float) -> dict[str, float]:
    """Returns the ε that is left if a share γ is missed (CRT, Theorem 8.3)."""
    return {"epsilon": amplify_epsilon(epsilon_of_training, gamma)}


def unsampled_step(noise: float, delta: float) -> dict[str, float]:
    """Returns the ε of one Gaussian release without credit for sampling, the least cost of a private update."""
    event = dp_sgd(noise_multiplier=noise, sample_rate=1.0, num_steps=1)
    return {"epsilon": epsilon(event, delta, ADD_OR_REMOVE)}


def converted(rows: float, target: float) -> dict[str, float]:
    """Converts noise for an ε by RDP to the ε of the Gaussian limit and of PLD (Li et al., Table 1).

    Sampling rate and number of steps are those of SST-2 in batches of 1,024 for 3 epochs, which the paper also uses for
    its other tasks; δ is half of one over the number of rows.
    """
    event, delta = _of_sst2(rows, target)
    return {
        "epsilon_clt": float(gdp_clt_epsilon(event, delta, ADD_OR_REMOVE) or 0.0),
        "epsilon_pld": pld_epsilon(event, delta, ADD_OR_REMOVE, _GRID),
    }


def _of_sst2(rows: float, target: float) -> tuple[Event, float]:
    rate = 1_024 / SST2_ROWS
    steps, delta = round(3 / rate), 0.5 / rows
    noise = _noise(rate, steps, target, rows)
    return dp_sgd(noise_multiplier=noise, sample_rate=rate, num_steps=steps), delta


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
    for function in (bayesian_epsilon, unsampled_step, converted, effective_noise, square_root_rule)
}
