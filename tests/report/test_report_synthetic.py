"""Synthetic text in the report: claims in both versions, counts on the trusted side, or coarse by consent."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from public_reports import published, said

from pipelines.report.render import render_html
from pipelines.report.sign_off import signed_for
from pipelines.report.words import SYNTHETIC_NOT_MEASURED

Make = Callable[..., dict[str, Any]]


def shown(html: str) -> str:
    """The section of a page."""
    start = html.index('<section aria-labelledby="synthetic">')
    return said(html[start : html.index("</section>", start) + len("</section>")])


def test_the_trusted_side_reads_claims_counts_baselines_distances_scores_and_what_is_open(
    pages: dict[str, str],
) -> None:
    text = shown(pages["full"])
    for part in (
        *("3,000 rows", "ε = 1.89", "Supposes A", "12"),
        *(
            "17 of 3,000",
            "0.33 % to 0.906 %",
            "5 of 3,000",
            "1 of 500: 0.00506 % to 1.11 %",
        ),  # replay, and what never saw it
        *("23 of 3,000", "masked as PERSON", "4 of 500"),
        *("AUC", "0.891 [0.876, 0.904]", "0.532 [0.506, 0.557]"),
        *("2,948 rows of each kind", "0.328 [0.297, 0.36]", "0.607 [0.582, 0.632]", "137.4 [123.6, 151]"),
        *("541,184 weights", "for 100 steps of 32 rows, 3 times", "1,940 of those rows", "215 [193.5, 236.5]"),
        *SYNTHETIC_NOT_MEASURED,
    ):
        assert part.replace("\N{NO-BREAK SPACE}", " ") in text.replace("\N{NO-BREAK SPACE}", " "), part
    assert "logarithmic" not in text
    assert (
        pages["full"].count("trained on synthetic text") == 9
    )  # three charts: their title, what is read aloud, and drawn


def test_the_public_page_is_the_same_whatever_was_counted(raw: dict[str, Any], make_report: Make) -> None:
    before = published(make_report(raw), raw, publishes_counts=False)
    other: Any = json.loads(json.dumps(raw["synthetic_check"]).replace("17", "99").replace("23", "98"))
    after = published(make_report(raw, synthetic_check=other), raw, publishes_counts=False)
    assert raw["synthetic_check"] != other
    assert before == after
    text = shown(render_html(before))
    assert "3,000 rows" in text
    assert "it is not told here" in text
    assert before["synthetic"]["counted"] is None
    assert "what was counted in the synthetic table" in before["withheld"]
    assert before["synthetic"]["claim"]["epsilon"] == 1.89, "rounded up: more digits give the private records back"


def test_by_consent_the_public_page_has_an_upper_bound_of_each_count(raw: dict[str, Any], make_report: Make) -> None:
    public = published(make_report(raw), raw)
    assert public["synthetic"]["rates"] == {"replayed_upper": 0.00906, "found_upper": 0.0115, "auc": 0.891}
    text = shown(render_html(public)).replace("\N{NO-BREAK SPACE}", " ")
    assert "at most 0.906 %" in text
    for count in ("17 of", "23 of", "0.0090578"):
        assert count not in text


@pytest.mark.parametrize("version", ["full", "public"])
def test_no_section_without_a_table_and_none_in_public_of_a_private_one(
    raw: dict[str, Any], make_report: Make, version: str
) -> None:
    def page(**changes: Any) -> str:
        full = make_report(raw, **changes)
        return render_html(full if version == "full" else published(full, raw))

    assert "synthetic" not in page(synthetic=None, synthetic_check=None).split("</style>")[1]
    private = {**raw["synthetic"], "is_published": False, "is_guarantee": False, "epsilon": None, "delta": None}
    private |= {"epsilon_this_model": None, "not_guaranteed_because": ["nothing bounds it"], "assumptions": []}
    text = page(synthetic=private).split("</style>")[1]
    assert ("No guarantee:" in text) is (version == "full")
    assert ('id="synthetic"' in text) is (version == "full")


def test_what_was_not_measured_is_said(raw: dict[str, Any], make_report: Make) -> None:
    check = copy.deepcopy(raw["synthetic_check"]) | {"finds": None, "distance": None, "downstream": None}
    check["replay"]["start"] = None
    check["replay"]["table"]["rows_unpublished"] = check["replay"]["table"]["rows"]
    assert "no published row" not in signed_for(make_report(raw, synthetic_check=check)["synthetic"])[1]
    text = shown(render_html(make_report(raw, synthetic_check=check)))
    assert "the gate is off" in text
    assert text.count("Not measured: too few rows.") == 2
    assert "17 of 3,0000.567" in text.replace("\N{NO-BREAK SPACE}", "")  # number and share
    assert "not measured" in text


def test_a_network_that_was_not_trained_is_said(raw: dict[str, Any], make_report: Make) -> None:
    check = copy.deepcopy(raw["synthetic_check"])
    check["downstream"]["network"] = None
    text = shown(render_html(make_report(raw, synthetic_check=check)))
    assert "The run's own network was not trained on them" in text
    assert "weights" not in text.split("What it teaches")[1]


def test_the_signer_is_told_what_is_claimed_and_found(full: dict[str, Any]) -> None:
    text = " ".join(signed_for(full["synthetic"])).replace("\N{NO-BREAK SPACE}", " ")
    assert "A table of 3,000 synthetic rows is published with the model" in text
    assert "the model's claim (ε = 1.89" in text
    assert "17 of 3,000 of its rows repeat a passage of 8 words" in text
    assert "; 5 of them one that stands in no published row." in text
    assert "(at its start weights 0.00506 % to 1.11 %)" in text
    assert "23 of 3,000 hold a masked string" in text
    assert signed_for(None) == []
