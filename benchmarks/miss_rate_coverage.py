"""The simulated coverage of nominal 95 % intervals, as a table and as a figure for the documentation.

    python benchmarks/miss_rate_coverage.py [--repetitions 2000] [--out docs/images/miss-rate-coverage.svg]

Sentences are clusters. Every secret of a sentence is missed with a probability that the sentence shares, so that misses
come together (a beta-binomial with correlation rho inside the sentence). For m, a missed secret is missed with all of
its tokens. Everything is vectorised over repetitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from common import command_line
from scipy import stats

from pipelines.intervals import ClusterSums, korn_graubard_of, korn_graubard_upper_of

RATES = (0.0, 0.001, 0.005, 0.02)
CONFIDENCE = 0.95
REPETITIONS = 2_000
SENTENCES = {"gamma": 1_000, "m": 1_000}
CORRELATION = 0.3
"""Correlation of misses inside a sentence: its secrets share the wording that policies misread."""

_SHARE_WITH_SECRETS = 0.35
_MORE_SECRETS = 0.4
_TOKENS_PER_SECRET = 2.0
_TOKENS_PER_SENTENCE = 18.0


@dataclass(frozen=True)
class Simulated:
    """Many reviews at once.

    Attributes:
        sums: sums of each review.
        truth: rate that was simulated.
        design_effect: design effect of one unit, known because it is measured on a far larger sample.
    """

    sums: ClusterSums
    truth: float
    design_effect: float


def _draw(kind: str, rate: float, shape: tuple[int, int], rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Draws hits, units and worst hits of each sentence; each of ``shape`` (repetitions, sentences)."""
    bears = np.ones(shape, dtype=bool) if kind == "gamma" else rng.random(shape) < _SHARE_WITH_SECRETS
    secrets = np.where(bears, 1 + rng.poisson(_MORE_SECRETS, shape), 0)
    share = _SHARE_WITH_SECRETS * (1 + _MORE_SECRETS) * _TOKENS_PER_SECRET / _TOKENS_PER_SENTENCE
    missed_rate = rate if kind == "gamma" else rate / share
    spread = (1 - CORRELATION) / CORRELATION
    chance = rng.beta(missed_rate * spread, (1 - missed_rate) * spread, shape) if rate else np.zeros(shape)
    missed = rng.binomial(secrets, np.nan_to_num(chance))
    if kind == "gamma":
        return missed, secrets, secrets
    caught_tokens = (secrets - missed) + rng.poisson((_TOKENS_PER_SECRET - 1) * (secrets - missed))
    missed_tokens = missed + rng.poisson((_TOKENS_PER_SECRET - 1) * missed)
    sensitive = caught_tokens + missed_tokens
    # The rest of the sentence does not depend on its secrets, so the expected number of tokens is known.
    tokens = sensitive + rng.negative_binomial(4, 4 / (4 + _TOKENS_PER_SENTENCE * (1 - share)), shape)
    return missed_tokens, tokens, sensitive


def _sums(hits: Any, units: Any, worst: Any) -> ClusterSums:
    able = worst > 0
    number = np.maximum(able.sum(1), 1)
    return ClusterSums(
        clusters=(units > 0).sum(1).astype(float),
        hits=hits.sum(1).astype(float),
        units=units.sum(1).astype(float),
        hits_squared=(hits * hits).sum(1).astype(float),
        hits_by_units=(hits * units).sum(1).astype(float),
        units_squared=(units * units).sum(1).astype(float),
        worst_hits=worst.sum(1) / number,
        worst_units=np.where(able, units, 0).sum(1) / number,
    )


