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
FEWER_RUNS: Final = dict.fromkeys(
    (
        "the same noise in each block",
        "the second half of each tensor's noise repeats the first",
        "each second coordinate's noise repeats its neighbour's",
        "uniform noise of the right variance",
    ),
    57,
)
"""Number of runs of each fault that was measured less often."""
ALARMS: Final[dict[str, tuple[int | None, int | None]]] = {
    "correct": (0, 0),
    "no noise": (60, 60),
    "noise × 0.9": (60, 60),
    "noise × 2/3": (60, 60),
    "the same noise each step": (60, 60),
    "noise once an epoch": (60, 60),
    "noise on one tensor only": (60, 60),
    "the same noise in each block": (57, 57),
    "the second half of each tensor's noise repeats the first": (57, 57),
    "each second coordinate's noise repeats its neighbour's": (57, 57),
    "uniform noise of the right variance": (57, 57),
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
        the exact 95 % interval ``low``, ``high``, and ``num_runs`` if that is less than for the other faults.
    """
    if num_trials < NUM_TRIALS:
        return None
    rows = []
    for fault, counts in ALARMS.items():
        alarms = counts[takes_spans]
        if alarms is not None:
            num_runs = FEWER_RUNS.get(fault, NUM_RUNS)
            power = Power.of([at < alarms for at in range(num_runs)])
            row = {"fault": fault, "num_flagged": alarms, "low": power.low, "high": power.high}
            rows.append({**row, "num_runs": num_runs} if fault in FEWER_RUNS else row)
    return {"num_trials": NUM_TRIALS, "num_runs": NUM_RUNS, "epsilons": list(EPSILONS), "rows": rows}
