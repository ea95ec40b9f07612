"""A simulation of the coverage of the upper bound of gamma, in worlds whose misses are spread differently.

    python benchmarks/miss_rate_worlds.py [--repetitions 2000] [--out benchmarks/results/miss_rate_worlds.json]

Each world is a corpus of 100,000 sentences: how long each is, how many of its words hold a capital or a digit, its
secrets, and which are missed. A review of n sentences is drawn by the design of `pipelines.miss_rate.sampling` (simple
random replicates, and a large part of a quarter of their size), and bounded as the stage `estimate` does it. The
old design, n simple random sentences and the Korn-Graubard bound, stands beside it; so does what is printed while the
large part is not reviewed. A width is the mean of the bound; the ratio compares the same number of read sentences.

What flatters the new design: secrets of these lists have capitals or digits, except in the world that says otherwise.
The worlds "short lists without capitals" are beyond what the design can see. They are printed, and no promise is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from common import RESULTS, command_line, write_json

from pipelines.intervals import ClusteredCounts, korn_graubard_upper, ratio_upper
from pipelines.miss_rate.large import Large, Unseen, classes_of_sizes

CONFIDENCE = 0.95
NUM_SENTENCES = 100_000
SAMPLES = (30, 100, 300, 1_000)
LARGE_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class World:
    """A distribution of secrets and misses.

    Attributes:
        rate: share of the secrets of ordinary sentences that is missed.
        correlation: correlation of the misses inside a sentence.
        bearing: share of the sentences that hold a secret.
        lists: share of the sentences that are lists.
        list_secrets: number of secrets of a list.
        list_missed: share of those that is missed.
        has_capitals: true if secrets have capitals or digits.
        is_prose: true if lengths have a long tail, with secrets in proportion.
        is_promised: true if the bound must hold here.
    """

    rate: float = 0.0
    correlation: float = 0.0
    bearing: float = 1.0
    lists: float = 0.0
    list_secrets: int = 30
    list_missed: float = 1.0
    has_capitals: bool = True
    is_prose: bool = False
    is_promised: bool = True


WORLDS = {
    "independent, 0.5 %": World(rate=0.005),
    "independent, 2 %": World(rate=0.02),
    "independent, 10 %": World(rate=0.1),
    "independent, 2 %, secrets in a third of the sentences": World(rate=0.02, bearing=0.35),
    "independent, 2 %, long prose": World(rate=0.02, is_prose=True),
    "clustered, 2 %": World(rate=0.02, correlation=0.3),
    "clustered, 10 %": World(rate=0.1, correlation=0.3),
    "clustered strongly, 2 %": World(rate=0.02, correlation=0.8),
    "lists of 30 missed, 1 % of the sentences": World(lists=0.01),
    "the same, no capitals or digits anywhere": World(lists=0.01, has_capitals=False),
    "the same, secrets in a third of the sentences": World(lists=0.01, bearing=0.35),
    "the same, and 1 % of the others": World(lists=0.01, rate=0.01),
    "the same, half missed": World(lists=0.01, list_missed=0.5),
    "the same, all caught, 2 % of the others": World(lists=0.01, list_missed=0.0, rate=0.02),
    "the same, among long prose": World(lists=0.01, rate=0.02, is_prose=True),
    "lists of 30 missed, 0.3 %": World(lists=0.003),
    "lists of 30 missed, 3 %": World(lists=0.03),
    "lists of 15 missed, 1 %": World(lists=0.01, list_secrets=15),
    "short lists of 10 missed, 2 %": World(lists=0.02, list_secrets=10),
    "short lists without capitals (10, 2 %)": World(lists=0.02, list_secrets=10, has_capitals=False, is_promised=False),
    "short lists without capitals (20, 1 %)": World(lists=0.01, list_secrets=20, has_capitals=False, is_promised=False),
}


@dataclass(frozen=True)
class Corpus:
    """A corpus of a world: tokens, sizes, secrets and missed secrets of each sentence."""

    tokens: Any
    sizes: Any
    secrets: Any
    missed: Any

    @property
    def truth(self) -> float:
        """Returns gamma."""
        return float(self.missed.sum() / self.secrets.sum())


def make(world: World, seed: int = 1) -> Corpus:
    """Makes a corpus of a world."""
    rng, n = np.random.default_rng(seed), NUM_SENTENCES
    if world.is_prose:
        tokens = np.maximum(1, np.round(np.exp(rng.normal(np.log(18) - 0.32, 0.8, n)))).astype(int)
        secrets = np.minimum(tokens, rng.poisson(0.078 * tokens))
    else:
        secrets = np.where(rng.random(n) < world.bearing, 1 + rng.poisson(0.4, n), 0)
        tokens = rng.negative_binomial(4, 4 / 19, n) + 2 * secrets + 1
    is_list = rng.random(n) < world.lists
    secrets = np.where(is_list, world.list_secrets, secrets)
    tokens = np.where(is_list, np.maximum(secrets, np.round(secrets * rng.normal(2.5, 0.25, n))), tokens).astype(int)
    words = 1 + rng.poisson(0.04 * tokens) + rng.binomial(2 * secrets, 0.8)
    words = np.minimum(tokens, words) if world.has_capitals else np.zeros(n, dtype=int)
    chance: Any = world.rate
    if world.correlation:
        spread = (1 - world.correlation) / world.correlation
        chance = rng.beta(world.rate * spread, (1 - world.rate) * spread, n)
    missed = rng.binomial(secrets, np.where(is_list, world.list_missed, chance))
    return Corpus(tokens, tokens + 4 * words, secrets, missed)


def reviews(corpus: Corpus, num_sentences: int, repetitions: int, seed: int = 2) -> dict[str, Any]:
    """Returns bounds of many reviews: ``old``, ``new``, and ``unreviewed`` (the large part was not read)."""
    rng, n = np.random.default_rng([seed, num_sentences]), len(corpus.tokens)
    everything = classes_of_sizes(corpus.sizes, corpus.tokens)
    base = round(num_sentences / (1 + LARGE_SHARE))
    large = everything.draw(num_sentences - base) if everything.classes else everything
    base = num_sentences - large.num_drawn
    number = np.searchsorted([c.above for c in large.classes], corpus.sizes) - 1
    members = [np.flatnonzero(number == h) for h in range(len(large.classes))]
    chances = np.array([*(c.size / c.num_population for c in large.classes), 0.0])[number]
    weights = 1 / (1 - (1 - base / n) * (1 - chances))
    found: dict[str, Any] = {"old": [], "new": [], "unreviewed": []}
    for _ in range(repetitions):
        drawn = rng.choice(n, num_sentences, replace=False, shuffle=False)
        counts = ClusteredCounts.of(corpus.missed[drawn], corpus.secrets[drawn])
        found["old"].append(korn_graubard_upper(counts, CONFIDENCE))
        replicates = drawn[rng.permutation(num_sentences)[:base]]
        more = [rng.choice(m, c.size, replace=False) for m, c in zip(members, large.classes, strict=True)]
        rows = np.unique(np.concatenate([replicates, *more]))
        counts = ClusteredCounts.of(corpus.missed[rows], corpus.secrets[rows], weights=weights[rows])
        found["new"].append(ratio_upper(counts, CONFIDENCE))
        found["unreviewed"].append(_unreviewed(corpus, drawn, number, everything))
    return {name: np.array(values) for name, values in found.items()}


def _unreviewed(corpus: Corpus, rows: Any, number: Any, large: Large) -> float:
    half, is_large = (1 + CONFIDENCE) / 2, number[rows] >= 0
    unseen = Unseen(
        large=large,
        num_population=len(corpus.tokens),
        num_seen=int(is_large.sum()),
        num_missed=int((corpus.missed[rows][is_large] > 0).sum()),
        num_escaped=0,
        num_sentences=len(rows),
    )
    counts = ClusteredCounts.of(corpus.missed[rows], corpus.secrets[rows])
    return min(1.0, ratio_upper(counts, half) + unseen.added("missed", float(corpus.secrets[rows].sum()), half))


def cell(world: World, num_sentences: int, repetitions: int) -> dict[str, float]:
    """Returns coverage and width of each bound."""
    corpus = make(world)
    found = reviews(corpus, num_sentences, repetitions)
    row = {"truth": corpus.truth}
    for name, bounds in found.items():
        row[f"{name}_coverage"] = float(np.mean(bounds >= corpus.truth))
        row[f"{name}_width"] = float(np.mean(bounds))
    row["width_ratio"] = row["new_width"] / row["old_width"]
    return {name: round(value, 4) for name, value in row.items()}


def table(results: dict[str, Any]) -> str:
    """Returns a table of the results: coverage old, new, and the width ratio if the old bound is valid."""
    head = "| world (true γ) | " + " | ".join(f"n = {n:,}" for n in SAMPLES) + " |"
    lines = [head, "|---" * (1 + len(SAMPLES)) + "|"]
    for name, cells in results["worlds"].items():
        truth = next(iter(cells.values()))["truth"]
        parts = []
        for n in SAMPLES:
            row = cells[str(n)]
            ratio = f", ×{row['width_ratio']:.2f}" if row["old_coverage"] >= CONFIDENCE else ""
            parts.append(f"{100 * row['old_coverage']:.0f} → **{100 * row['new_coverage']:.0f}**{ratio}")
        lines.append(f"| {name} ({100 * truth:.1f} %) | " + " | ".join(parts) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = command_line(__doc__, out=RESULTS / "miss_rate_worlds.json")
    parser.add_argument("--repetitions", type=int, default=2_000)
    arguments = parser.parse_args()
    worlds = {name: {str(n): cell(world, n, arguments.repetitions) for n in SAMPLES} for name, world in WORLDS.items()}
    results = {"confidence": CONFIDENCE, "repetitions": arguments.repetitions, "worlds": worlds}
    write_json(arguments.out, results)
    print(table(results))


if __name__ == "__main__":
    main()