def simulate(kind: str, rate: float, repetitions: int = REPETITIONS, seed: int = 1) -> Simulated:
    """Simulates reviews of ``SENTENCES[kind]`` sentences."""
    rng = np.random.default_rng([seed, round(rate * 1e6), kind == "m"])
    parts = []
    for start in range(0, repetitions, 250):
        shape = (min(250, repetitions - start), SENTENCES[kind])
        parts.append(vars(_sums(*_draw(kind, rate, shape, rng))))
    sums = ClusterSums(**{name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    # At a rate of 0 the design effect is the limit that small rates have.
    hits, units, _ = (a.ravel().astype(float) for a in _draw(kind, rate or 0.001, (40, 25_000), rng))
    ratio = hits.sum() / units.sum()
    variance = np.mean((hits - ratio * units) ** 2) / units.mean() ** 2
    return Simulated(sums, rate, float(units.mean() * variance / (ratio * (1 - ratio))))


def exact(hits: Any, units: Any) -> tuple[Any, Any]:
    """Returns Clopper-Pearson intervals, on arrays."""
    tail = (1 - CONFIDENCE) / 2
    low = np.where(hits > 0, stats.beta.ppf(tail, np.maximum(hits, 1e-9), units - hits + 1), 0.0)
    return low, stats.beta.ppf(1 - tail, hits + 1, units - hits)


def exact_upper(hits: Any, units: Any) -> Any:
    """Returns Clopper-Pearson's one-sided bounds, on arrays."""
    return stats.beta.ppf(CONFIDENCE, hits + 1, units - hits)


def normal(sums: ClusterSums) -> tuple[Any, Any]:
    """Returns the textbook interval p ± 1.96 sqrt(p (1 - p) / n), which no one should use here."""
    ratio = sums.hits / sums.units
    reach = 1.96 * np.sqrt(ratio * (1 - ratio) / sums.units)
    return ratio - reach, ratio + reach


def coverage(interval: tuple[Any, Any], truth: float) -> float:
    """Returns the share of repetitions whose interval holds the truth."""
    return float(np.mean((interval[0] <= truth) & (truth <= interval[1])))


def row(kind: str, rate: float, repetitions: int) -> dict[str, float]:
    """Returns all figures of one simulation."""
    found = simulate(kind, rate, repetitions)
    sums, deff = found.sums, found.design_effect
    recommended, known = korn_graubard_of(sums, CONFIDENCE), exact(sums.hits / deff, sums.units / deff)
    upper = korn_graubard_upper_of(sums, CONFIDENCE)
    return {
        "design_effect": deff,
        "recommended": coverage(recommended, rate),
        "upper_bound": float(np.mean(upper >= rate)),
        "clopper_pearson": coverage(exact(sums.hits, sums.units), rate),
        "normal": coverage(normal(sums), rate),
        "width_ratio": float(np.mean(recommended[1] - recommended[0]) / np.mean(known[1] - known[0])),
        "bound_by_rule_of_three": float(np.mean(upper) / (3 / np.mean(sums.units / deff))),
    }


_SERIES = (
    ("recommended", "recommended (Korn–Graubard)", "#1f5c46"),
    ("clopper_pearson", "Clopper–Pearson, units taken for independent", "#b34700"),
    ("normal", "p ± 1.96 standard errors, likewise", "#59636e"),
)


def svg(rows: dict[tuple[str, float], dict[str, float]]) -> str:
    """Draws the coverages as bars."""
    width, left, top, bar, gap = 760, 120, 60, 13, 22
    parts, y = [], top
    scale = (width - left - 60) / 1.0
    for (kind, rate), values in rows.items():
        parts.append(f'<text x="{left - 10}" y="{y + 25}" text-anchor="end">{kind} = {100 * rate:g} %</text>')
        for name, _, colour in _SERIES:
            value = values[name]
            parts.append(f'<rect x="{left}" y="{y}" width="{value * scale:.1f}" height="{bar - 2}" fill="{colour}"/>')
            parts.append(f'<text x="{left + value * scale + 5:.1f}" y="{y + 10}" font-size="10">{value:.3f}</text>')
            y += bar
        y += gap
    line = left + CONFIDENCE * scale
    parts.append(f'<path d="M{line:.1f} {top - 6}V{y - gap + 6}" stroke="#000" stroke-dasharray="3 3"/>')
    parts.append(f'<text x="{line:.1f}" y="{top - 10}" text-anchor="middle" font-size="11">95 %</text>')
    x = 10
    for _, label, colour in _SERIES:
        parts.append(f'<rect x="{x}" y="10" width="11" height="11" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="20">{label}</text>')
        x += 40 + 6.3 * len(label)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" font-family="sans-serif" font-size="12" '
        f'role="img" aria-label="Coverage of nominal 95 percent intervals">'
        f'<rect width="{width}" height="{y}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def main() -> None:
    parser = command_line(__doc__, out="docs/images/miss-rate-coverage.svg")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    arguments = parser.parse_args()
    rows = {(kind, rate): row(kind, rate, arguments.repetitions) for kind in SENTENCES for rate in RATES}
    names = list(next(iter(rows.values())))
    print("| rate | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|")
    for (kind, rate), values in rows.items():
        print(f"| {kind} = {rate:g} | " + " | ".join(f"{values[name]:.3f}" for name in names) + " |")
    arguments.out.write_text(svg(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
