"""Cells whose figures other benchmarks of this project have measured already, read from their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any, Final

from .results import RESULTS

OTHERS: Final = RESULTS.parent


def _document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((OTHERS / name).read_text("utf-8"))
    return found


def leak_rate(policy: str, model: str) -> dict[str, Any]:
    """Domain privacy: the share of texts that a policy takes for a leak; `domains.py`, prompts of one domain."""
    for found in _document("domains.json")["policies"][policy]["models"]:
        if found["name"] == model:
            rates = [pair["rate"] for pair in found["pairs"]]
            hits, units = (sum(rate[key] for rate in rates) for key in ("num_hits", "num_units"))
            return {"leaks": 100 * hits / units, "perplexity": found["perplexity"]}
    raise KeyError(f"domains.json: no {model}")


def leak_difference(policy: str, first: str, second: str) -> dict[str, Any]:
    """Domain privacy: points by which one model's rate lies above another's, with its interval over conversations."""
    for claim in _document("domains.json")["policies"][policy]["claims"]:
        if (claim["first"], claim["second"]) == (first, second):
            return {name: 100 * claim[name] for name in ("difference", "low", "high")}
    raise KeyError(f"domains.json: no {first} against {second}")


def by_miss_rate(corpus: str, method: str, gamma: float, figure: str) -> dict[str, Any]:
    """CRT, Figures 3 to 5: a figure of canaries at a share γ of misses; seeds of `audit_methods.py`."""
    values = []
    for cell in _document("audit_methods.json")["cells"]:
        if (cell["corpus"], cell["method"], cell["copies"], cell["public_share"]) == (corpus, method, 20, 0.0):
            values += [
                point[figure] for point in cell["by_miss_rate"].get("the policies", ()) if point["rate"] == gamma
            ]
    if not values:
        raise KeyError(f"audit_methods.json: no {corpus}, {method}, {gamma}")
    return {figure: fmean(values), "of_seeds": values}


FUNCTIONS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    function.__name__: function for function in (leak_rate, leak_difference, by_miss_rate)
}
