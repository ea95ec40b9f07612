"""One small finished run, made once for all tests that only look at it."""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path
from typing import Any

from increment import drive, write_project
from support.copies import copied
from support.project import SMALL_MODEL
from support.session import made_once, own

from pipelines.corpus.customersim import simulate
from pipelines.graph import GRAPH
from pipelines.store.place import statcache

TRAIN = f"{SMALL_MODEL}expected_batch_size = 64\ntarget_epsilon = 3.0\n"
EVERYTHING = tuple(GRAPH)
DOMAINS = ("post", "shop")


def _with_odd_secrets(row: dict[str, Any], number: int) -> dict[str, Any]:
    """A dialogue with a secret that no policy knows, and one that is masked because of its neighbours: unstable."""
    text, spans = row["text"], list(row["spans"])
    for line, secret in (
        (f"it hums like frobnix{'aeiou'[number]}", f"frobnix{'aeiou'[number]}"),
        ("The Bank of England met the Bank of Japan in May", "England"),
    ):
        start = len(text) + len("\nUSR: ") + line.index(secret)
        text += f"\nUSR: {line}"
        spans.append({"start": start, "end": start + len(secret), "label": "SOUND"})
    return row | {"text": text, "spans": spans}


@functools.cache
def finished_run() -> Path:
    """Returns the settings file of a project of three files, two domains and two unusable rows. Do not change it.

    Each process has a copy of its own: a command that only looks writes files as well (locks, a trial of the file
    system), and whoever copied the project at that moment would find them half gone.
    """
    made = made_once("looked-at", _run) / "project"
    config = copied(made, own("looked-at")) / "reticent.toml"
    time.sleep(2 * statcache.RACY_NS / 1e9)  # before that, a store does not trust the time stamps of these new files
    return config


def _run(folder: Path) -> None:
    config = write_project(folder / "project", 3, 15)
    for number, path in enumerate(sorted((config.parent / "corpus").iterdir())):
        rows = [row | {"domain": DOMAINS[number % 2]} for row in simulate(15, number, "AB"[number % 2])]
        rows[0] = _with_odd_secrets(rows[0], number)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (config.parent / "corpus" / "night-02.jsonl").open("a") as file:
        file.write("not json\n" + json.dumps({"id": "no-text"}) + "\n")
    text = config.read_text().replace("replicates = 2\nfraction = 0.5", "replicates = 1\nfraction = 1.0")
    config.write_text(text.replace("[corpus]", "[corpus]\nmax_rejected_fraction = 0.2") + TRAIN)
    drive(config, EVERYTHING)
