"""Issued, refused and estimated claims are never taken for one another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.accounting.claim_builder import WITHHELD
from pipelines.report.claims import can_be_claimed, cannot_be_claimed, headline_claim, normalised, numbers_of


def _claim(**values: Any) -> dict[str, Any]:
    return {"notion": "confidentiality", "unit": "sentence", "epsilon": 2.0001, "delta": 1e-5} | values


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"is_guarantee": True}, "issued"),
        ({"is_guarantee": False}, "estimate"),
        ({}, "estimate"),
        ({"is_guarantee": "yes"}, "estimate"),
        ({"is_guarantee": True, "refused": "no"}, "refused"),
        ({"is_guarantee": True, "epsilon": None}, "refused"),
        ({"is_guarantee": True, "delta": None}, "refused"),
        ({"is_guarantee": True, "epsilon": float("inf")}, "refused"),
    ],
)
def test_status(values: dict[str, Any], status: str) -> None:
    (claim,) = normalised({"claims": [_claim(**values)], "headline": 0})
    assert claim["status"] == status
    assert (claim["epsilon"] is None) == (status == "refused")
    assert (claim["reason"] is None) == (status == "issued")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "is_guarantee": st.sampled_from([True, False, None]),
            "refused": st.sampled_from([None, "why"]),
            "epsilon": st.none() | st.floats(),
            "delta": st.none() | st.floats(),
        },
    )
)
@settings(deadline=None, max_examples=200)
def test_only_what_is_marked_as_a_guarantee_and_not_refused_is_issued(raw: dict[str, Any]) -> None:
    (claim,) = normalised({"claims": [raw], "headline": 0})
    if claim["status"] == "issued":
        assert raw["is_guarantee"] is True
        assert raw.get("refused") is None
    else:
        assert can_be_claimed([claim]).startswith("Nothing")


def test_the_headline_is_the_claim_that_the_file_names() -> None:
    document = {"claims": [_claim(notion="dp_private_set"), _claim(notion="confidentiality")], "headline": 1}
    shown = headline_claim(normalised(document))
    assert shown is not None
    assert shown["notion"] == "confidentiality"
    assert headline_claim(normalised(document | {"headline": None})) is None


def test_the_sentences_name_numbers_confidence_and_assumptions() -> None:
    issued = _claim(is_guarantee=True, assumptions=["a", "b"], confidence=0.9, statement="It holds.")
    claims = normalised({"claims": [issued, _claim(notion="group_confidentiality", refused="no")], "headline": 0})
    said = can_be_claimed(claims)
    for part in ("ε = 2.01, δ = 10⁻⁵", "one sentence", "90\u00a0%", "2 assumptions hold", "It holds."):
        assert part in said
    assert "group of secrets" in cannot_be_claimed(claims)
    assert numbers_of(claims[0]) == "ε = 2.01, δ = 10⁻⁵"  # rounded up: 2.0001 does not hold at 2.00


def test_no_claims_file() -> None:
    assert normalised(None) == []
    assert can_be_claimed([]).startswith("Nothing")


def test_a_claim_that_this_version_must_not_state_is_not_called_refused() -> None:
    withheld = _claim(refused=WITHHELD, epsilon=None, delta=None)
    refused = _claim(refused="it does not hold", epsilon=None, delta=None)
    first, second = normalised({"claims": [withheld, refused], "headline": None})
    assert (first["status"], first["is_withheld"], second["is_withheld"]) == ("refused", True, False)
    assert first["reason"].startswith("it rests on rates")
    assert f"Refused: {second['title']}. Not stated in this version: {first['title']}." in cannot_be_claimed(
        [first, second]
    )
