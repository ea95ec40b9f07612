"""How often the game of an audit on a method's steps raises the alarm of a first night when they are broken on purpose.

    python benchmarks/audit_power.py --processes 2            # 30 minutes on two busy cores
    python benchmarks/audit_power.py --runs 1 --trials 200 --out /tmp/power.json
    python benchmarks/audit_power.py --methods dpsgd --faults "no noise"   # replaces these rows of the results

Every fault of `audit_faults` is put into the code that ships, and each asserts that it was called. The game is that of
`reticent audit`, with fewer trials than its default, at the noise of a training for each epsilon (replace-one, delta
1e-5, a tenth of the records in each of 80 steps). `dpsgd` stands for `pipelines.training.loop`; the other methods that
take their noised steps there have fewer runs, at one epsilon.

Writes `benchmarks/results/audit_power.json` after each round of runs, and prints the table of docs/audit.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from audit_faults import CORRECT, FAULTS, LOOP, SPANS

from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.attacks.attack_training import play_training
from pipelines.attacks.sequential_test import SequentialTest
from pipelines.attacks.training_game import TrainingGame
from pipelines.methods import registry
from pipelines.methods.sdpsgd_lstm import SpanSettings
from pipelines.training.data.span_plan import calibrate, plan

EPSILONS, DELTA, RATE, EPOCHS = (1.0, 3.0, 8.0), 1e-5, 0.1, 8
FULL, FEWER = ("dpsgd", "sdpsgd_lstm"), ("crt", "jft", "jft, phase 1", "redaction_schedule")
FEWER_EPSILON, FEWER_PER_RUN = 3.0, 4
RESULTS = Path(__file__).parent / "results" / "audit_power.json"
ALL = {fault.name: fault for fault in (CORRECT, *FAULTS)}
Job = tuple[str, str, float, int, int]


def kind_of(method: str) -> str:
    """Returns the kind of noised steps of a method."""
    return SPANS if method == "sdpsgd_lstm" else LOOP


@cache
def game_of(method: str, epsilon: float, num_trials: int) -> TrainingGame:
    """The game of a training for that epsilon."""
    name = method.partition(",")[0]
    own = registry.method(name).settings(method=name)
    if isinstance(own, SpanSettings):
        spans = plan(num_trials, round(RATE * num_trials), EPOCHS, own.max_private_spans, 0)
        noise = calibrate(spans, epsilon, DELTA)
    else:
        noise = calibrate_noise_multiplier(
            target_epsilon=epsilon, target_delta=DELTA, sample_rate=RATE, num_steps=round(EPOCHS / RATE),
            relation="replace_one",
        )  # fmt: skip
    return TrainingGame(
        method=name, is_first_phase="phase 1" in method, own=own, num_canaries=num_trials, noise_multiplier=noise,
        sample_rate=RATE, max_grad_norm=0.1,
    )  # fmt: skip


def audited(job: Job) -> dict[str, Any]:
    """Plays the first night of one job."""
    method, fault, epsilon, seed, num_trials = job
    torch.set_num_threads(1)
    game = game_of(method, epsilon, num_trials)
    try:
        with ALL[fault].put_into(kind_of(method)):
            played = play_training(game, seed)
    except Exception as error:
        raise RuntimeError(f"the game of {method} with {fault!r} at epsilon {epsilon}, round {seed}, failed") from error
    tests = played.p_values(np.random.default_rng(seed))
    p_value = played.p_value(np.random.default_rng(seed))
    return {
        "method": method, "fault": fault, "epsilon": epsilon, "p_value": p_value,
        "is_flagged": SequentialTest().after("first", p_value).is_alarm, "seen_by": min(tests, key=tests.__getitem__),
    }  # fmt: skip


def jobs(run: int, num_trials: int) -> Iterator[Job]:
    """Yields the jobs of a round."""
    for name, fault in ALL.items():
        for method in FULL:
            if kind_of(method) in fault.patches:
                yield from ((method, name, epsilon, run, num_trials) for epsilon in EPSILONS)
        for method in FEWER:
            if LOOP in fault.patches and run % FEWER_PER_RUN == 0:
                yield method, name, FEWER_EPSILON, run, num_trials


def summary(found: list[dict[str, Any]], num_trials: int, seconds: float) -> dict[str, Any]:
    """A row for each method, fault and epsilon."""
    rows = defaultdict(list)
    for one in found:
        rows[one["method"], one["fault"], one["epsilon"]].append(one)
    return {
        "num_trials": num_trials, "rate": RATE, "delta": DELTA, "seconds": round(seconds),
        "rows": [
            {
                "method": method, "fault": fault, "epsilon": epsilon, "num_runs": len(runs),
                "num_flagged": sum(run["is_flagged"] for run in runs),
                "largest_p_value": max(run["p_value"] for run in runs),
                "least_p_value": min(run["p_value"] for run in runs),
                "seen_by": sorted({run["seen_by"] for run in runs}) if fault != CORRECT.name else [],
            }
            for (method, fault, epsilon), runs in rows.items()
        ],
        "impossible": [
            {"method": method, "fault": fault.name, "why": fault.why_not}
            for fault in FAULTS for method in FULL if kind_of(method) not in fault.patches
        ],
    }  # fmt: skip


def merged(before: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Results with the rows of earlier ones that were not measured again."""
    new = {(row["method"], row["fault"], row["epsilon"]) for row in result["rows"]}
    kept = [row for row in before.get("rows", []) if (row["method"], row["fault"], row["epsilon"]) not in new]
    if kept and before["num_trials"] != result["num_trials"]:
        raise SystemExit(
            f"the other rows were measured with {before['num_trials']} trials: use --trials or another --out"
        )
    return {**result, "seconds": result["seconds"] + before.get("seconds", 0), "rows": kept + result["rows"]}


