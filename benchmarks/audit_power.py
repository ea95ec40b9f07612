"""How often the game of an audit on a method's steps raises the alarm of a first night when they are broken on purpose.

    python benchmarks/audit_power.py --processes 2            # 30 minutes on two busy cores
    python benchmarks/audit_power.py --runs 1 --trials 200 --out /tmp/power.json
    python benchmarks/audit_power.py --methods dpsgd --faults "no noise"   # replaces these rows of the results
    python benchmarks/audit_power.py --person --runs 10    # people with 16 records each: bounds, faults, CPU seconds

Every fault of `audit_faults` is put into the code that ships, and each asserts that it was called. The game is that of
`reticent audit`, with fewer trials than its default, at the noise of a training for each epsilon (replace-one, delta
1e-5, a tenth of the records in each of 80 steps). `dpsgd` stands for `pipelines.training.loop`; the other methods that
take their noised steps there have fewer runs, at one epsilon.

With `--person` the game has made-up people, and the training is sampled by record or by person. Faults are those of
`audit_faults.OF_PEOPLE`, at the epsilon in the middle.

Writes `benchmarks/results/audit_power.json` after each round of runs, or `audit_power_person.json` at the end, and
prints the table of docs/audit.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from audit_faults import CORRECT, FAULTS, LOOP, OF_PEOPLE, SPANS

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


RECORDS_EACH = 16
TRAININGS = {"by record": ("record", 1), "by person": ("owner", 1), "by person, 4 records each": ("owner", 4)}


def person_audited(job: tuple[str, str, float, int, int]) -> dict[str, Any]:
    """Plays a game on people: bound, epsilons, alarm and CPU seconds."""
    training, fault, epsilon, seed, num_people = job
    torch.set_num_threads(1)
    began = time.process_time()
    unit, records_each = TRAININGS[training]
    own = registry.method("dpsgd").settings(method="dpsgd", unit=unit, owner_records=records_each)
    game = replace(
        game_of("dpsgd", epsilon, 1_000), own=own, num_canaries=num_people, person_records=RECORDS_EACH
    )  # fmt: skip
    with {CORRECT.name: CORRECT, **{one.name: one for one in OF_PEOPLE}}[fault].put_into(LOOP):
        played = play_training(game, seed)
    rng = np.random.default_rng(seed)
    (lower,) = (one.value for one in played.estimates(DELTA, 0.95, rng) if one.estimator == "f_dp")
    p_value = played.p_value(rng)
    return {
        "training": training, "fault": fault, "epsilon": epsilon, "lower": lower, "record": played.claimed_of(1, DELTA),
        "person": played.claimed(DELTA), "is_flagged": SequentialTest().after("first", p_value).is_alarm,
        "p_value": p_value, "seconds": time.process_time() - began,
    }  # fmt: skip


def person_jobs(runs: int, num_people: int) -> list[tuple[str, str, float, int, int]]:
    """The jobs of the game on people."""
    correct = [(name, CORRECT.name, epsilon) for name in TRAININGS for epsilon in EPSILONS]
    several = "by person, 4 records each"
    broken = [(several if "clipped" in one.name else "by person", one.name, EPSILONS[1]) for one in OF_PEOPLE]
    return [(*kind, run, num_people) for kind in (*correct, *broken) for run in range(runs)]


def person_table(found: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Rows for each training, fault and epsilon, and as Markdown."""
    of = defaultdict(list)
    for one in found:
        of[one["training"], one["fault"], one["epsilon"]].append(one)
    rows, lines = [], [
        "| sampled | steps | ε of the training | ε of a record in the game | ε of a person with 16 records "
        "| lower bound, median (least – most) | above the record's | above the person's | alarms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for (training, fault, epsilon), runs in of.items():
        lower, num = sorted(run["lower"] for run in runs), len(runs)
        by_person = training != "by record"
        row = {
            "training": training, "fault": fault, "epsilon": epsilon, "num_runs": num,
            "record": None if by_person else runs[0]["record"], "person": runs[0]["person"],
            "lower": [float(np.median(lower)), lower[0], lower[-1]],
            "above_record": None if by_person else sum(run["lower"] > run["record"] for run in runs),
            "above_person": sum(run["lower"] > run["person"] for run in runs),
            "num_flagged": sum(run["is_flagged"] for run in runs),
            "largest_p_value": max(run["p_value"] for run in runs),
            "least_p_value": min(run["p_value"] for run in runs),
        }  # fmt: skip
        rows.append(row)
        middle, least, most = row["lower"]
        record, above = ("", "") if by_person else (f"{row['record']:.2f}", row["above_record"])
        lines.append(
            f"| {training} | {fault} | {epsilon:g} | {record} | {row['person']:.2f} "
            f"| {middle:.2f} ({least:.2f} – {most:.2f}) | {above} | {row['above_person']} "
            f"| {row['num_flagged']} of {num} |"
        )  # fmt: skip
    return rows, "\n".join(lines)


def measure_people(runs: int, num_people: int, processes: int, out: Path) -> None:
    """Measures the game on people, writes the results and prints the table."""
    with ProcessPoolExecutor(processes) as pool:
        found = list(pool.map(person_audited, person_jobs(runs, num_people)))
    rows, table = person_table(found)
    seconds = round(sum(one["seconds"] for one in found))
    facts = {
        "num_people": num_people,
        "num_records": RECORDS_EACH,
        "delta": DELTA,
        "rate": RATE,
        "cpu_seconds": seconds,
    }
    out.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
    print(table, f"\n{seconds} CPU seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="rounds: runs of each fault at each epsilon")
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further round after these")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--methods", nargs="+", choices=(*FULL, *FEWER), default=(*FULL, *FEWER))
    parser.add_argument("--faults", nargs="+", choices=ALL, default=tuple(ALL))
    parser.add_argument("--person", action="store_true", help="made-up people with 16 records each")
    parser.add_argument("--people", type=int, default=1_250, help="number of people with --person")
    arguments = parser.parse_args()
    if arguments.person:
        out = RESULTS.with_name("audit_power_person.json") if arguments.out == RESULTS else arguments.out
        return measure_people(arguments.runs, arguments.people, arguments.processes, out)
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
