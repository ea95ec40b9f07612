"""Measured power of an audit's game: alarms in a first audit of steps that were broken on purpose.

Measured by ``benchmarks/audit_power.py``. A test compares the counts with the benchmark's results.
"""

from __future__ import annotations

from typing import Any, Final

from pipelines.attacks.epsilon_comparison import Power

NUM_TRIALS: Final = 1_000
EPSILONS: Final = (1.0, 3.0, 8.0)
"""Epsilons of the training under replace-one, to which the noise is calibrated."""
NUM_RUNS: Final = 60
"""Number of runs of each fault and kind of training, at all these epsilons together."""
ALARMS: Final[dict[str, tuple[int | None, int | None]]] = {
    "correct": (0, 0),
    "no noise": (60, 60),
    "noise × 0.9": (60, 60),
    "noise × 2/3": (60, 60),
    "the same noise each step": (60, 60),
    "noise once an epoch": (60, 60),
    "noise on one tensor only": (60, 60),
    "clipping at 1.25 C": (60, 60),
    "clipping at 2 C": (60, 60),
    "one microbatch unclipped": (60, 60),
    "the embedding unclipped": (60, 60),
    "the head unclipped": (60, 60),
    "LoRA weights unclipped": (60, None),
    "a shuffle": (60, None),
    "twice the sampling rate": (60, None),
    "noise reused after a resume": (60, 60),
    "hidden states not clipped": (None, 60),
}
"""Number of alarms by fault, for `pipelines.training.loop` and for S-DPSGD; None if the fault is impossible there."""


def measured_power(num_trials: int, *, takes_spans: bool) -> dict[str, Any] | None:
    """Returns the measured power as JSON values, or None if an audit has fewer trials.

    Args:
        num_trials: number of trials of the audit.
        takes_spans: true if the method is S-DPSGD.

    Returns:
        ``num_trials``, ``num_runs``, ``epsilons``, and ``rows``, one for each fault: ``fault``, ``num_flagged``, and
        the exact 95 % interval ``low``, ``high``.
    """
    if num_trials < NUM_TRIALS:
        return None
    rows = []
    for fault, counts in ALARMS.items():
        alarms = counts[takes_spans]
        if alarms is not None:
            power = Power.of([at < alarms for at in range(NUM_RUNS)])
            rows.append({"fault": fault, "num_flagged": alarms, "low": power.low, "high": power.high})
    return {"num_trials": NUM_TRIALS, "num_runs": NUM_RUNS, "epsilons": list(EPSILONS), "rows": rows}
