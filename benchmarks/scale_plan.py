"""What a corpus of a terabyte takes, from the measured costs of a small one; the tables of `docs/scale.md`.

    python benchmarks/scale_plan.py [--sentences 1e10] [--sentences-in-partition 1e6] [--core-hour 0.05]
                                    [--terabyte-month 80] [--write]

Reads what `benchmarks/growth.py` wrote: `benchmarks/results/growth.json`, and `growth_partitions.json`, which is the
smaller corpus once more in many small partitions; and what `benchmarks/gate_growth.py` wrote. **All that it prints of
more sentences than were measured is extrapolated**: a stage costs so much processor time for each further sentence (the
difference of the two corpora), and so much for each partition (the difference of the smaller one in few and in many of
them). The former holds the partitions of its own corpora as well, so that these are counted twice rather than not at
all. Stages of the whole corpus run in one process. Schedules are simulated (`benchmarks/schedule.py`, seed 0).
``--write`` puts the tables into the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common import RESULTS, ROOT, command_line, heading, read_json
from schedule import CASES, Load, Trouble, simulate

from flows.docs.tables import page as with_table
from pipelines.dedup.bloom import ScalableBloomFilter
from pipelines.dedup.hash_ranges import usual_buckets
from pipelines.dedup.resolve import MARK_BITS
from pipelines.gate.masked_strings import CHUNK_STRINGS, HASHED_STRINGS
from pipelines.graph import GRAPH

PAGE = ROOT / "docs" / "scale.md"
MAKER = "python benchmarks/scale_plan.py --write"
WORKERS = (1, 16, 128, 1024)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A planned corpus with prices: assumptions, which you replace by your own.

    Attributes:
        sentences: number of sentences of the corpus.
        sentences_in_partition: number of sentences that `corpus.partition_documents` puts into a partition.
        core_hour, terabyte_month: prices in dollars of one processor core, and of shared storage.
    """

    sentences: float = 1e10
    sentences_in_partition: float = 1e6
    core_hour: float = 0.05
    terabyte_month: float = 80.0

    @property
    def partitions(self) -> int:
        return max(1, math.ceil(self.sentences / self.sentences_in_partition))


@dataclass(frozen=True)
class Cost:
    """The processor seconds and bytes of one more sentence, and the seconds of one more partition, as measured."""

    sentence: float
    partition: float
    bytes: float


def read() -> dict[str, Any]:
    measured, many, gate = (read_json(RESULTS / f"{n}.json") for n in ("growth", "growth_partitions", "gate_growth"))
    return {**measured, "many_partitions": many["sizes"][0], "gate": gate}


def partitions_of(size: Mapping[str, Any]) -> int:
    return int(size["stages"]["split"]["num_built"])


def reads(stage: str, partitions: int, input_bytes: float) -> int:
    """Counts how often a stage opens a partition: each bucket of `dedup.buckets` reads its part of every partition."""
    return partitions * (usual_buckets(int(input_bytes)) if GRAPH[stage].own_partitions else 1)


def bytes_of(sentences: float, measured: Mapping[str, Any]) -> float:
    """Returns the size of so many sentences as input, if they are like the measured ones."""
    large = measured["sizes"][-1]
    return float(sentences * large["input_bytes"] / large["sentences"])


def costs(measured: Mapping[str, Any]) -> dict[str, Cost]:
    small, large = measured["sizes"][-2:]
    more = large["sentences"] - small["sentences"]
    many = measured["many_partitions"]
    found = {}
    for name, figures in large["stages"].items():
        if name == "scan":
            continue
        grown = {key: figures[key] - small["stages"][name][key] for key in ("cpu_seconds", "bytes")}
        further = many["stages"][name]["cpu_seconds"] - small["stages"][name]["cpu_seconds"]
        few_reads, many_reads = (reads(name, partitions_of(size), size["input_bytes"]) for size in (small, many))
        of_partition = max(0.0, further / (many_reads - few_reads))
        found[name] = Cost(grown["cpu_seconds"] / more, of_partition, grown["bytes"] / more)
    return found


def loads(plan: Plan, measured: Mapping[str, Any]) -> dict[str, Load]:
    """Returns the work of each stage: its partitions, and the seconds of each."""
    found, input_bytes = {}, bytes_of(plan.sentences, measured)
    for name, cost in costs(measured).items():
        seconds = cost.sentence * plan.sentences + cost.partition * reads(name, plan.partitions, input_bytes)
        if name == "gate":
            seconds *= gate_factor(plan.sentences, measured)
        parts = usual_buckets(int(input_bytes)) if GRAPH[name].own_partitions else plan.partitions
        found[name] = Load(parts, seconds / parts) if GRAPH[name].partitioned else Load(1, seconds)
    return found


def gate_passes(sentences: float, measured: Mapping[str, Any]) -> int:
    """Counts how often the gate reads all rows with hashes of strings; 0 if it holds all strings as text.

    The number of strings is assumed to grow with the corpus, as in CustomerSim, whose values are drawn at random.
    """
    large = measured["sizes"][-1]
    strings = large["stages"]["gate"]["num_strings"] / large["sentences"] * sentences
    return math.ceil(strings / HASHED_STRINGS) if strings > CHUNK_STRINGS else 0


def gate_factor(sentences: float, measured: Mapping[str, Any]) -> float:
    """Returns the time of a sentence in the gate over that with all strings as text (`gate_growth.py`)."""
    passes = gate_passes(sentences, measured)
    ways = {way: found["cpu_seconds"] for way, found in measured["gate"]["sizes"][-1]["ways"].items()}
    more = ways["as it is"] + (passes - 1) * (ways["one pass more"] - ways["as it is"])
    return float(more / ways["all at once"]) if passes else 1.0


