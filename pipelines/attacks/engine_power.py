"""How often the game of an audit raised the alarm of a first night against engines that were broken on purpose.

Measured by ``benchmarks/audit_tightness.py --only stage``, with the rate and steps of the built-in job. A test compares
the counts with the benchmark's results.
"""

from __future__ import annotations

from typing import Any, Final

from pipelines.attacks.epsilon_comparison import Power

NUM_TRIALS: Final = 20_000
EPSILONS: Final = (1.0, 3.0, 8.0)
"""Of the training, replace-one, which the noise is calibrated to."""
NUM_RUNS: Final = 20
"""Of each engine at each epsilon."""
ALARMS: Final = {
    "correct": (0, 0, 0),
    "no clipping": (20, 20, 20),
    "noise / 10": (20, 20, 20),
    "noise once an epoch": (20, 20, 20),
    "one microbatch of four unclipped": (19, 20, 20),
}
"""Of so many runs, by the engine's fault, one number for each epsilon."""


def measured_power(num_trials: int) -> dict[str, Any] | None:
    """What was measured, for JSON; None where an audit plays with fewer trials than that.

    Returns:
        ``num_trials``, ``num_runs``, and ``rows``, one for each engine and epsilon: ``engine``, ``epsilon``,
        ``num_flagged``, and the exact 95 % interval ``low``, ``high``.
    """
    if num_trials < NUM_TRIALS:
        return None
    rows = []
    for engine, counts in ALARMS.items():
        for epsilon, alarms in zip(EPSILONS, counts, strict=True):
            power = Power.of([at < alarms for at in range(NUM_RUNS)])
            rows.append(
                {
                    "engine": engine,
                    "epsilon": epsilon,
                    "num_flagged": alarms,
                    "low": power.low,
                    "high": power.high,
                }
            )
    return {"num_trials": NUM_TRIALS, "num_runs": NUM_RUNS, "rows": rows}
