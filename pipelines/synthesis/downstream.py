"""The use of text: a classifier and a language model that are trained on it, and tried on real text.

Two of them take seconds and no random numbers: logistic regression on words, and an interpolated model of word trigrams
with absolute discounting (Ney, Essen and Kneser 1994). The third is the run's own network
(`pipelines.synthesis.networks`). All see equally many rows of each kind of text, and are tried on the same rows (*train
on synthetic, test on real*: Esteban, Hyland and Raetsch 2017). Private: measured on text that nobody published.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import optimize, sparse, special

from pipelines.attacks.rates import Rate
from pipelines.gate.strings import words_of

MOST_ROWS: Final = 3_000
_FEWEST_ROWS: Final = 20
_TEST: Final = "test"
_MOST_WORDS: Final = 5_000
_PENALTY: Final = 1.0
_DISCOUNT: Final = 0.75
_END: Final = "</s>"
_UNKNOWN: Final = "<unk>"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row to train on, or to be tried on: its text, its class, what it hangs together with, speaker and domain."""

    text: str
    label: str
    cluster: str = ""
    speaker: str | None = None
    domain: str | None = None


Network = Callable[[Mapping[str, Sequence[Row]], Sequence[Row]], dict[str, Any]]
"""What trains a network on rows of each kind, and tries it: `pipelines.synthesis.networks.Trial`."""


def worth(
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    test: Sequence[Mapping[str, Any]],
    *,
    network: Network | None = None,
) -> dict[str, Any] | None:
    """Measures what each kind of text teaches, with 95 % intervals over clusters.

    Args:
        rows: rows by kind, in random order, with ``text``, ``domain``, ``speaker`` and ``cluster``; as many of each are
            trained on. ``real`` says which words there are.
        test: rows of real text that none of them holds.
        network: function that trains a network and tries it; None leaves that out.

    Returns:
        ``num_train_rows`` (of each kind), ``num_test_rows``; ``classifier_of``: ``domain``, ``speaker`` where there is
        one domain, None where there is one of each; ``accuracy`` of it, None without, and ``perplexity`` (a word), each
        by kind; ``network``, what it gives, or None. None with too few rows.
    """
    by = next((name for name in ("domain", "speaker") if len({row[name] for row in rows["real"]} - {None}) > 1), None)
    labelled = {
        name: [
            Row(
                text=row["text"],
                label=row[by] if by else "",
                cluster=row["cluster"],
                speaker=row["speaker"],
                domain=row["domain"],
            )
            for row in found
            if row["text"].strip() and (by is None or row[by])
        ]
        for name, found in {**rows, _TEST: test}.items()
    }
    tried = labelled.pop(_TEST)
    size = min(map(len, labelled.values()))
    if size < _FEWEST_ROWS or len(tried) < _FEWEST_ROWS:
        return None
    kinds = {name: found[:size] for name, found in labelled.items()}
    vocabulary = frozenset(word for row in kinds["real"] for word in words_of(row.text))
    return {
        "num_train_rows": size,
        "num_test_rows": len(tried),
        "classifier_of": by,
        "accuracy": {name: classified(found, tried).document() for name, found in kinds.items()} if by else None,
        "perplexity": {name: perplexity(found, tried, vocabulary) for name, found in kinds.items()},
        "network": network(kinds, tried) if network else None,
    }


def classified(train: Sequence[Row], test: Sequence[Row]) -> Rate:
    """Returns the share of test rows whose class is predicted rightly, with an interval over clusters."""
    classes = sorted({row.label for row in test})
    known = [word for word, _ in Counter(w for row in train for w in set(words_of(row.text))).most_common(_MOST_WORDS)]
    columns = {word: at + 1 for at, word in enumerate(known)}
    labels = np.array([classes.index(row.label) for row in train if row.label in classes])
    table = _presence([row for row in train if row.label in classes], columns)
    weights = _fit(table, labels, len(classes))
    told = np.asarray(_presence(test, columns) @ weights).argmax(axis=1)
    hits = [classes[at] == row.label for at, row in zip(told, test, strict=True)]
    return Rate.clustered(hits, [row.cluster for row in test], 0.95)


