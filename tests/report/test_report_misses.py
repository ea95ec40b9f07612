"""What the redaction missed, as the two reports say it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from public_reports import published, said

from pipelines.report.render import render_html

Make = Callable[..., dict[str, Any]]


def test_unstable_secrets_are_shown_to_the_trusted_side_only(
    raw: dict[str, Any], full: dict[str, Any], make_report: Make
) -> None:
    """Guards the reading of gamma: which missed secrets are masked; and the public, from counts of private text."""
    text = said(render_html(full), " ")
    assert "Of those, with an unmasked token 11" in text
    assert "Of those, masked, but not redacted stably 26 (3.61 % of the masked ones)" in text
    assert "ADDRESS 320 25 6 19 (6.05 % of the masked ones) 7.81 %" in text
    assert "γ if every masked secret were redacted stably (no claim takes it) 1.5 % at most 2.65 %" in text
    with_rates, without = published(full), published(full, publishes_counts=False)
    assert with_rates["miss_rate"]["false_negative_rate_masked"] == {
        "value": 0.015,
        "upper": 0.0265,
        "confidence": 0.95,
    }
    for report in (with_rates, without):
        assert "num_unstable" not in json.dumps(report)
        assert "masked ones)" not in said(render_html(report), " ")
    assert "false_negative_rate_masked" not in json.dumps(without)
    raw["estimate"] |= dict.fromkeys(
        ("num_unstable_spans", "num_unstable_together_spans", "num_unstable_elsewhere_spans")
    )
    assert "masked, but not redacted stably not measured" in said(render_html(make_report(raw)), " ")
