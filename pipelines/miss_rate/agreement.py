"""How far reviewers agree on what is sensitive: Cohen's kappa over tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.miss_rate.decisions import Ballot, covered
from pipelines.miss_rate.review_items import Item


def cohens_kappa(both: int, first: int, second: int, total: int) -> float | None:
    """Agreement of two raters beyond chance (Cohen 1960).

    Args:
        both: units that both call sensitive.
        first, second: units that each calls sensitive.
        total: units.

    Returns:
        1 for full agreement, 0 for what chance gives; None where chance alone gives full agreement (no unit, or both
        call everything, or nothing, sensitive), which says nothing.
    """
    if total == 0:
        return None
    agreed = (total - first - second + 2 * both) / total
    by_chance = (first * second + (total - first) * (total - second)) / total**2
    return None if by_chance >= 1 else (agreed - by_chance) / (1 - by_chance)


def agreement(standing: Mapping[str, Ballot], items: Iterable[Item]) -> list[dict[str, Any]]:
    """Cohen's kappa of each pair of reviewers over the tokens of the sentences that both judged.

    Returns:
        A row a pair: ``reviewers``, ``num_sentences``, ``num_tokens``, ``kappa``, ``num_disputed`` (sentences that the
        pair sees differently).
    """
    sums: dict[tuple[str, str], list[int]] = {}
    for item in items:
        judged = standing[item.key].judged if item.key in standing else []
        if len(judged) < 2:
            continue
        tokens = {d.reviewer: _sensitive(item, d.secrets) for d in judged}
        for pair in itertools.combinations(sorted(tokens), 2):
            a, b = tokens[pair[0]], tokens[pair[1]]
            row = sums.setdefault(pair, [0, 0, 0, 0, 0, 0])
            for at, value in enumerate((len(a & b), len(a), len(b), len(item.starts), 1, a != b)):
                row[at] += value
    return [
        {
            "reviewers": list(pair),
            "num_sentences": row[4],
            "num_tokens": row[3],
            "num_disputed": row[5],
            "kappa": cohens_kappa(row[0], row[1], row[2], row[3]),
        }
        for pair, row in sorted(sums.items())
    ]


def _sensitive(item: Item, secrets: Iterable[tuple[Any, ...]]) -> set[int]:
    characters = covered(secrets)
    tokens = zip(item.starts, item.ends, strict=True)
    return {i for i, pair in enumerate(tokens) if not characters.isdisjoint(range(*pair))}
