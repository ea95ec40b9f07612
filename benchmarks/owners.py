"""What a person costs: perplexity by the unit that is sampled, beside the epsilon of a person. See docs/concepts.md.

    OMP_NUM_THREADS=1 python benchmarks/owners.py [--dialogues 1500] [--seeds 3] [--only ROWS] [--work build/owners]

Customers of the built-in simulator call several times, and a few of them very often. Their own turns are the corpus. A
small GPT-2 that learnt from dialogues of other templates, as public text, goes on learning from them with the
pipeline's own stages. Every training takes about as many steps as one pass over all turns has, and reads about the same
number of turns in each, so only the unit differs.
Each finished training is kept in the work folder, so the command may be stopped and given again. Writes
results/owners.json, docs/images/people-cost.svg and the table between its marks in docs/concepts.md.
"""

from __future__ import annotations

import math
import shutil
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

import polars as pl
from common import RESULTS, ROOT, append_line, command_line, cpu_seconds, heading, read_lines, write_json, write_lines
from domains_corpus import write_model
from increment import drive
from reproduce.base import END
from reproduce.drawings import COLOURS, canvas, text, ticks

from flows.docs.tables import page as with_table
from flows.running.spec import PREPARATION, open_store
from pipelines.accounting.events import from_json
from pipelines.accounting.people import figures_of, people_of, sizes_of
from pipelines.corpus.customersim import simulate
from pipelines.settings.loading import load_settings
from pipelines.store.objects.session import default_stages

