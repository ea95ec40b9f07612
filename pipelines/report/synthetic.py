"""Synthetic text in the report: what is claimed of the table, and, for the trusted side, what was counted in it.

What was counted is of the private text, outside ε: the public version has it only where ``report.publish_counts`` puts
rates into it, and then, like those, in a few digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipelines.numbers import coarse, count, percent, upper_bound

_TABLE: Final = ("num_rows", "num_filtered", "num_tokens", "is_published")
_CLAIM: Final = (
    *("notion", "statement", "unit", "epsilon", "delta", "epsilon_this_model", "is_guarantee"),
    *("not_guaranteed_because", "assumptions"),
)
_DIGITS: Final = 3


def section(table: Mapping[str, Any] | None, check: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns the part of the full report.

    Args:
        table: ``synthetic.json`` of the stage ``synthesize``; None if the run wrote no table.
        check: ``check.json`` of the stage ``synthesize_check``.
    """
    if table is None:
        return None
    counted = None if check is None else {name: check[name] for name in ("replay", "finds", "distance", "downstream")}
    claim = {name: table[name] for name in _CLAIM}
    return {**{name: table[name] for name in _TABLE}, "claim": claim, "counted": counted}


def public_section(full: Mapping[str, Any] | None, *, publishes_counts: bool) -> dict[str, Any] | None:
    """Returns the part of the public report; None if the table stays private.

    Args:
        full: result of `section`.
        publishes_counts: flag that the settings publish rates that were counted on private text.
    """
    if full is None or not full["is_published"]:
        return None
    numbers = {name: coarse(full["claim"][name], _DIGITS, "up") for name in ("epsilon", "delta", "epsilon_this_model")}
    shown = {**{name: full[name] for name in _TABLE}, "claim": {**full["claim"], **numbers}, "counted": None}
    return shown | ({"rates": _rates(full["counted"])} if publishes_counts and full["counted"] else {})


def _rates(counted: Mapping[str, Any]) -> dict[str, Any]:
    """Of each count its one figure."""
    finds, distance = counted["finds"], counted["distance"]
    return {
        "replayed_upper": coarse(counted["replay"]["table"]["rows"]["high"], _DIGITS, "up"),
        "found_upper": coarse(finds["table"]["rows"]["high"], _DIGITS, "up") if finds else None,
        "auc": coarse(distance["other"]["auc"], _DIGITS) if distance else None,
    }


def signed_for(found: Mapping[str, Any] | None) -> list[str]:
    """Returns what the person who signs should know of the table, a sentence each; empty without a table."""
    if found is None:
        return []
    claim, counted = found["claim"], found["counted"]
    where = "is published with the model" if found["is_published"] else "stays in the private root"
    if claim["is_guarantee"]:
        bound = f"ε = {upper_bound(claim['epsilon'])}, δ = {upper_bound(claim['delta'])}"
        told = f"what is claimed of it is the model's claim ({bound})"
    else:
        told = "nothing is claimed of it"
    said = [f"A table of {count(found['num_rows'])} synthetic rows {where}; {told}."]
    if counted is not None:
        replay, finds = counted["replay"], counted["finds"]
        said.append(
            f"{_of(replay['table'])} of its rows repeat a passage of {count(replay['words'])} words of one training "
            f"document{_expected(replay)}{_unpublished(replay['table'])}."
        )
        if finds is not None:
            said.append(f"{_of(finds['table'])} hold a masked string{_expected(finds)}.")
        said.append("To hold the table back, or to choose another, because of these counts voids its claim.")
    return said


def _of(rate: Mapping[str, Any]) -> str:
    return f"{count(rate['rows']['num_hits'])} of {count(rate['rows']['num_units'])}"


def _unpublished(table: Mapping[str, Any]) -> str:
    """Says how many of the rows repeat text that is not open anyway; empty if all do."""
    num = table["rows_unpublished"]["num_hits"]
    return "" if num == table["rows"]["num_hits"] else f"; {count(num)} of them one that stands in no published row"


def _expected(found: Mapping[str, Any]) -> str:
    """Says what a model that never saw the text would give."""
    if found["start"] is None:
        return ""
    rows = found["start"]["rows"]
    return f" (at its start weights {percent(rows['low'], lower=True)} to {percent(rows['high'], upper=True)})"
