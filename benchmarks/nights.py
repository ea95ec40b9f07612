"""A simulation of years of nights: one store, a corpus that changes every night, kills, clean-up, and an upgrade.

    python benchmarks/nights.py [--nights 100] [--files 12] [--dialogues 6] [--seed 0] [--before CHECKOUT]
                                [--work build/nights] [--out FILE]

Every night a file is added, edited or removed, and the job runs in a process of its own, without Prefect: up to the
shards, and every tenth night through training to the report. Every third night the process is killed at a moment drawn
at random, and run again; every fifth night `gc` keeps three runs of the whole job, which are thirty nights of the
preparation. With ``--before``, nights of the first half run the code of another checkout, an older one. At the end: are
the bytes of every stage of the preparation those of a new store with the same secret, does the ledger know every
training, is everything whole, and did the disk stay bounded (``mb_after_gc``)? Prints one JSON document and exits with
1 if not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from common import command_line, git, write_json, write_lines
from increment import contents, drive, write_project

from flows.commands.ledger import ledger_document
from flows.running.spec import PREPARATION, open_store
from pipelines.corpus.customersim import simulate
from pipelines.settings.loading import load_settings
from pipelines.store.upkeep.maintenance import gc, verify

TRAIN = """
[train]
num_layers = 1
embedding_size = 16
num_heads = 1
context_length = 64
epochs = 1
expected_batch_size = 32
target_epsilon = 1.0
"""
CODE = """
import sys
from pathlib import Path
from increment import drive
from flows.running.spec import EVERYTHING, PREPARATION
drive(Path(sys.argv[1]), EVERYTHING if sys.argv[2] == "train" else PREPARATION)
"""


def main() -> int:
    parser = command_line(__doc__, work="build/nights", out="")
    parser.add_argument("--nights", type=int, default=100)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--dialogues", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--before", type=Path)
    given = parser.parse_args()
    shutil.rmtree(given.work, ignore_errors=True)
    config = write_project(given.work.absolute(), given.files, given.dialogues)
    config.write_text(config.read_text() + TRAIN)
    began = time.time()
    document = simulate_nights(config, given)
    document |= {"seconds": round(time.time() - began), "load_average": os.getloadavg()[1], **at_the_end(config)}
    document["is_sound"] = (
        document["differing_files"] == 0
        and document["num_damaged"] == 0
        and document["releases_published"] == document["trainings"]
        and document["largest_of_later_half"] <= 1.5 * document["largest_of_first_half"]
    )
    print(write_json(given.out, document))
    return 0 if document["is_sound"] else 1


def simulate_nights(config: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Runs all nights, and returns the events and the size of the store after each clean-up, in bytes."""
    draw = random.Random(given.seed)
    here = Path(__file__).resolve().parents[1]
    done: Counter[str] = Counter()
    sizes = []
    seconds = 5.0
    for night in range(given.nights):
        done[change(config.parent / "corpus", draw, night, given)] += 1
        is_old = given.before is not None and night < given.nights // 2
        code = given.before.absolute() if is_old else here
        trains = night % 10 == 9
        if night % 3 == 2:
            done["kills"] += killed(run(config, code, trains=trains), draw.uniform(0, 1.2 * seconds))
        began = time.monotonic()
        if run(config, code, trains=trains).wait() != 0:
            raise SystemExit(f"night {night} failed")
        if night % 3 != 2:  # what was killed has done a part of the work already
            seconds = time.monotonic() - began
        done["trainings"] += trains
        if night % 5 == 4:
            roots = open_store(load_settings(config, {}))
            gc(roots, keep_runs=3, dry_run=False)
            store = config.parent / "reticent-store"
            sizes.append(sum(path.lstat().st_size for path in store.rglob("*") if path.is_file()))
        print(f"night {night}: {time.monotonic() - began:.1f} s, {dict(done)}", file=sys.stderr, flush=True)
    half = len(sizes) // 2
    return {
        "nights": given.nights,
        **done,
        "upgraded_from": None if given.before is None else git("rev-parse", "--short", "HEAD", folder=given.before),
        "largest_of_first_half": max(sizes[:half], default=0),
        "largest_of_later_half": max(sizes[half:], default=0),
        "mb_after_gc": [round(size / 1e6, 1) for size in sizes],
    }


def change(corpus: Path, draw: random.Random, night: int, given: argparse.Namespace) -> str:
    """Adds, edits or removes one file, so that their number stays about the same."""
    files = sorted(corpus.glob("*.jsonl"))
    kinds = ["edited", "added" if len(files) <= given.files else "removed"]
    kind = draw.choice(kinds)
    if kind == "removed":
        draw.choice(files).unlink()
    elif kind == "added":
        rows = simulate(given.dialogues, 1_000 + night)
        named = (row | {"id": f"{night}-{row['id']}"} for row in rows)
        write_lines(corpus / f"later-{night:04d}.jsonl", named, ensure_ascii=False)
    else:
        path = draw.choice(files)
        lines = path.read_text("utf-8").splitlines()
        (row,) = simulate(1, 100_000 + night)
        at = draw.randrange(len(lines))
        lines[at] = json.dumps(row | {"id": json.loads(lines[at])["id"]}, ensure_ascii=False)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return kind


def run(config: Path, code: Path, *, trains: bool) -> subprocess.Popen[bytes]:
    """Starts one night in a process of its own, by the code of a checkout."""
    path = os.pathsep.join([str(code), str(code / "benchmarks")])
    command = [sys.executable, "-c", CODE, str(config), "train" if trains else "prepare"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, cwd=code, **quiet)  # type: ignore[call-overload, no-any-return]


def killed(process: subprocess.Popen[bytes], after: float) -> bool:
    """Kills a process after some seconds, and tells if it was still running."""
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


def at_the_end(config: Path) -> dict[str, Any]:
    """Compares the store of all nights with a new one with the same secret, on the same text."""
    found = contents(config, drive(config, PREPARATION))
    scratch = {"RETICENT__STORE__ROOT": "scratch-store"}
    expected = contents(config, drive(config, PREPARATION, **scratch), "scratch-store")
    differing = [name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)]
    roots = open_store(load_settings(config, {}))
    ledger = ledger_document(config, {})
    damaged = [checked for checked in verify(roots, repair=False) if checked.problem]
    states = Counter(row["state"] for row in ledger["releases"])
    groups = [group for group in ledger["groups"] if group["num_releases"]]
    return {
        "compared_files": len(expected),
        "differing_files": len(differing),
        "num_damaged": len(damaged),
        "releases_published": states["published"],
        "releases_abandoned": states["abandoned"],
        "composed_epsilon": [group["epsilon"] for group in groups],
    }


if __name__ == "__main__":
    sys.exit(main())
