"""The gate on more masked strings than it holds at once: processor time, memory, and what a further pass costs.

    python benchmarks/gate_growth.py [--sentences 500000 5000000] [--work build/gate-growth] [--out FILE]

Sentences of nine made-up words, a hundred thousand in a partition, seven of ten of them public; one masked string for
four sentences (CustomerSim has as many), names of one and of two words and numbers in groups, drawn at random; one row
in a thousand holds one unmasked. Of each size the stage runs in a process of its own: as it is; with all strings in
memory at once, as it was before it hashed them; and with half as many hashes as there are strings, which takes one more
pass. Equal files of what is held, and of why, are checked first. ``publish`` is the search of one partition's public
table, once the process has read the index.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from common import command_line, peak_bytes, run_for_json, write_json
from patched import set_for_process

from pipelines.artifacts import Artifact, Output
from pipelines.context import Environment, StageContext
from pipelines.gate import masked_strings
from pipelines.gate.files import search_folder
from pipelines.gate.search import Hits
from pipelines.gate.tables import GATE_INDEX, GATE_PLACES, GATE_STRINGS
from pipelines.policies.sharding import PUBLISHED
from pipelines.policies.tables import REDACTED
from pipelines.settings.gate import GateConfig
from pipelines.stages.prepare import gate
from pipelines.tables import TableWriter

IN_PARTITION = 100_000
SYLLABLES = ["ba", "do", "fe", "gi", "ko", "lu", "ma", "ne", "ri", "su", "ta", "vo"]
ROW = {"spans": [], "flagged_by_conservative": False, "num_tokens": 9, "is_duplicate": False, "failed_closed": False}
ROW |= {"speaker": None, "domain": None, "label": None, "fold": "train"}
WAYS = ("as it is", "all at once", "one pass more")


def a_string(draw: random.Random) -> str:
    """Draws a masked string, as it is compared."""
    number = draw.randrange(10**9)
    return (f"q{number}", f"qa{number % 10**5} z{number // 10**5}", f"{number % 1_000} {number}")[draw.randrange(3)]


def write_tables(folder: Path, sentences: int, in_partition: int) -> None:
    """Writes the tables that the gate reads, unless they are there."""
    if folder.exists():
        return
    draw = random.Random(0)
    vocabulary = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(20_000)]
    strings: list[str] = []
    for number in range(sentences // in_partition):
        part = folder / f"p{number:04d}"
        (part / "public").mkdir(parents=True)
        new = [a_string(draw) for _ in range(in_partition // 4)]
        strings += new
        with (
            TableWriter(part / "redacted.parquet", REDACTED) as rows,
            TableWriter(part / "public" / "published.parquet", PUBLISHED) as published,
        ):
            for at in range(in_partition):
                words = draw.choices(vocabulary, k=9)
                is_public = draw.random() < 0.7
                leaks = draw.random() < 0.001
                text = " ".join((*words, draw.choice(strings)) if leaks else words)
                place = {"doc_id": f"{number}-{at // 10}", "sentence_index": at % 10}
                rows.append(**ROW, **place, redacted_text=text, num_masked_tokens=0 if is_public else 1)
                if is_public and not leaks:
                    more = {"speaker": None, "domain": None, "label": None}
                    published.append(row_id=f"{at:032x}", redacted_text=text, num_tokens=9, **more)
        with (
            TableWriter(part / "strings.parquet", GATE_STRINGS) as chosen,
            TableWriter(part / "places.parquet", GATE_PLACES) as places,
        ):
            for string in sorted(set(new)):
                chosen.append(string=string, label="NAME", count=1)
                places.append(string=string, doc_id=f"{number}-0", sentence_index=0)


def measure(folder: Path, way: str, in_partition: int) -> dict[str, Any]:
    """Runs the stage in this process."""
    parts = sorted(folder.glob("p*"))
    num_strings = len(parts) * in_partition // 4
    if way == "all at once":
        set_for_process(masked_strings, "CHUNK_STRINGS", num_strings)
    elif way == "one pass more":
        set_for_process(masked_strings, "HASHED_STRINGS", num_strings // 2)
    out = folder.with_name(f"{folder.name}-out")
    shutil.rmtree(out, ignore_errors=True)
    (out / "scratch").mkdir(parents=True)

    def artifacts(stage: str) -> tuple[Artifact, ...]:
        return tuple(Artifact(stage=stage, partition=part.name, key="", folder=part) for part in parts)

    context = StageContext(
        stage="gate",
        partition=None,
        configs={"gate": GateConfig(max_held_fraction=1)},
        inputs={name: artifacts(name) for name in ("gate_strings", "redact")},
        out=Output(folder=out, scratch_folder=out / "scratch", failures_folder=out / "scratch"),
        run=Environment(processes=1),
    )
    began = time.process_time()
    gate.run(context)
    found: dict[str, Any] = {"cpu_seconds": time.process_time() - began, "peak_bytes": peak_bytes()}
    found["num_strings"] = json.loads((out / "figures.json").read_text())["num_strings"]
    files = [*sorted(out.glob("p*.parquet")), out / "held.parquet", out / "hits.parquet", out / "figures.json"]
    found["digest"] = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    hits = Hits()
    times = []
    for part in (parts[0], parts[0], *parts[:3]):
        began = time.process_time()
        index = Artifact(stage="gate", partition=None, key="", folder=out).table(GATE_INDEX, "index")
        search_folder(part / "public", index, case_sensitive=False, hits=hits)
        times.append(time.process_time() - began)
    if hits.by_label:
        raise AssertionError("a row that is not held holds a string")
    found |= {"index_seconds": times[0] - min(times), "publish_seconds": min(times), "publish_peak_bytes": peak_bytes()}
    return found


def table(document: dict[str, Any]) -> str:
    lines = [
        "| sentences | strings | way | CPU s | µs a sentence | peak MB |"
        " publish: ms a partition | s for the index | peak MB |",
        "|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for size in document["sizes"]:
        for way, found in size["ways"].items():
            lines.append(
                f"| {size['sentences']:,} | {found['num_strings']:,} | {way} | {found['cpu_seconds']:.1f} |"
                f" {1e6 * found['cpu_seconds'] / size['sentences']:.1f} | {found['peak_bytes'] / 1e6:.0f} |"
                f" {1e3 * found['publish_seconds']:.0f} | {found['index_seconds']:.1f} |"
                f" {found['publish_peak_bytes'] / 1e6:.0f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = command_line(__doc__, work="build/gate-growth", out="")
    parser.add_argument("--sentences", type=int, nargs="+", default=[500_000, 5_000_000])
    parser.add_argument("--partition", type=int, default=IN_PARTITION, help="sentences in each")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(Path(given.one[0]), given.one[1], given.partition)))
        return
    document: dict[str, Any] = {"sizes": []}
    for sentences in given.sentences:
        folder = given.work.absolute() / str(sentences)
        write_tables(folder, sentences, given.partition)
        ways = {}
        for way in WAYS:
            own = [sys.executable, __file__, "--partition", str(given.partition), "--one", str(folder), way]
            ways[way] = run_for_json(own)
            print(sentences, way, ways[way], file=sys.stderr, flush=True)
        if len({found.pop("digest") for found in ways.values()}) != 1:
            raise SystemExit("the ways do not agree")
        document["sizes"].append({"sentences": sentences, "ways": ways})
    document["load_average"] = os.getloadavg()[2]
    print(table(document))
    write_json(given.out, document)


if __name__ == "__main__":
    main()
