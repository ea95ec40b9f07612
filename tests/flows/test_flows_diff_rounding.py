"""`reticent diff` and the page to sign after a store moved to another processor."""

from __future__ import annotations

from flows.commands.diff import changed_pairs


def test_rounding_is_no_change_and_a_change_is_one() -> None:
    """An epsilon that was recomputed on another processor differs in its last digits."""
    here, elsewhere, other = 1.200979182513551, 1.2009791825132933, 1.2011
    assert changed_pairs({"epsilon": {"before": here, "after": elsewhere}}) == []
    assert changed_pairs({"epsilon": {"before": here, "after": other}}) == ["epsilon: 1.201 → 1.2011"]
    assert changed_pairs({"rows": {"before": 3, "after": 4}, "x": {"before": None, "after": 0.0}}) == [
        "rows: 3 → 4",
        "x: none → 0",
    ]
