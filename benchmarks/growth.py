"""The growth of each stage's time and memory with ten times the text, and Prefect's share of a run.

    python benchmarks/growth.py [--dialogues 1500 15000] [--partition-documents 250] [--stages split redact …]
                                [--prefect] [--work build/growth] [--out FILE]
    python benchmarks/growth.py --copies 1 10 100 …

CustomerSim dialogues, as `reticent simulate customersim` writes them, go through the preparation, stage by stage: each
stage in a process of its own that has built the same stage of a few dialogues before, so that imports, models and
compiled code are there. Its seconds are those of `Builder.build_stage` with one worker; memory is the peak of the
process, and how far that lies above what the process held before; bytes are those of the stage's artifacts. ``scan``
is what a run does before its first stage: it reads and cuts the input.

``--prefect`` runs the preparation of the largest corpus once more in a new store, as a flow on the embedded server:
Prefect's share is the time of the flow beyond its stages. ``--copies`` measures deduplication on more sentences than
can be split in an hour: on altered copies of the sentences of 15,000 dialogues, a partition each
(`benchmarks/growth_copies.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from common import command_line, cpu_seconds, peak_bytes, read_json, run_for_json, write_json
from growth_copies import copy_instead_of_splitting, input_bytes, write_copies
from patched import SOURCE

from flows.running.lifecycle import finish, running
from flows.running.spec import PREPARATION, begin
from pipelines.corpus.customersim import write_customersim
from pipelines.graph import GRAPH
from pipelines.store.objects.session import open_session
from pipelines.store.place.outcome import PartitionKeys
from pipelines.walks import default_stages
from tasks.builders import builder_of

SETTINGS = """
[run]
seed = 1
[store]
secret_file = "secret"
[corpus]
inputs = ["corpus"]
partition_documents = {partition_documents}
[redact]
policies = ["customersim", "high_entity"]
conservative = "conservative"
[runtime]
verify = "size"
"""
WARM_DIALOGUES = 12
COPIED_DIALOGUES = 15_000
DEDUP = ("dedup_keys", "dedup_buckets", "dedup_resolve", "dedup_mask")
FLOW = (
    f"{SOURCE}\n"
    + """
import json, sys, time
from pathlib import Path
from tasks.builders import Builder
import tasks.builders

inside = [0.0, 0]
build_stage = Builder.build_stage
def timed(*args, **kwargs):
    began = time.perf_counter()
    try:
        return build_stage(*args, **kwargs)
    finally:
        inside[0] += time.perf_counter() - began
        inside[1] += 1
patch_for_process(Builder, "build_stage", timed)
began = time.perf_counter()
from flows.server.embedded import protect_server
from flows.running.spec import PREPARATION, begin
config = Path(sys.argv[1])
protect_server()
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from flows.prepare import prepare
started = time.perf_counter()
run = begin(config, {}, selected=PREPARATION)
scanned = time.perf_counter()
with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
    prepare(run)
ended = time.perf_counter()
print(json.dumps({"import_seconds": started - began, "scan_seconds": scanned - started,
                  "flow_seconds": ended - scanned, "stage_seconds": inside[0], "num_task_runs": inside[1]}))
"""
)


def write_project(folder: Path, dialogues: int, partition_documents: int) -> Path:
    """Writes a settings file with its corpus, unless they are there."""
    if (folder / "reticent.toml").exists():
        return folder / "reticent.toml"
    folder.mkdir(parents=True)
    write_customersim(folder / "corpus", dialogues, 0)
    (folder / "secret").write_text("5e" * 32)
    config = folder / "reticent.toml"
    config.write_text(SETTINGS.format(partition_documents=partition_documents))
    return config


def build(config: Path, stages: Sequence[str]) -> dict[str, float]:
    """Builds stages in this process, in the graph's order, and returns the figures of the last one and of the scan."""
    began = time.perf_counter()
    run = begin(config, {}, selected=stages)
    found = {"scan_seconds": time.perf_counter() - began}
    session = open_session(run)
    keys: dict[str, PartitionKeys] = {}
    with running(run):
        for name in stages:
            found["before_bytes"] = peak_bytes()
            began, cpu = time.perf_counter(), cpu_seconds()
            outcomes = builder_of(run).build_stage(name, keys)
            found |= {"seconds": time.perf_counter() - began, "cpu_seconds": cpu_seconds() - cpu}
            keys[name] = tuple((outcome.partition, outcome.key or "") for outcome in outcomes)
            session.outcomes.extend(outcomes)
        found["peak_bytes"] = peak_bytes()
        found["num_built"] = sum(outcome.state == "completed" for outcome in outcomes)
        folders = [session.roots.object_dir(root, name, o.key or "") for root in GRAPH[name].roots for o in outcomes]
        found["bytes"] = sum(f.stat().st_size for folder in folders for f in folder.rglob("*") if f.is_file())
        if (figure := {"gate": "num_strings", "dedup_resolve": "num_duplicates"}.get(name)) is not None:
            figures = session.roots.object_dir("private", name, outcomes[0].key or "") / "figures.json"
            found[figure] = read_json(figures)[figure]
        finish(run)
    return found