def filter_bytes(rows: float) -> float:
    """Returns the size of Bloom filter and marks of a bucket with so many distinct rows, at the default rate."""
    bits_an_item = ScalableBloomFilter(10_000_000, 1e-6).num_bits / 1e7
    return rows * (bits_an_item + MARK_BITS) / 8


def hours(seconds: float) -> str:
    """Writes seconds in minutes, hours, or days from two on."""
    value = seconds / 3600
    return f"{value / 24:,.0f} d" if value >= 48 else f"{value:,.1f} h" if value >= 1 else f"{value * 60:.1f} min"


def stage_table(plan: Plan, measured: Mapping[str, Any]) -> list[str]:
    """Returns the cost of each stage, and its time on so many workers."""
    lines = [
        "| stage | µs a sentence | ms a partition | core hours | runs in | "
        + " | ".join(f"{n:,} worker{'s' * (n > 1)}" for n in WORKERS)
        + " |",
        "|---|---:|---:|---:|---|" + "---:|" * len(WORKERS),
    ]
    of_stage = costs(measured)
    for name, load in loads(plan, measured).items():
        where = "one process" if load.partitions == 1 else f"{load.partitions:,} parts"
        if name == "gate":
            where += f", {gate_passes(plan.sentences, measured):,} passes of hashes"
        times = [hours(simulate([load], n, Trouble(), 0).seconds) for n in WORKERS]
        cost = of_stage[name]
        lines.append(
            f"| {GRAPH[name].shown_name} | {1e6 * cost.sentence:,.1f} | {1e3 * cost.partition:,.0f} |"
            f" {load.partitions * load.seconds / 3600:,.0f} | {where} | {' | '.join(times)} |"
        )
    return lines


def size_table(measured: Mapping[str, Any], prices: Plan) -> list[str]:
    """Returns the costs of the preparation for corpora of growing size, with the gate in a column of its own."""
    lines = [
        "| sentences | input | partitions | core hours | 1 worker | 16 workers | 128 workers |"
        " **the gate, one process** | store | dollars: processors | a month's storage |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    large = measured["sizes"][-1]
    input_bytes = large["input_bytes"] / large["sentences"]
    store_bytes = sum(cost.bytes for cost in costs(measured).values())
    for sentences in (1e6, 1e7, 1e8, 1e9, 1e10, 1e12 / input_bytes):
        in_partition = min(prices.sentences_in_partition, max(1e4, sentences / 1000))
        plan = Plan(sentences=sentences, sentences_in_partition=in_partition)
        all_loads = loads(plan, measured)
        gate = all_loads.pop("gate").seconds
        core_seconds = sum(load.partitions * load.seconds for load in all_loads.values())
        walls = [hours(simulate(list(all_loads.values()), n, Trouble(), 0).seconds) for n in (1, 16, 128)]
        lines.append(
            f"| {sentences:,.0f} | {sentences * input_bytes / 1e9:,.4g} GB | {plan.partitions:,} |"
            f" {core_seconds / 3600:,.4g} | {' | '.join(walls)} | {hours(gate)} |"
            f" {sentences * store_bytes / 1e9:,.4g} GB |"
            f" {core_seconds / 3600 * prices.core_hour:,.2f} |"
            f" {sentences * (store_bytes + input_bytes) / 1e12 * prices.terabyte_month:,.2f} |"
        )
    return lines


def schedule_table(plan: Plan, measured: Mapping[str, Any]) -> list[str]:
    """Returns the times of the partition stages under each kind of trouble."""
    workers = (16, 128, 1024)
    parts = [load for load in loads(plan, measured).values() if load.partitions > 1]
    lines = heading("what happens", *(title for n in workers for title in (f"{n:,} workers", "again")), right=True)
    for name, trouble in CASES.items():
        found = [simulate(parts, n, trouble, 0) for n in workers]
        cells = [f"{hours(one.seconds)} | {one.num_lost:,}" for one in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def page(plan: Plan) -> str:
    measured = read()
    bucket = plan.sentences / usual_buckets(int(bytes_of(plan.sentences, measured)))
    parts = [
        f"**{plan.sentences:,.0f} sentences in {plan.partitions:,} partitions, by stage** (extrapolated; a bucket of"
        f" `dedup.buckets` holds {bucket:,.2g} keys, {filter_bytes(bucket) / 1e6:,.0f} MB of filter and marks):",
        *stage_table(plan, measured),
        f"**By size** (extrapolated beyond {measured['sizes'][-1]['sentences']:,} sentences; all columns but its own"
        f" leave the gate out; {plan.core_hour:.2f} dollars a core hour and {plan.terabyte_month:.0f} a terabyte"
        " and month are assumptions):",
        *size_table(measured, plan),
        f"**The partition stages of {plan.sentences:,.0f} sentences, with stragglers and lost workers** (simulated,"
        " seed 0; *again* counts partitions that began anew):",
        *schedule_table(plan, measured),
    ]
    return "\n".join(f"\n{line}\n" if line.startswith("**") else line for line in parts).strip()


def with_block(text: str, block: str) -> str:
    return with_table(text, "scale", f"\n{block}\n", MAKER)


def main() -> None:
    parser = command_line(__doc__)
    for name in ("sentences", "sentences_in_partition", "core_hour", "terabyte_month"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(Plan, name))
    parser.add_argument("--write", action="store_true")
    given = vars(parser.parse_args())
    is_written = given.pop("write")
    block = page(Plan(**given))
    if is_written:
        PAGE.write_text(with_block(PAGE.read_text("utf-8"), block), encoding="utf-8")
    else:
        print(block)


if __name__ == "__main__":
    main()
