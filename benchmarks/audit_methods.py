"""What attacks find on each training method: exposure, membership, extraction, and lower bounds on epsilon.

    python benchmarks/audit_methods.py [--methods no_dp,crt,dpsgd,jft] [--copies 1,20] [--seeds 3] [--dialogues 300]
                                       [--candidates 0] [--work build/audit_methods] [--data-dir FOLDER]

Every cell is a whole `reticent audit`, on the built-in corpus, and with ``--data-dir`` on WikiText-2's validation
articles too. What is done is kept in the work folder, so that the command may be stopped and given again. Prints a
table, and writes ``results/audit_methods.json`` after every cell.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.commands.audit import audit_document
from flows.commands.compare import Variant, without_idle
from flows.commands.init import write_starter

RESULTS = Path(__file__).parent / "results" / "audit_methods.json"


def main() -> None:
    """Runs the cells that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="no_dp,crt,dpsgd,jft")
    parser.add_argument("--copies", default="1,20")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dialogues", type=int, default=300)
    parser.add_argument("--candidates", type=int, default=0, help="of an exposure; 0: all that there are")
    parser.add_argument("--canaries", type=int, default=100)
    parser.add_argument("--set", action="append", default=[], help="TABLE__FIELD=value, for all cells")
    parser.add_argument("--work", type=Path, default=Path("build/audit_methods"))
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args()
    corpora = {"built-in": prepared(given.work / "built-in", [], given.dialogues)}
    if given.data_dir is not None:
        articles = given.data_dir / "wikitext2" / "wiki.valid.raw"
        corpora["wikitext2"] = prepared(given.work / "wikitext2", [str(articles)], given.dialogues)
    common = {
        "RETICENT__AUDIT__CANDIDATES": str(given.candidates),
        "RETICENT__AUDIT__NUM_CANARIES": str(given.canaries),
        **{f"RETICENT__{name}": value for name, value in (text.split("=", 1) for text in given.set)},
    }
    cells: list[dict[str, Any]] = []
    for seed in range(given.seeds):
        for name, config in corpora.items():
            for method in given.methods.split(","):
                for copies in given.copies.split(","):
                    own = {**common, "RETICENT__AUDIT__COPIES": copies}
                    cells.append(
                        {"corpus": name, "seed": seed, "copies": int(copies), **cell(config, method, seed, own)}
                    )
                    print(line(cells[-1]), flush=True)
                    keep(cells, vars(given))


def prepared(folder: Path, inputs: list[str], dialogues: int) -> Path:
    """The settings file of a corpus; made once."""
    config = folder / "reticent.toml"
    return config if config.exists() else write_starter(folder, inputs, dialogues=dialogues, seed=0, say=lambda _: None)


def cell(config: Path, method: str, seed: int, settings: Mapping[str, str]) -> dict[str, Any]:
    """One audit's figures."""
    variant = without_idle(Variant(config, method, seed, settings), os.environ)
    found = audit_document(config, {**os.environ, **variant.environment})
    missed = {g["name"]: g for g in found["exposure"]["groups"] if g["variant"] == "missed"}
    own = missed["missed, trained on"]
    lower, best = found["epsilon_lower"], found["membership"]["best"] if found["membership"] else None
    return {
        "method": method,
        "num_canaries": own["num_canaries"],
        "exposure_mean": own["mean"],
        "exposure_max": own["maximum"],
        "ceiling": found["exposure"]["ceiling"],
        "p_value": own["p_value"],
        "conclusion": own["conclusion"],
        "best_attack": None if best is None else best["name"],
        "auc": None if best is None else best["auc"],
        "auc_low": None if best is None else best["low"],
        "auc_high": None if best is None else best["high"],
        "any_leak": None if found["membership"] is None else found["membership"]["any_leak"],
        "extracted": None if found["extraction"] is None else found["extraction"]["num_found_only_by_model"],
        "epsilon_lower": None if lower is None else lower["value"],
        "epsilon_claimed": found["epsilon_claimed"],
    }


def line(found: Mapping[str, Any]) -> str:
    """A row of the table in docs/audit.md."""
    claimed = "none" if found["epsilon_claimed"] is None else f"{found['epsilon_claimed']:.2f}"
    lower = "" if found["epsilon_lower"] is None else f"{found['epsilon_lower']:.2f}"
    auc = "" if found["auc"] is None else f"{found['auc']:.2f} ({found['auc_low']:.2f} to {found['auc_high']:.2f})"
    cells = (
        *(found["corpus"], f"`{found['method']}`", found["copies"], found["seed"], f"{found['exposure_mean']:.2f}"),
        *(f"{found['exposure_max']:.1f} of {found['ceiling']:.1f}", f"{found['p_value']:.2g}", auc, lower, claimed),
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def keep(cells: list[dict[str, Any]], given: Mapping[str, Any]) -> None:
    """Writes what is known so far."""
    RESULTS.parent.mkdir(exist_ok=True)
    about = {"machine": platform.machine(), "cpus": os.cpu_count(), "arguments": {k: str(v) for k, v in given.items()}}
    RESULTS.write_text(json.dumps({**about, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
