"""Names of a run's figures for people, and how each is rounded, on the terminal and in Prefect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from pipelines.numbers import count, percent, real, upper_bound

NO_BOUND: Final = "no bound (see the report)"
_Write = Callable[[Any], str]

FIGURES: Final[Mapping[str, tuple[str, _Write]]] = {
    "num_rejected": ("rows rejected", count),
    "num_sentences": ("sentences", count),
    "duplicates": ("sentences masked as duplicates", count),
    "coverage": ("tokens redacted", percent),
    "num_held": ("rows held back by the gate", count),
    "miss_rate": ("tokens missed (m)", percent),
    "false_negative_rate_upper": ("secrets missed, average (gamma), at most", partial(percent, upper=True)),
    "delta2_upper": ("secrets published, average (delta2), at most", partial(percent, upper=True)),
    "perplexity": ("perplexity of held-out text", partial(real, num_digits=3)),
    "epsilon": ("epsilon of the headline claim", upper_bound),
    "delta": ("delta of the headline claim", upper_bound),
    "epsilon_this_model": ("epsilon of this model alone", upper_bound),
    "num_releases": ("releases that may share records", count),
}
"""The figures that are shown first, in this order."""

_OTHERS: Final[Mapping[str, str]] = {
    "num_documents": "documents",
    "num_tokens": "tokens",
    "num_public": "public rows",
    "num_private": "private rows",
    "miss_rate_upper": "tokens missed, at most",
    "false_negative_rate": "secrets missed",
    "recall": "recall of redaction",
    "precision": "precision of redaction",
    "perplexity_at_initialisation": "perplexity before training",
    "noise_multiplier": "noise multiplier",
    "num_steps": "training steps",
    "epsilon_dp": "epsilon of differential privacy",
}
_SHARES: Final = frozenset({"miss_rate_upper", "false_negative_rate", "recall", "precision"})


def label_of(name: str) -> str:
    """Returns the name of a figure for people."""
    return FIGURES[name][0] if name in FIGURES else _OTHERS.get(name, name.removeprefix("num_").replace("_", " "))


def written(name: str, value: Any) -> str:
    """Returns a figure as text, rounded. A bound is rounded to its safe side, and gamma is always rounded up."""
    if value is None and name in ("epsilon", "delta", "epsilon_this_model", "epsilon_dp"):
        return NO_BOUND
    if name in FIGURES:
        return FIGURES[name][1](value)
    if name in _SHARES:
        return percent(value, upper=name in ("miss_rate_upper", "false_negative_rate"))
    return count(value) if isinstance(value, int) else real(value, 3, upper=name.startswith("epsilon"))


def headlines(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns label and text of the figures that are shown first. With one release, its epsilon is shown once."""
    is_one = metrics.get("num_releases") in (None, 1)
    hidden = ("epsilon_this_model", "num_releases") if is_one else ()
    several = {} if is_one else {"epsilon": "epsilon, all releases on these files"}
    return [
        (several.get(name, label), written(name, metrics[name]))
        for name, (label, _) in FIGURES.items()
        if name in metrics and name not in hidden
    ]
