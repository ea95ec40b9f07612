"""Findings of attacks on each training method: exposure, membership, and the cost of misses (CRT, Figure 3).

    nice -n 10 python benchmarks/audit_methods.py --data-dir DATA [--seeds 3] [--work build/audit_methods]

A cell is an audit of one training by the stages of ``reticent audit``, in this process: its canaries and, with one copy
of each, membership attacks on the released model. Corpora are the built-in one and, with ``--data-dir``, paragraphs of
WikiText-2's validation articles. `plan` says which cells there are, all of one seed before the next. A finished cell is
kept in the work folder, so that the command may be stopped and given again. Prints a row a cell, and writes
``results/audit_methods.json`` after each.

What a policy gives away that misses a share γ of the canaries (CRT, Figure 3) follows from one training, by
`pipelines.attacks.miss_rates`: for misses of the policies, and of the conservative policy as well, where half of the
canaries stand among the public rows of `crt`. `audit_plots.py` prints tables and draws the figures.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from common import RESULTS as ALL_RESULTS
from common import command_line, read_json, write_json, write_lines
from data_sets import wikitext

from flows.commands.compare import Variant, without_idle
from flows.commands.init import write_starter
from flows.running.fetching import fetch
from pipelines.attacks.summary import membership_summary
from pipelines.settings.loading import load_settings

RESULTS: Final = ALL_RESULTS / "audit_methods.json"
METHODS: Final = ("no_dp", "crt", "dpsgd", "jft/conservative_light_noise", "jft")
PUBLIC_SHARE: Final = 0.5
TRAINED: Final = ("num_steps", "noise_multiplier", "num_private_records", "num_public_records")
MANY: Final = 100_000
"""Number of candidates if more than 15 bits are expected: n of them show log2 (n + 1) at most."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """An audit.

    Attributes:
        corpus: name of the corpus.
        seed: repetition of the training; its other random choices are fresh.
        method: name of the method, as `Variant.method`.
        copies: number of copies of each canary.
        public_share: share of the canaries beside the detected ones that are among the public rows.
        candidates: number of the 10⁶ candidates that a canary is ranked among.
    """

    corpus: str
    seed: int
    method: str
    copies: int
    public_share: float = 0.0
    candidates: int = 10_000

    @property
    def name(self) -> str:
        share = f"-public{self.public_share:g}" if self.public_share else ""
        return f"{self.corpus}-{self.seed}-{self.method.replace('/', '.')}-{self.copies}{share}"


def plan(corpora: Sequence[str], seeds: int) -> Iterator[Cell]:
    """Yields all cells, seed by seed: 1 and 20 copies on each method, `redacted` and public canaries between."""
    for seed in range(seeds):
        for copies in (20, 1):
            for method in METHODS:
                for corpus in corpora:
                    num = MANY if method == "no_dp" and copies == 20 else Cell.candidates
                    yield Cell(corpus=corpus, seed=seed, method=method, copies=copies, candidates=num)
            if copies == 20:
                for corpus in corpora:
                    yield Cell(corpus=corpus, seed=seed, method="redacted", copies=20)
                    yield Cell(corpus=corpus, seed=seed, method="crt", copies=20, public_share=PUBLIC_SHARE)


def main() -> None:
    parser = command_line(__doc__, data_dir=False, work="build/audit_methods")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dialogues", type=int, default=50)
    parser.add_argument("--paragraphs", type=int, default=80)
    parser.add_argument("--canaries", type=int, default=120)
    parser.add_argument("--set", action="append", default=[], help="TABLE__FIELD=value, for all cells")
    parser.add_argument("--only", default="", help="parts of cells' names, by commas: those cells alone")
    given = parser.parse_args()
    corpora = {"built-in": prepared(given.work / "built-in", [], given.dialogues)}
    if given.data_dir is not None:
        corpora["wikitext2"] = prepared(given.work / "wikitext2", [paragraphs(given)], given.dialogues)
    more = dict(text.split("=", 1) for text in given.set)
    common = {**SETTINGS, **{f"RETICENT__{name}": value for name, value in more.items()}}
    cells = {cell: {**common, **settings_of(cell, given)} for cell in plan(tuple(corpora), given.seeds)}
    folder = given.work / "cells"
    for cell, settings in cells.items():
        if any(part in cell.name for part in given.only.split(",")):
            print(line(kept(folder, cell, settings) or run(folder, cell, corpora[cell.corpus], settings)), flush=True)
            keep([done for c, own in cells.items() if (done := kept(folder, c, own))], vars(given), common)


SETTINGS: Final = {
    "RETICENT__AUDIT__ENABLED": "true",
    "RETICENT__AUDIT__NUM_MEMBERS": "100",
    "RETICENT__RUNTIME__WORKERS": "1",
    "RETICENT__TRAIN__NUM_LAYERS": "1",
    "RETICENT__TRAIN__NUM_HEADS": "2",
    "RETICENT__TRAIN__EMBEDDING_SIZE": "64",
    "RETICENT__TRAIN__VOCAB_SIZE": "1000",
    "RETICENT__TRAIN__EPOCHS": "6",
    "RETICENT__TRAIN__PUBLIC_BATCH_SIZE": "32",
    "RETICENT__TRAIN__PUBLIC_LEARNING_RATE": "0.006",
    "RETICENT__TRAIN__EXPECTED_BATCH_SIZE": "256",
}
"""Settings of every cell, fixed before the first cell ran. `reticent init` writes the others: ε = 3, δ = 10⁻⁵."""


def settings_of(cell: Cell, given: argparse.Namespace) -> dict[str, str]:
    """Returns the settings of one cell, by environment variable."""
    num_public = round(cell.public_share * given.canaries)
    has_detected = cell.method == "redacted" or (cell.method == "crt" and cell.copies > 1)
    return {
        "RETICENT__AUDIT__COPIES": str(cell.copies),
        "RETICENT__AUDIT__CANDIDATES": str(cell.candidates),
        "RETICENT__AUDIT__NUM_CANARIES": str(given.canaries - num_public),
        "RETICENT__AUDIT__NUM_DETECTED_CANARIES": str(given.canaries if has_detected and not num_public else 0),
        "RETICENT__AUDIT__NUM_PUBLIC_CANARIES": str(num_public),
    }


def prepared(folder: Path, inputs: list[str], dialogues: int) -> Path:
    """Returns the settings file of a corpus, which is made once."""
    config = folder / "reticent.toml"
    return config if config.exists() else write_starter(folder, inputs, dialogues=dialogues, seed=0, say=lambda _: None)


def paragraphs(given: argparse.Namespace) -> str:
    """Writes a file of paragraphs of WikiText-2, drawn by a fixed seed, each a document."""
    path: Path = given.work.absolute() / "wikitext2.jsonl"
    found = wikitext(given.data_dir, "valid", min_words=21)
    random.Random("audit").shuffle(found)
    write_lines(path, ({"id": f"{number}", "text": text} for number, text in enumerate(found[: given.paragraphs])))
    return str(path)


def kept(folder: Path, cell: Cell, settings: Mapping[str, str]) -> dict[str, Any] | None:
    """Returns the figures of a cell that ran with the same settings."""
    path = folder / f"{cell.name}.json"
    known = read_json(path) if path.exists() else {}
    return known["figures"] if known.get("settings") == dict(settings) else None


def run(folder: Path, cell: Cell, config: Path, settings: Mapping[str, str]) -> dict[str, Any]:
    started, cpu = time.monotonic(), time.process_time()
    figures = {**asdict(cell), **audited(cell, config, settings)}
    figures |= {"seconds": round(time.monotonic() - started), "cpu_seconds": round(time.process_time() - cpu)}
    write_json(folder / f"{cell.name}.json", {"settings": dict(settings), "figures": figures})
    return figures


def audited(cell: Cell, config: Path, settings: Mapping[str, str]) -> dict[str, Any]:
    """Runs one audit and returns its figures."""
    variant = without_idle(Variant(config, cell.method, cell.seed, settings), os.environ)
    attacks = ("audit_canaries", "audit_membership") if cell.copies == 1 else ("audit_canaries",)
    session, keys = fetch(load_settings(config, {**os.environ, **variant.environment}), "evaluate", *attacks)

    def files(stage: str) -> Any:
        ((_, key),) = keys[stage]
        return session.roots.private_files(stage, key)

    exposure, trained = files("audit_canaries").json("exposure.json"), files("audit_model").json("figures.json")
    evaluated = files("evaluate").json("figures.json")
    attacked = files("audit_membership").json("membership.json") if "audit_membership" in keys else None
    membership = None if attacked is None or "not_attacked" in attacked else membership_summary(attacked)
    return {
        "bits_per_byte": evaluated["bits_per_byte"],
        "perplexity_per_word": evaluated["perplexity_per_word"],
        **{name: trained.get(name) for name in TRAINED},
        "ceiling": exposure["ceiling"],
        "groups": [
            {name: group[name] for name in ("name", "num_canaries", "mean", "maximum", "p_value", "conclusion")}
            for group in exposure["groups"]
        ],
        "best_attack": None if membership is None else membership["best"],
        "any_leak": None if membership is None else membership["any_leak"],
        "roc_of_perplexity": None
        if membership is None or attacked is None
        else thinned(attacked["individual"]["perplexity"]),
        "by_miss_rate": exposure["by_miss_rate"],
    }


def thinned(attack: Mapping[str, Any]) -> list[list[float]]:
    points = attack["evaluation"]["roc"]
    return [[round(x, 4), round(y, 4)] for x, y in points[:: max(1, len(points) // 25)]] + [[1.0, 1.0]]


def line(found: Mapping[str, Any]) -> str:
    groups = {group["name"]: group for group in found["groups"]}
    own = groups["missed, trained on"]
    best = found["best_attack"]
    cells = (
        *(found["corpus"], found["method"], found["copies"], found["seed"], found["public_share"]),
        *(f"{own['mean']:.2f}", f"{own['maximum']:.1f} of {found['ceiling']:.1f}", f"{own['p_value']:.2g}"),
        f"{best['auc']:.2f}" if best else "",
        "no test text" if found["bits_per_byte"] is None else f"{found['bits_per_byte']:.2f} bits a byte",
        f"{found['cpu_seconds']} s of {found['seconds']}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def keep(cells: list[dict[str, Any]], given: Mapping[str, Any], common: Mapping[str, str]) -> None:
    names = ("seeds", "dialogues", "paragraphs", "canaries", "set")
    about = {
        "command": "python benchmarks/audit_methods.py --data-dir DATA",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "arguments": {name: given[name] for name in names},
        "settings_of_all_cells": dict(common),
    }
    write_json(RESULTS, {**about, "cells": cells}, allow_nan=False)


if __name__ == "__main__":
    main()
