"""Sums over partitions, the flat metrics, and what is said when a stage found nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from public_reports import published

from pipelines.report.figures import Sources, build, ratio, total, totals
from pipelines.report.render import render_html

GOLDEN = Path(__file__).parent / "golden"
Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("version", ["full", "public"])
def test_golden_json(full: dict[str, Any], version: str) -> None:
    report = full if version == "full" else published(full)
    text = json.dumps(report, sort_keys=True, indent=1, allow_nan=False) + "\n"
    path = GOLDEN / f"{version}.json"
    if os.environ.get("RETICENT_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**9)), min_size=1, max_size=6))
@settings(deadline=None, max_examples=100)
def test_mappings_add_up_by_key(parts: list[dict[str, int]]) -> None:
    summed = totals([{"m": part} for part in parts], "m")
    assert summed is not None
    assert sum(summed.values()) == sum(sum(part.values()) for part in parts)
    assert set(summed) == {key for part in parts for key in part}
    assert total([{"n": sum(p.values())} for p in parts], "n") == sum(summed.values())


def test_a_figure_that_one_partition_lacks_is_not_measured() -> None:
    assert total([{"n": 3}, {}], "n") is None
    assert total([{"n": 3}, {"n": None}], "n") is None
    assert total([], "n") is None
    assert totals([{"m": {"a": 1}}, {}], "m") is None
    assert total([{"n": 3}, {"n": 0}], "n") == 3


def test_a_ratio_without_a_denominator_is_not_measured() -> None:
    assert ratio(0, 0) is None
    assert ratio(None, 3) is None
    assert ratio(1, 4) == 0.25


def test_metrics(full: dict[str, Any], raw: dict[str, Any]) -> None:
    metrics = full["metrics"]
    assert metrics["num_sentences"] == 5100 + 3411
    assert metrics["num_rejected"] == 3
    assert metrics["duplicates"] == 1313
    assert metrics["coverage"] == pytest.approx((7021 + 4433) / (61200 + 40811 - 5103 - 3313), rel=1e-12)
    assert metrics["num_public"] == 2355
    assert metrics["miss_rate"] == pytest.approx(113 / 26431, rel=1e-12)
    assert metrics["miss_rate_upper"] == 0.00607
    assert metrics["false_negative_rate_upper"] == 0.0669127
    assert metrics["delta2_upper"] == 0.0041
    headline = raw["claims"]["claims"][raw["claims"]["headline"]]
    assert (metrics["epsilon"], metrics["delta"]) == (headline["epsilon"], headline["delta"])
    assert metrics["epsilon_dp"] == raw["claims"]["claims"][0]["epsilon"]
    assert metrics["num_steps"] == 105


def test_the_stability_shown_is_the_one_that_the_claims_rest_on(raw: dict[str, Any], make_report: Make) -> None:
    """Guards: the report worked out another one, which knew nothing of plug-ins and of what is published."""
    assert make_report(raw)["dedup"]["stability"] == {"add_or_remove_one": 1, "replace_one": 1}
    raw["claims"]["dedup_stability"] = {"add_or_remove_one": 3, "replace_one": None, "reason": "a plug-in."}
    found = make_report(raw)["dedup"]
    assert found["stability"] == {"add_or_remove_one": 3, "replace_one": None}
    assert found["stability_reason"] == "a plug-in."


def test_without_a_conservative_policy_delta2_is_zero_by_construction(raw: dict[str, Any], make_report: Make) -> None:
    for part in raw["redact"]:
        part["conservative"] = None
    assert make_report(raw)["metrics"]["delta2_upper"] == 0.0041  # there are public rows all the same
    for part in raw["shard"]:
        part["num_public"] = 0
    report = make_report(raw)
    assert report["metrics"]["delta2_upper"] == 0.0
    assert report["miss_rate"]["delta2_is_zero_by_construction"] is True


def test_an_unmeasured_run_says_so_everywhere(raw: dict[str, Any], make_report: Make) -> None:
    raw["estimate"] = {"source": "not_measured", "miss_rate": None, "false_negative_rate": None, "delta2": None}
    metrics = make_report(raw)["metrics"]
    for key in ("miss_rate", "miss_rate_upper", "false_negative_rate", "false_negative_rate_upper", "delta2_upper"):
        assert metrics[key] is None


def test_a_refused_or_void_headline_gives_no_epsilon(raw: dict[str, Any], make_report: Make) -> None:
    raw["claims"]["headline"] = 1  # refused
    assert make_report(raw)["metrics"]["epsilon"] is None
    raw["claims"]["headline"] = 0
    raw["claims"]["claims"][0] |= {"is_guarantee": False, "not_guaranteed_because": ["the seed is known"]}
    metrics = make_report(raw)["metrics"]
    assert (metrics["epsilon"], metrics["delta"], metrics["epsilon_dp"]) == (None, None, None)


def test_nothing_at_all_still_gives_the_whole_shape(full: dict[str, Any]) -> None:
    empty = build(Sources(), title="t")
    assert empty["metrics"].keys() == full["metrics"].keys()
    assert set(empty["metrics"].values()) == {None}
    assert empty.keys() == full.keys()


def test_other_languages_and_a_handful_of_public_rows_are_warned_of(raw: dict[str, Any], make_report: Make) -> None:
    told = "25 documents (2%) are plainly in another language (25 de): the policies find little there"
    assert any(told in warning for warning in make_report(raw)["warnings"])
    for part in raw["split"]:
        part["documents_by_other_language"] = {"de": 1}
    assert not any("language" in warning for warning in make_report(raw)["warnings"])
    for part in raw["split"]:
        part.update(documents_by_other_language={"de": 90}, num_held_back=90)
    assert any("180 documents (15%)" in w and "they are left out" in w for w in make_report(raw)["warnings"])
    for part in raw["shard"]:
        part["num_public"] = 4
    (warning,) = (w for w in make_report(raw)["warnings"] if "rows are public" in w)
    assert warning.startswith("few rows are public (8). ")
    assert published(make_report(raw))["warnings"] == []
    for part in raw["redact"]:
        part["conservative"] = None
    assert not any("rows are public" in w for w in make_report(raw)["warnings"])


def test_documents_that_are_people_by_assumption_are_counted(raw: dict[str, Any], make_report: Make) -> None:
    assert "num_own_owners" not in make_report(raw)["corpus"]
    split = [{**part, "num_own_owners": 3} for part in raw["split"]]
    report = make_report({**raw, "split": split})
    assert report["corpus"]["num_own_owners"] == 3 * len(split)
    assert "Documents without an owner, each taken for a person" in render_html(report)