def _presence(rows: Sequence[Row], columns: Mapping[str, int]) -> Any:
    cells = [(at, columns[w]) for at, row in enumerate(rows) for w in set(words_of(row.text)) if w in columns]
    cells += [(at, 0) for at in range(len(rows))]
    lines, places = zip(*cells, strict=True)
    return sparse.csr_array((np.ones(len(cells)), (lines, places)), shape=(len(rows), len(columns) + 1))


def _fit(table: Any, labels: Any, num_classes: int) -> Any:
    wanted = np.eye(num_classes)[labels]
    shape = (table.shape[1], num_classes)

    def loss(flat: Any) -> tuple[float, Any]:
        weights = flat.reshape(shape)
        logits = np.asarray(table @ weights)
        value = float((special.logsumexp(logits, axis=1) - (logits * wanted).sum(axis=1)).sum())
        slope = table.T @ (special.softmax(logits, axis=1) - wanted) + _PENALTY * weights
        return value + _PENALTY * float((weights**2).sum()) / 2, np.asarray(slope).ravel()

    found = optimize.minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return found.x.reshape(shape)


class Trigrams:
    """A language model of words.

    Args:
        texts: texts that it is trained on.
        vocabulary: all words that it knows; others are one word.
    """

    def __init__(self, texts: Sequence[str], vocabulary: frozenset[str]) -> None:
        self._vocabulary = vocabulary
        self._counts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for text in texts:
            words = ["", "", *self.words(text)]
            for at in range(2, len(words)):
                for size in range(3):
                    self._counts[tuple(words[at - size : at])][words[at]] += 1

    def words(self, text: str) -> list[str]:
        """Returns a text as the model reads it, with its end."""
        return [*(word if word in self._vocabulary else _UNKNOWN for word in words_of(text)), _END]

    def _probability(self, before: tuple[str, ...], word: str) -> float:
        shorter = self._probability(before[1:], word) if before else 1 / (len(self._vocabulary) + 2)
        counts = self._counts.get(before)
        if not counts:
            return shorter
        kept = max(counts[word] - _DISCOUNT, 0) / counts.total()
        return kept + _DISCOUNT * len(counts) / counts.total() * shorter

    def loss(self, text: str) -> tuple[float, int]:
        """Returns the nats of a text and its number of words, the end among them."""
        words = ["", "", *self.words(text)]
        nats = (-math.log(self._probability((words[at - 2], words[at - 1]), words[at])) for at in range(2, len(words)))
        return sum(nats), len(words) - 2


def perplexity(train: Sequence[Row], test: Sequence[Row], vocabulary: frozenset[str]) -> dict[str, Any]:
    """Returns the perplexity a word of test rows for trigrams of others, with an interval as of `perplexity_of`."""
    model = Trigrams([row.text for row in train], vocabulary)
    return perplexity_of(test, [model.loss(row.text) for row in test])


def perplexity_of(test: Sequence[Row], losses: Sequence[tuple[float, int]], seed: int = 0) -> dict[str, Any]:
    """Returns the perplexity a word, with a bootstrap interval over clusters (percentiles of 1,000 draws).

    Args:
        test: the rows.
        losses: nats and words of each row.
        seed: seed of the bootstrap.

    Returns:
        ``value``, ``low`` and ``high`` (95 %).
    """
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row, (nats, num) in zip(test, losses, strict=True):
        sums[row.cluster][0] += nats
        sums[row.cluster][1] += num
    totals = np.array([sums[name] for name in sorted(sums)])
    draws = np.random.default_rng(seed).integers(len(totals), size=(1_000, len(totals)))
    drawn = totals[draws].sum(axis=1)
    low, high = np.exp(np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])).tolist()
    return {"value": float(np.exp(totals[:, 0].sum() / totals[:, 1].sum())), "low": low, "high": high}