def in_a_process(*arguments: str) -> dict[str, float]:
    """Returns the figures that a Python process prints in its last line."""
    variables = {"OMP_NUM_THREADS": "1", "DO_NOT_TRACK": "1", "ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}
    variables |= {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_LOGGING_LEVEL": "CRITICAL"}
    return run_for_json([sys.executable, *arguments], **variables, PREFECT_SERVER_LOGGING_LEVEL="CRITICAL")


def num_sentences(config: Path) -> int:
    """Counts the rows that the stage split made."""
    files = (config.parent / "reticent-store" / "private" / "objects" / "split").glob("*/sentences.parquet")
    return sum(pq.read_metadata(file).num_rows for file in files)


def measure(config: Path, warm: Path, stages: Sequence[str], wanted: Sequence[str]) -> dict[str, dict[str, float]]:
    """Builds stages, each in a process of its own, and returns the figures of those wanted."""
    found = {}
    for number, name in enumerate(stages):
        figures = in_a_process(__file__, "--one", name, str(warm), str(config))
        if number == 0 and name == "split":
            found["scan"] = {"seconds": figures.pop("scan_seconds")}
        if name in wanted:
            found[name] = figures
            print(f"{config.parent.name} {name}: {figures}", file=sys.stderr, flush=True)
    return found


def table(document: dict[str, Any]) -> str:
    """Returns a table of the figures of all sizes, with the factors of time for ten times the text."""
    sizes = document["sizes"]
    counts = [size["sentences"] for size in sizes]
    titles = [f"CPU s, {counts[0]:,}", *(f"{count:,}" for count in counts[1:-1]), f"{counts[-1]:,} sentences"]
    titles += ["×"] * (len(sizes) - 1) + ["s, largest"] + ["peak MB"] * len(sizes) + ["bytes a sentence"]
    lines = [f"| stage | {' | '.join(titles)} |", f"|---|{'---:|' * len(titles)}"]
    for name in (name for name in sizes[0]["stages"] if name != "scan"):
        found = [size["stages"][name] for size in sizes]
        seconds = [figures["cpu_seconds"] for figures in found]
        cells = [f"{each:.2f}" for each in seconds]
        cells += [f"{ten_times(*pair):.1f}" for pair in pairwise(zip(counts, seconds, strict=True))]
        cells += [f"{found[-1]['seconds']:.1f}", *(f"{figures['peak_bytes'] / 1e6:.0f}" for figures in found)]
        lines.append(f"| {name} | {' | '.join(cells)} | {found[-1]['bytes'] / counts[-1]:.1f} |")
    if "prefect" in document:
        flow = document["prefect"]
        lines += ["", f"Prefect: {flow['share']:.1%} of {flow['flow_seconds']:.0f} s, {flow['num_task_runs']} tasks."]
    return "\n".join(lines)


def ten_times(small: tuple[int, float], large: tuple[int, float]) -> float:
    """Returns the factor of time for ten times the text, from (sentences, seconds) of two sizes."""
    return float(10 ** (math.log(large[1] / small[1]) / math.log(large[0] / small[0])))


def main() -> None:
    parser = command_line(__doc__, work="build/growth", out="")
    parser.add_argument("--dialogues", type=int, nargs="+", default=[1_500, 15_000])
    parser.add_argument("--copies", type=int, nargs="+", help="instead of dialogues")
    parser.add_argument("--partition-documents", type=int, default=250)
    parser.add_argument("--stages", nargs="*", default=[], help="those to show; all before them are built as well")
    parser.add_argument("--prefect", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    stages = [name for name in PREPARATION if name in default_stages()]
    if given.one:
        name, warm, config = given.one
        upto = stages[: stages.index(name) + 1]
        build(Path(warm), upto)
        shutil.rmtree(Path(warm).parent / "reticent-store")
        copy_instead_of_splitting(Path(config).parent)
        print(json.dumps(build(Path(config), upto)))
        return
    wanted = given.stages or (DEDUP if given.copies else stages)
    stages = stages[: max(map(stages.index, wanted)) + 1]
    shutil.rmtree(given.work, ignore_errors=True)
    warm = write_project(given.work.absolute() / "warm", WARM_DIALOGUES, 4)
    document: dict[str, Any] = {"sizes": []}
    if given.copies:
        original = write_project(given.work.absolute() / "copied", COPIED_DIALOGUES, given.partition_documents)
        measure(original, warm, ["split"], [])
    for number in given.copies or given.dialogues:
        folder = given.work.absolute() / str(number)
        if given.copies:
            config = write_copies(folder, original.parent, number, SETTINGS)
        else:
            config = write_project(folder, number, given.partition_documents)
        figures = measure(config, warm, stages, wanted)
        size = {"copies" if given.copies else "dialogues": number, "sentences": num_sentences(config)}
        document["sizes"].append({**size, "stages": figures, "input_bytes": input_bytes(folder)})
    if given.prefect:
        shutil.move(config.parent / "reticent-store", config.parent / "built-apart")
        flow = in_a_process("-c", FLOW, str(config))
        document["prefect"] = {**flow, "share": 1 - flow["stage_seconds"] / flow["flow_seconds"]}
    document["load_average"] = os.getloadavg()[2]
    document["num_cpus"] = os.cpu_count()
    print(table(document))
    write_json(given.out, document)


if __name__ == "__main__":
    main()
