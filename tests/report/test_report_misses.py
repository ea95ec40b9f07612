"""What the redaction missed, as the two reports say it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from public_reports import published, said

from flows.running.figures import headlines
from pipelines.report.cards import data_card
from pipelines.report.render import render_html
from pipelines.report.sentences import missed

Make = Callable[..., dict[str, Any]]


def test_unstable_secrets_are_shown_to_the_trusted_side_only(
    raw: dict[str, Any], full: dict[str, Any], make_report: Make
) -> None:
    """Guards the reading of gamma: which missed secrets are masked; and the public, from counts of private text."""
    text = said(render_html(full), " ")
    assert "Of those, with an unmasked token 11" in text
    assert "Of those, masked, but not redacted stably 26 Their share of masked secrets 3.61 %" in text
    assert "ADDRESS 320 25 6 19 7.82 %" in text
    assert "γ if every masked secret were redacted stably (no claim takes it) 1.51 % at most 2.65 %" in text
    with_rates, without = published(full), published(full, publishes_counts=False)
    assert with_rates["miss_rate"]["false_negative_rate_masked"] == {
        "value": 0.0151,
        "upper": 0.0265,
        "confidence": 0.95,
    }
    for report in (with_rates, without):
        assert "num_unstable" not in json.dumps(report)
        assert "share of masked secrets" not in said(render_html(report), " ")
    assert "false_negative_rate_masked" not in json.dumps(without)
    raw["estimate"] |= dict.fromkeys(
        ("num_unstable_spans", "num_unstable_together_spans", "num_unstable_elsewhere_spans")
    )
    assert "masked, but not redacted stably not measured" in said(render_html(make_report(raw)), " ")


@pytest.mark.parametrize("is_census", [True, False])
def test_gamma_is_rounded_up_wherever_people_read_it(raw: dict[str, Any], make_report: Make, is_census: bool) -> None:
    """Guards 0.226 % on the page beside 0.227 % on the terminal: of 6 in 2,650 secrets, the first is too small."""
    rate = {"value": 6 / 2650, "upper": 6 / 2650, "confidence": 1.0 if is_census else 0.95}
    raw["estimate"] |= {"false_negative_rate": rate, "is_census": is_census, "worst_label": None}
    report = make_report(raw)
    page, card = said(render_html(report), " "), data_card(report)
    shown = "\n".join([missed(report["miss_rate"]), card, *(text for _, text in headlines(report["metrics"]))])
    for text in (page, shown.replace("\N{NO-BREAK SPACE}", " ")):
        assert text.count("0.227 %") >= 2
        assert "0.226" not in text


def test_links_to_a_table_stand_side_by_side_and_the_public_sees_no_count(
    raw: dict[str, Any], make_report: Make
) -> None:
    text = {"num_best": 9, "best": [0.4, 0.9], "num_linked": 7, "linked": [0.123456, 0.8]}
    more = {"num_correct": None, "correct": None, "least_lead": 1.5, "false_links": 0.04}
    links = {
        **{"num_documents": 12, "num_rows": 4_321, "num_in_table": None, "confidence": 0.95},
        **{"original": text | more, "redacted": text | more | {"num_linked": 0, "linked": [0.0, 0.265]}},
        "links": [{"doc_id": "secret document", "row": 4, "is_correct": None}],
    }
    full = make_report(raw, reidentification=links)
    assert "secret document" not in json.dumps(full)
    page = said(render_html(full), " ")
    assert "Its lead exceeds chance 7 of 12, 12.3 % to 80 % 0 of 12, 0 % to 26.5 %" in page
    assert "The best row is the document's own" not in page
    shown = published(full)
    assert shown["miss_rate"]["reidentification"]["redacted"] == {
        "best": [0.4, 0.9],
        "linked": [0.0, 0.265],
        "correct": None,
    }
    assert "4321" not in json.dumps(shown)
    assert "Its lead exceeds chance 12.3 % to 80 %" in said(render_html(shown), " ")
    withheld = published(full, publishes_counts=False)
    assert "reidentification" not in json.dumps(withheld)
    assert "table of people" not in said(render_html(withheld), " ")
    assert "reidentification" not in json.dumps(make_report(raw, reidentification={}))
