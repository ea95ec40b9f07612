"""What a person costs: perplexity by the unit that is sampled, beside the epsilon of a person. See docs/groups.md.

    OMP_NUM_THREADS=1 python benchmarks/owners.py [--dialogues 2400] [--seeds 3] [--work build/owners]

Customers of the built-in simulator call several times, and a few of them very often. Their own turns are the corpus. A
small GPT-2 that learnt from dialogues of other templates, as public text, goes on learning from them with the
pipeline's own stages. Every training takes about as many steps as one pass over all turns has, and reads about the same
number of turns in each, so only the unit differs.
Each finished training is kept in the work folder, so the command may be stopped and given again. Writes
results/owners.json, docs/images/people-cost.svg and the table between its marks in docs/groups.md.
"""

from __future__ import annotations

import math
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
from increment import drive, drive_begun
from reproduce.base import END
from reproduce.drawings import COLOURS, canvas, text, ticks

from flows.docs.tables import page as with_table
from flows.running.spec import PREPARATION, make_spec, open_store, read_corpus
from pipelines.accounting.people import figures_of, people_of, sizes_of
from pipelines.accounting.events import from_json
from pipelines.corpus.customersim import simulate
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs
from pipelines.store.objects.session import child_of, make_session, save_spec

TURNS: Final = 64
"""Turns that an average step reads."""
DIALOGUE: Final = 5.5
"""Mean number of a customer's turns in a dialogue."""
EPSILONS: Final = (3.0, 8.0)
DELTA: Final = 1e-5
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
        unit: what a step samples: ``sentence``, ``dialogue`` or ``owner``.
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
        settings = load_settings(config, {})
        self._people: dict[tuple[str, float | None], list[dict[str, Any]]] = {}
        self._roots = open_store(settings)
        self._spec = make_spec(settings, read_corpus(settings, self._roots, read=True))
        keys = [str(outcome.key) for outcome in outcomes if outcome.stage == "split"]
        files = [self._roots.object_dir("private", "split", key) / "documents.parquet" for key in keys]
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
        own = {"expected_batch_size": row.batch, "public_batch_size": row.batch, "epochs": epochs}
        changes = {"repetition": repetition, **own, **row.settings, "target_epsilon": epsilon or 3.0}
        spec = child_of(self._spec, runs.new_run_id(), purpose="comparison", changes={"train": changes})
        keys = {outcome.stage: str(outcome.key) for outcome in drive_begun(str(save_spec(make_session(spec))))}

        def read(stage: str, file: str) -> dict[str, Any]:
            found: dict[str, Any] = self._roots.private_files(stage, keys[stage]).find_json(file) or {}
            return found

        figures = read("train", "figures.json") | read("evaluate", "figures.json")
        names = ("perplexity", "perplexity_at_initialisation", "num_steps", "noise_multiplier", "sample_rate")
        found = {"name": row.name, "epsilon": epsilon, "repetition": repetition, "epochs": epochs}
        found |= {name: figures.get(name) for name in names} | {"cpu_seconds": round(cpu_seconds() - started, 1)}
        if row.is_noised:
            found["person"] = self._person(row, epsilon, read("train", "events.json")["event"])
        return found

    def _person(self, row: Row, epsilon: float | None, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the epsilons of people, which repetitions share."""
        if (row.name, epsilon) not in self._people:
            records = self.records[row.settings.get("record", "sentence")]
            sizes = sizes_of(people_of("field", records, has_assumed=False))
            found = figures_of(from_json(event), DELTA, sizes, by_owner=row.unit == "owner")
            self._people[row.name, epsilon] = found
        return self._people[row.name, epsilon]


def main() -> None:
    """Trains what is not yet trained."""
    parser = command_line(__doc__, work="build/owners")
    parser.add_argument("--dialogues", type=int, default=2_400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    args = parser.parse_args()
    folder = (args.work / str(args.dialogues)).absolute()
    started = cpu_seconds()
    trainings = Trainings(prepare(folder, args.dialogues))
    print(f"prepared: {cpu_seconds() - started:.0f} s", trainings.sizes, flush=True)
    known = folder / "cells.jsonl"
    done = {(cell["name"], cell["epsilon"], cell["repetition"]) for cell in read_lines(known)}
    for repetition in range(args.first_seed, args.seeds):
        for row in ROWS:
            for epsilon in EPSILONS if row.is_noised else (None,):
                if (row.name, epsilon, repetition) not in done:
                    cell = trainings.train(row, epsilon, repetition)
                    append_line(known, cell)
                    print(cell, flush=True)


if __name__ == "__main__":
    main()
