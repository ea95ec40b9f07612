"""One small finished run, made once for all tests that only look at it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.corpus.customersim import simulate
from pipelines.graph import GRAPH

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from increment import drive, write_project

TRAIN = """
[train]
num_layers = 1
num_heads = 2
embedding_size = 32
context_length = 48
vocab_size = 400
epochs = 1
expected_batch_size = 64
target_epsilon = 3.0
"""
EVERYTHING = tuple(GRAPH)
DOMAINS = ("post", "shop")
_made: dict[str, Path] = {}


def _with_a_secret_that_no_policy_knows(row: dict[str, Any], number: int) -> dict[str, Any]:
    word = f"frobnix{'aeiou'[number]}"
    text = f"{row['text']}\nUSR: it hums like {word}"
    return row | {"text": text, "spans": [*row["spans"], {"start": len(text) - 8, "end": len(text), "label": "SOUND"}]}


def finished_run(factory: pytest.TempPathFactory) -> Path:
    """The settings file of a project of three files, two domains and two unusable rows. Not to be changed."""
    if "config" not in _made:
        folder = factory.mktemp("looked-at") / "project"
        config = write_project(folder, 3, 15)
        for number, path in enumerate(sorted((folder / "corpus").iterdir())):
            rows = [row | {"domain": DOMAINS[number % 2]} for row in simulate(15, number, "AB"[number % 2])]
            rows[0] = _with_a_secret_that_no_policy_knows(rows[0], number)
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with (folder / "corpus" / "night-02.jsonl").open("a") as file:
            file.write("not json\n" + json.dumps({"id": "no-text"}) + "\n")
        text = config.read_text().replace("replicates = 2\nfraction = 0.5", "replicates = 1\nfraction = 1.0")
        config.write_text(text.replace("[corpus]", "[corpus]\nmax_rejected_fraction = 0.2") + TRAIN)
        drive(config, EVERYTHING)
        _made["config"] = config
    return _made["config"]
