"""Cells whose figures other benchmarks of this project have measured already, read from their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Any, Final

from common import read_json

from .results import RESULTS

OTHERS: Final = RESULTS.parent


def _of_domains(policy: str, variant: str = "") -> list[dict[str, Any]]:
    """Returns the figures of a policy in each training of `domains.py`: domains.json, domains_1.json, …

    Args:
        policy: name of the policy that judges texts.
        variant: end of the names of their files, such as ``_media``.
    """
    names = [f"domains{variant}.json", *sorted(path.name for path in OTHERS.glob(f"domains{variant}_[0-9].json"))]
    return [read_json(OTHERS / name)["policies"][policy] for name in names]


def _only(found: Iterable[dict[str, Any]], **named: str) -> dict[str, Any]:
    """Returns the document with these names."""
    for one in found:
        if all(one[name] == value for name, value in named.items()):
            return one
    raise KeyError(f"domains.json: no {' against '.join(named.values())}")


def leak_rate(policy: str, model: str, variant: str = "") -> dict[str, Any]:
    """Returns the share of texts that a policy takes for a leak (domain privacy; prompts of one domain)."""
    leaks, perplexities = [], []
    for training in _of_domains(policy, variant):
        found = _only(training["models"], name=model)
        rates = [pair["rate"] for pair in found["pairs"]]
        hits, units = (sum(rate[key] for rate in rates) for key in ("num_hits", "num_units"))
        leaks.append(100 * hits / units)
        perplexities.append(found["perplexity"])
    known = [value for value in perplexities if value is not None]
    return {"leaks": fmean(leaks), "of_seeds": leaks, "perplexity": fmean(known) if known else None}


def leak_difference(policy: str, first: str, second: str, variant: str = "") -> dict[str, Any]:
    """Returns the points by which one model's rate is above another's, in each training (domain privacy)."""
    differences = []
    for training in _of_domains(policy, variant):
        differences.append(100 * _only(training["claims"], first=first, second=second)["difference"])
    return {"difference": fmean(differences), "of_seeds": differences}


def perplexity_after(model: str, variant: str = "") -> dict[str, Any]:
    """Returns the held-out perplexity of a model of each training (domain privacy)."""
    values = [_only(training["models"], name=model)["perplexity"] for training in _of_domains("keywords", variant)]
    return {"perplexity": fmean(values), "of_seeds": values}


def authors_list(name: str) -> dict[str, Any]:
    """Returns what a classifier tells of a published list of secrets by their texts alone (Selective DP)."""
    found: dict[str, Any] = read_json(OTHERS / "authors_candidates.json")[name]
    return found


def by_miss_rate(corpus: str, method: str, gamma: float, figure: str) -> dict[str, Any]:
    """Returns a figure of canaries at a share γ of misses (CRT, Figures 3 to 5), by seeds of `audit_methods.py`."""
    values = []
    for cell in read_json(OTHERS / "audit_methods.json")["cells"]:
        if (cell["corpus"], cell["method"], cell["copies"], cell["public_share"]) == (corpus, method, 20, 0.0):
            values += [
                point[figure] for point in cell["by_miss_rate"].get("the policies", ()) if point["rate"] == gamma
            ]
    if not values:
        raise KeyError(f"audit_methods.json: no {corpus}, {method}, {gamma}")
    return {figure: fmean(values), "of_seeds": values}


def memory_of_a_step(shape: str, first: str, second: str, batch: float) -> dict[str, Any]:
    """Returns the peak memory of one way to train over that of another, on the GPU that measured both."""
    peaks = []
    for contender in (first, second):
        found = read_json(OTHERS / "gpu" / f"dp_step.{shape}.{contender}.json")
        peaks += [one["peak_megabytes"] for one in found["figures"]["batches"] if one["batch"] == batch]
    above, below = peaks
    return {"ratio": above / below, "megabytes": above, "other_megabytes": below}


FUNCTIONS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    function.__name__: function
    for function in (leak_rate, leak_difference, perplexity_after, authors_list, by_miss_rate, memory_of_a_step)
}
