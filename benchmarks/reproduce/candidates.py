"""Lists of secrets that the authors of Selective DP published: what a classifier tells of them by their texts alone.

    python -m benchmarks.reproduce.candidates --data-dir DATA

Their attack on single secrets compares secrets of the training text with others. If a list can be told from the other
without a model, the attack's accuracy says nothing of a model. The lists (``DATA/paper_results``) are no part of this
project. Figures of each go to ``benchmarks/results/authors_candidates.json``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # benchmarks import each other by name

from common import RESULTS, command_line

from pipelines.attacks.blind import blind_scores
from pipelines.attacks.membership_evaluation import evaluate

from .authors import FOLDER
from .cache import write_json

FILE: Final = RESULTS / "authors_candidates.json"
LISTS: Final[Mapping[str, str]] = {
    "digits": "wiki",
    "first names": "dialog-first-name",
    "first names kept by the truth": "dialog-pick-names",
}
MOST: Final = 1_000


def told_by_texts(folder: Path) -> dict[str, Any]:
    """Returns figures of a classifier that sees a list's texts alone (``train.txt`` and ``test.txt``)."""
    rng = np.random.default_rng(0)
    kinds = []
    for name in ("train", "test"):
        lines = sorted(set((folder / f"{name}.txt").read_text("utf-8").splitlines()))
        kinds.append({f"{name} {at}": lines[at] for at in rng.permutation(len(lines))[:MOST].tolist()})
    scores = blind_scores(*kinds, generator=rng)
    found = evaluate(*(np.array([scores[name] for name in kind]) for kind in kinds), generator=rng)
    blanks = [100 * sum(text.startswith(" ") for text in kind.values()) / len(kind) for kind in kinds]
    return {
        "num": [len(kind) for kind in kinds],
        "auc": found.auc,
        "auc_interval": found.auc_interval,
        "accuracy_percent": None if found.accuracy is None else 100 * found.accuracy.value,
        "begin_with_a_blank_percent": blanks,
    }


def of_all(data_dir: Path) -> dict[str, Any]:
    """Returns the figures of all lists."""
    folder = data_dir / FOLDER / "selective_candidates"
    return {said: told_by_texts(folder / name) for said, name in LISTS.items()}


if __name__ == "__main__":
    parser = command_line(__doc__, prog="python -m benchmarks.reproduce.candidates", data_dir=True, out=FILE)
    given = parser.parse_args()
    write_json(given.out, of_all(given.data_dir))
