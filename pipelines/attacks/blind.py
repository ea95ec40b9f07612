"""The blind baseline: separates members from non-members by their text alone, without a model.

It finds a difference between the two samples, not a leak. An attack must do better (Das, Zhang and Tramèr 2024, arXiv
2406.16201). It is a logistic regression on the presence of words, and on lengths and shares of capitals and digits.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse, special

FloatArray = npt.NDArray[np.float64]

_WORD: Final = re.compile(r"\w+|[^\w\s]")
_FEWEST_TEXTS: Final = 2
_MOST_WORDS: Final = 5_000
_PENALTY: Final = 1.0  # half the squared weights count as much as that many texts


def blind_scores(
    members: Mapping[str, str], non_members: Mapping[str, str], *, generator: np.random.Generator, num_folds: int = 5
) -> dict[str, float]:
    """Returns scores of texts by identifier, each from a classifier that was fitted without its fold.

    Args:
        members, non_members: texts by identifier.
        generator: generator of the folds, which split members and non-members each evenly.
        num_folds: number of folds, or of members or non-members if there are fewer.

    Raises:
        ValueError: there are fewer than two members or non-members.
    """
    if min(len(members), len(non_members)) < 2:
        raise ValueError("the blind baseline needs two members and two non-members at least")
    names = [*members, *non_members]
    words = [_WORD.findall(text.lower()) for text in (*members.values(), *non_members.values())]
    shapes = np.array([_shape(text) for text in (*members.values(), *non_members.values())])
    labels = np.repeat([1.0, 0.0], [len(members), len(non_members)])
    num = min(num_folds, len(members), len(non_members))
    folds = np.concatenate([generator.permutation(size) % num for size in (len(members), len(non_members))])
    scores = np.zeros(len(names))
    for fold in range(num):
        held_out = folds == fold
        fitted = np.flatnonzero(~held_out)
        counts = Counter(word for row in fitted for word in set(words[row]))
        common = [word for word, count in counts.most_common(_MOST_WORDS) if count >= _FEWEST_TEXTS]
        columns = {word: column for column, word in enumerate(common)}
        centre, spread = shapes[fitted].mean(axis=0), shapes[fitted].std(axis=0)
        scaled = (shapes - centre) / np.where(spread > 0, spread, 1)
        table = sparse.hstack([np.ones((len(names), 1)), scaled, _presence(words, columns)]).tocsr()
        scores[held_out] = table[held_out] @ _fit(table[fitted], labels[fitted])
    return dict(zip(names, scores.tolist(), strict=True))


def _shape(text: str) -> list[float]:
    num = max(len(text), 1)
    return [
        math.log1p(len(text)),
        math.log1p(len(text.split())),
        sum(c.isupper() for c in text) / num,
        sum(c.isdigit() for c in text) / num,
    ]


def _presence(words: Sequence[Sequence[str]], columns: Mapping[str, int]) -> Any:
    """Returns (N, W), 1 for the words of a text."""
    cells = [(row, columns[word]) for row, found in enumerate(words) for word in set(found) if word in columns]
    rows, places = zip(*cells, strict=True) if cells else ((), ())
    return sparse.csr_array((np.ones(len(cells)), (rows, places)), shape=(len(words), len(columns)))


def _fit(table: Any, labels: FloatArray) -> FloatArray:
    """Fits a ridge-penalised logistic regression. The first column is the intercept, without a penalty."""
    signs = 2 * labels - 1
    penalty = np.append(0.0, np.full(table.shape[1] - 1, _PENALTY))

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        margins = signs * (table @ weights)
        slopes = -signs * special.expit(-margins)
        value = float(np.logaddexp(0, -margins).sum() + penalty @ weights**2 / 2)
        return value, table.T @ slopes + penalty * weights

    found = optimize.minimize(loss, np.zeros(table.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    weights: FloatArray = found.x
    return weights