TURNS: Final = 64
"""Turns that an average step reads."""
DIALOGUE: Final = 5.5
"""Mean number of a customer's turns in a dialogue."""
EPSILONS: Final = (3.0, 8.0)
DELTA: Final = 1e-5
STAGES: Final = tuple(name for name in default_stages() if name not in ("train_utility", "guarantee", "report"))
"""Stages of a training, without those that state claims."""
SETTINGS = """
[corpus]
inputs = ["corpus.jsonl"]
owner_from = "field"
owner_field = "customer_id"
partition_documents = 2500
[split]
mode = "turns"
[redact]
policies = ["digits"]
[gate]
enabled = false
[estimate]
source = "none"
[runtime]
workers = 1
device = "cpu"
microbatch_size = 64
[train]
method = "dpsgd"
model = "{model}"
model_is_public = true
speakers = ["USR"]
context_length = 192
target_delta = {delta}
max_eval_sentences = 300
"""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: name in the table.
        unit: unit that a step samples: ``sentence``, ``dialogue`` or ``owner``.
        batch: units in an average step.
        settings: settings of ``[train]``.
    """

    name: str
    unit: str
    batch: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_noised(self) -> bool:
        """True if the training has an epsilon."""
        return self.settings.get("method") != "no_dp"


DIALOGUES: Final = round(TURNS / DIALOGUE)
ROWS: Final = (
    Row("record: a turn", "sentence", TURNS),
    Row("record: a dialogue", "dialogue", DIALOGUES, {"record": "dialogue"}),
    Row("person: one turn", "owner", TURNS, {"unit": "owner"}),
    Row("person: four turns", "owner", TURNS // 4, {"unit": "owner", "owner_records": 4}),
    Row("person: one dialogue", "owner", DIALOGUES, {"unit": "owner", "record": "dialogue"}),
    Row("no noise, turns", "sentence", TURNS, {"method": "no_dp"}),
    Row("no noise, dialogues", "dialogue", DIALOGUES, {"method": "no_dp", "record": "dialogue"}),
)


def prepare(folder: Path, dialogues: int) -> Path:
    """Writes corpus, public model and settings, and returns the settings file."""
    config = folder / "reticent.toml"
    if not config.exists():
        rows = []
        for row in simulate(dialogues, 0, dialogues_per_customer=2):
            customer = row["customer_id"]
            said = "\n".join(turn for turn in row["text"].splitlines() if turn.startswith("USR: "))
            # The first customers of the simulator call most, and stay in training.
            fold = "test" if int(customer.rpartition("-")[2]) % 10 == 9 else "train"
            rows.append({"id": row["id"], "text": said, "customer_id": customer, "fold": fold})
        write_lines(folder / "corpus.jsonl", rows)
        turns = [turn.partition(": ")[2] for row in simulate(2_000, 1, "B") for turn in row["text"].splitlines()]
        write_model(
            [END + turn for turn in turns], folder / "model", 150, vocabulary=600, length=192, width=48, layers=1
        )
        config.write_text(SETTINGS.format(model=folder / "model", delta=DELTA), encoding="utf-8")
    return config


class Trainings:
    """Trainings on one prepared corpus, and the people in it."""

    def __init__(self, config: Path) -> None:
        outcomes = drive(config, PREPARATION)
        self._config = config
        self.first: dict[tuple[str, float | None], Mapping[str, Any]] = {}
        keys = [str(outcome.key) for outcome in outcomes if outcome.stage == "split"]
        roots = open_store(load_settings(config, {}))
        files = [roots.object_dir("private", "split", key) / "documents.parquet" for key in keys]
        read = pl.read_parquet(files, columns=["owner", "num_sentences", "fold"])
        documents = read.filter(pl.col("fold") == "train")
        turns, talks = Counter[str](), Counter[str]()
        for owner, number in documents.select("owner", "num_sentences").iter_rows():
            turns[owner] += number
            talks[owner] += 1
        self.records = {"sentence": turns, "dialogue": talks}
        self.sizes = {"sentence": turns.total(), "dialogue": talks.total(), "owner": len(turns)}

    def train(self, row: Row, epsilon: float | None, repetition: int) -> dict[str, Any]:
        """Trains one model and returns its figures."""
        started = cpu_seconds()
        steps = self.sizes["sentence"] / TURNS
        epochs = max(1, round(steps * row.batch / self.sizes[row.unit]))
        first = self.first.get((row.name, epsilon))  # repetitions share its noise, and the epsilons of people
        own: dict[str, Any] = {"repetition": repetition, "epochs": epochs, **row.settings}
        if not row.is_noised:
            own |= {"public_batch_size": row.batch}
        elif first is None:
            own |= {"expected_batch_size": row.batch, "target_epsilon": epsilon}
        else:
            own |= {"expected_batch_size": row.batch, "noise_multiplier": first["noise_multiplier"]}
        # A store of its own: a ledger would compose all trainings before each one.
        store = self._config.parent / "store-of-training"
        shutil.rmtree(store, ignore_errors=True)
        environment = {"STORE__ROOT": str(store)} | {f"TRAIN__{name.upper()}": str(own[name]) for name in own}
        environment = {f"RETICENT__{name}": value for name, value in environment.items()}
        keys = {outcome.stage: str(outcome.key) for outcome in drive(self._config, STAGES, **environment)}
        roots = open_store(load_settings(self._config, environment))

        def read(stage: str, file: str) -> dict[str, Any]:
            found: dict[str, Any] = roots.private_files(stage, keys[stage]).find_json(file) or {}
            return found

        figures = read("train", "figures.json") | read("evaluate", "figures.json")
        names = ("perplexity", "perplexity_at_initialisation", "num_steps", "noise_multiplier", "sample_rate")
        found = {"name": row.name, "epsilon": epsilon, "repetition": repetition, "epochs": epochs}
        found |= {name: figures.get(name) for name in names} | {"cpu_seconds": round(cpu_seconds() - started, 1)}
        if row.is_noised and first is not None:
            found["person"] = first["person"]
        elif row.is_noised:
            records = self.records[row.settings.get("record", "sentence")]
            sizes = sizes_of(people_of("field", records, has_assumed=False))
            event = from_json(read("train", "events.json")["event"])
            found["person"] = figures_of(event, DELTA, sizes, by_owner=row.unit == "owner")
        self.first.setdefault((row.name, epsilon), found)
        return found


Cells = Sequence[Mapping[str, Any]]
LIMIT: Final = 1_000.0
"""Right end of the drawing, where a person without a useful limit is."""
WIDTH, HEIGHT, LEFT, TOP = 620, 330, 60, 30


def grouped(cells: Cells) -> list[Cells]:
    """Returns the repetitions of each row, in the order of `ROWS`."""
    found: list[Cells] = []
    for row in ROWS:
        for epsilon in EPSILONS if row.is_noised else (None,):
            same = [cell for cell in cells if (cell["name"], cell["epsilon"]) == (row.name, epsilon)]
            found += [same] if same else []
    return found


def of_person(cell: Mapping[str, Any], whose: str) -> tuple[int, float | None]:
    """Returns the number of records, and the epsilon, of the person with one record, the median or the most."""
    figure = next(figure for figure in cell["person"] if whose in figure["whose"])
    return figure["num_records"], figure["epsilon"]


def markdown(cells: Cells) -> list[str]:
    """Returns the table of docs/concepts.md."""
    titles = (
        "sampled",
        "ε of it",
        "noise multiplier",
        "trainings",
        "perplexity",
        "ε of a person with 1 record",
        "median",
    )
    lines = heading(*titles, "most")
    for same in grouped(cells):
        scores = [cell["perplexity"] for cell in same]
        shown = f"{statistics.fmean(scores):.1f}"
        shown += f" ({min(scores):.1f} – {max(scores):.1f})" if len(scores) > 1 else ""
        first = same[0]
        told = [first["name"], "–", "–", str(len(same)), shown, "–", "–", "–"]
        if first["epsilon"] is not None:
            told[1:3] = [f"{first['epsilon']:g}", f"{first['noise_multiplier']:.2f}"]
            told[5:] = [person_text(*of_person(first, whose), whose) for whose in ("one", "median", "most")]
        lines.append(f"| {' | '.join(told)} |")
    return lines


def person_text(records: int, epsilon: float | None, whose: str) -> str:
    """Returns the epsilon of a person for the table."""
    value = "no useful limit" if epsilon is None else f"{epsilon:.3g}"
    return value if whose == "one" else f"{value} ({records:,})"


def drawn(cells: Cells) -> Element:
    """Draws a line for each row, from the epsilon of a person with one record to that of the one with the most."""
    names = list(dict.fromkeys(same[0]["name"] for same in grouped(cells) if same[0]["epsilon"] is not None))
    picture = canvas(WIDTH, HEIGHT + 96, "perplexity by the epsilon of a person: " + ", ".join(names))
    marks = ticks([cell["perplexity"] for cell in cells])
    right = WIDTH - 20

    def across(epsilon: float | None) -> float:
        share = math.log10(min(epsilon or LIMIT, LIMIT)) / math.log10(LIMIT)
        return round(LEFT + (right - LEFT) * share, 1)

    def level(perplexity: float) -> float:
        return round(HEIGHT - (HEIGHT - TOP) * (perplexity - marks[0]) / (marks[-1] - marks[0]), 1)

    for mark in marks:
        line(picture, LEFT, level(mark), right, level(mark), "#ddd")
        text(picture, LEFT - 6, level(mark) + 4, f"{mark:g}", "end")
    for mark in (1, 3, 8, 30, 100, 300):
        line(picture, across(mark), HEIGHT, across(mark), HEIGHT + 5, "#59636e")
        text(picture, across(mark), HEIGHT + 18, f"{mark:g}", "middle")
    text(picture, right, HEIGHT + 18, "no limit", "end")
    text(
        picture,
        right,
        HEIGHT + 36,
        "ε of a person: from one record (left end) over the median (dot) to the most",
        "end",
    )
    text(picture, 6, 16, "perplexity of held-out text")
    for same in grouped(cells):
        scores = [cell["perplexity"] for cell in same]
        at, first = level(statistics.fmean(scores)), same[0]
        if first["epsilon"] is None:
            line(picture, LEFT, at, right, at, "#59636e", dashes="5 4")
            text(picture, right, at + (13 if first["name"] == ROWS[-2].name else -4), first["name"], "end")
            continue
        number = names.index(first["name"])
        colour = COLOURS[number]
        ends = [across(of_person(first, whose)[1]) for whose in ("one", "median", "most")]
        if ends[0] == ends[2]:  # points side by side, where one would hide another
            ends = [end + 9 * (number - 3) for end in ends]
        line(picture, ends[0], at, ends[2], at, colour, width="2")
        line(picture, ends[1], level(min(scores)), ends[1], level(max(scores)), colour)
        SubElement(picture, "circle", {"cx": f"{ends[1]:g}", "cy": f"{at:g}", "r": "4", "fill": colour})
    for number, name in enumerate(names):
        x, y = LEFT + number % 3 * 180, HEIGHT + 62 + number // 3 * 20
        SubElement(picture, "circle", {"cx": str(x), "cy": str(y - 4), "r": "4", "fill": COLOURS[number]})
        text(picture, x + 9, y, name)
    return picture


def line(
    picture: Element, x1: float, y1: float, x2: float, y2: float, colour: str, *, width: str = "1", dashes: str = "none"
) -> None:
    """Draws a straight line."""
    ends = {name: f"{value:g}" for name, value in (("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2))}
    SubElement(picture, "line", ends | {"stroke": colour, "stroke-width": width, "stroke-dasharray": dashes})


def write(cells: Cells, sizes: Mapping[str, int], seconds: float) -> None:
    """Writes results, drawing and table."""
    ordered = [cell for same in grouped(cells) for cell in same]
    found = {"schema_version": 1, "sizes": dict(sizes), "cpu_seconds": round(seconds), "trainings": ordered}
    write_json(RESULTS / "owners.json", found, sort_keys=True)
    picture = tostring(drawn(cells), encoding="unicode")
    (ROOT / "docs" / "images" / "people-cost.svg").write_text(f"{picture}\n", encoding="utf-8")
    page = ROOT / "docs" / "concepts.md"
    told = "\n".join(markdown(cells))
    page.write_text(
        with_table(page.read_text("utf-8"), "owners", told, "python benchmarks/owners.py"), encoding="utf-8"
    )


def main() -> None:
    """Trains what is not yet trained."""
    parser = command_line(__doc__, work="build/owners")
    parser.add_argument("--dialogues", type=int, default=1_500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", help="names of rows, with semicolons; all if not given")
    args = parser.parse_args()
    folder = (args.work / str(args.dialogues)).absolute()
    started = cpu_seconds()
    trainings = Trainings(prepare(folder, args.dialogues))
    print(f"prepared: {cpu_seconds() - started:.0f} s", trainings.sizes, flush=True)
    chosen = [row for row in ROWS if args.only is None or row.name in args.only.split(";")]
    known = folder / "cells.jsonl"
    for cell in read_lines(known):
        trainings.first.setdefault((cell["name"], cell["epsilon"]), cell)
    done = {(cell["name"], cell["epsilon"], cell["repetition"]) for cell in read_lines(known)}
    for repetition in range(args.seeds):
        for row in chosen:
            for epsilon in EPSILONS if row.is_noised else (None,):
                if (row.name, epsilon, repetition) not in done:
                    cell = trainings.train(row, epsilon, repetition)
                    append_line(known, cell)
                    print(cell, flush=True)
    cells = read_lines(known)
    write(cells, trainings.sizes, sum(cell["cpu_seconds"] for cell in cells))


if __name__ == "__main__":
    main()
