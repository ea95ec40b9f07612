"""The preparation of night 2, with one more file, against night 1: its time, and a check of its bytes.

    python benchmarks/increment.py [--files 20] [--dialogues 50] [--new last|first|middle]

Night 1 prepares all files but one, night 2 all of them, and a second store with the same secret all of them from
scratch. Runs in this process, without Prefect, after one warm-up that loads the language model. Prints one JSON
document; exits with 1 if night 2's bytes differ from the run from scratch.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from flows.running.lifecycle import finish, running
from flows.running.spec import PREPARATION, begin
from pipelines.corpus.customersim import simulate
from pipelines.store.objects.session import open_session
from pipelines.store.place.outcome import Outcome, PartitionKeys
from tasks.builders import builder_of

SETTINGS = """
[store]
secret_file = "secret"
[corpus]
inputs = ["corpus"]
partition_documents = {partition_documents}
[redact]
policies = {policies}
{conservative}
[sample]
replicates = 2
fraction = 0.5
"""


def write_project(
    folder: Path,
    num_files: int,
    dialogues: int,
    *,
    policies: tuple[str, ...] = ("customersim", "high_entity"),
    conservative: str | None = "conservative",
) -> Path:
    """Writes a settings file and ``corpus/night-00.jsonl`` …; a file is as long as a partition may be."""
    folder.mkdir(parents=True)
    (folder / "corpus").mkdir()
    rows = simulate(num_files * dialogues, 0)
    for number in range(num_files):
        lines = "".join(json.dumps(next(rows), ensure_ascii=False) + "\n" for _ in range(dialogues))
        (folder / "corpus" / f"night-{number:02d}.jsonl").write_text(lines, encoding="utf-8")
    (folder / "secret").write_text("5e" * 32)
    config = folder / "reticent.toml"
    config.write_text(
        SETTINGS.format(
            partition_documents=dialogues,
            policies=json.dumps(policies),
            conservative="" if conservative is None else f"conservative = {json.dumps(conservative)}",
        )
    )
    return config


def drive(
    config: Path, stages: tuple[str, ...] = PREPARATION, forced: tuple[str, ...] = (), **environment: str
) -> list[Outcome]:
    """Runs stages in the graph's order, without an orchestrator, and records the run."""
    return drive_begun(begin(config, {**os.environ, **environment}, selected=stages, forced=forced))


def drive_begun(run: str) -> list[Outcome]:
    """Runs the stages of a run that has begun, given by its specification."""
    session = open_session(run)
    stages = session.spec.selected
    keys: dict[str, PartitionKeys] = {}
    with running(run):
        for name in stages:
            outcomes = builder_of(run).build_stage(name, keys)
            keys[name] = tuple((outcome.partition, outcome.key or "") for outcome in outcomes)
            session.outcomes.extend(outcomes)
        finish(run)
    return list(session.outcomes)


def built(outcomes: list[Outcome]) -> dict[str, set[str | None]]:
    """Returns the partitions that each stage built."""
    found: dict[str, set[str | None]] = {}
    for outcome in outcomes:
        if outcome.state == "completed":
            found.setdefault(outcome.stage, set()).add(outcome.partition)
    return found


def contents(config: Path, outcomes: list[Outcome], root: str = "reticent-store") -> Mapping[str, bytes]:
    """Returns every data file of a run's partitions, by stage, partition and name."""
    found = {}
    for outcome in outcomes:
        for side in ("private", "public"):
            folder = config.parent / root / side / "objects" / outcome.stage / (outcome.key or "")
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.name != "manifest.json":
                    found[f"{side}/{outcome.stage}/{outcome.partition}/{path.relative_to(folder)}"] = path.read_bytes()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--dialogues", type=int, default=50)
    parser.add_argument("--new", choices=("last", "middle", "first"), default="last", help="Place of the new file.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        drive(write_project(Path(scratch) / "warm-up", 2, 3))
        config = write_project(Path(scratch) / "measured", options.files, options.dialogues)
        number = {"last": options.files - 1, "middle": options.files // 2, "first": 0}[options.new]
        new = config.parent / "corpus" / f"night-{number:02d}.jsonl"
        aside = config.parent / new.name
        new.rename(aside)
        seconds, ran = [], []
        for night in (1, 2):
            if night == 2:
                aside.rename(new)
            started = time.perf_counter()
            outcomes = drive(config)
            seconds.append(time.perf_counter() - started)
            ran.append({stage: len(partitions) for stage, partitions in built(outcomes).items()})
        scratch_run = drive(config, RETICENT__STORE__ROOT="from-scratch")
        equal = contents(config, outcomes) == contents(config, scratch_run, "from-scratch")
    json.dump(
        {
            "files": options.files,
            "dialogues_per_file": options.dialogues,
            "new_file": options.new,
            "night_1_seconds": round(seconds[0], 2),
            "night_2_seconds": round(seconds[1], 2),
            "ratio": round(seconds[1] / seconds[0], 4),
            "night_2_built": ran[1],
            "equal_to_scratch": equal,
        },
        sys.stdout,
        indent=1,
    )
    print()
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