def table(result: dict[str, Any]) -> str:
    """Markdown: alarms of runs, one column for each method and epsilon."""
    cells = {(row["method"], row["fault"], row["epsilon"]): row for row in result["rows"]}
    impossible = {(row["method"], row["fault"]) for row in result["impossible"]}
    columns = [(method, epsilon) for method in FULL for epsilon in EPSILONS]
    columns += [(method, FEWER_EPSILON) for method in FEWER]
    lines = [
        "| fault | " + " | ".join(f"`{method}`, ε = {epsilon:g}" for method, epsilon in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for fault in ALL:
        shown = []
        for method, epsilon in columns:
            row = cells.get((method, fault, epsilon))
            alike = "sdpsgd_lstm" if kind_of(method) == SPANS else "dpsgd"
            cannot = "cannot be" if (alike, fault) in impossible else ""
            shown.append(cannot if row is None else f"{row['num_flagged']} of {row['num_runs']}")
        lines.append(f"| {fault} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="rounds: runs of each fault at each epsilon")
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further round after these")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--methods", nargs="+", choices=(*FULL, *FEWER), default=(*FULL, *FEWER))
    parser.add_argument("--faults", nargs="+", choices=ALL, default=tuple(ALL))
    arguments = parser.parse_args()
    is_whole = {*arguments.methods} == {*FULL, *FEWER} and {*arguments.faults} == {*ALL}
    before = {} if is_whole or not arguments.out.exists() else json.loads(arguments.out.read_text())
    began, found = time.monotonic(), []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for run in range(arguments.runs):
            chosen = [
                job for job in jobs(run, arguments.trials) if job[0] in arguments.methods and job[1] in arguments.faults
            ]
            found += pool.map(audited, chosen, chunksize=2)
            result = merged(before, summary(found, arguments.trials, time.monotonic() - began))
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")
            if time.monotonic() - began > arguments.seconds:
                break
    print(table(result))


if __name__ == "__main__":
    main()
