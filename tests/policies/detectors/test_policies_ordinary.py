"""Finds that no careful reader would mask, and the setting of dates and numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reticent
from pipelines.policies.english.ordinary import is_ordinary
from pipelines.settings.redact import RedactConfig

POLICIES = ("high_entity", "presidio", "addresses", "identifiers")


def _masked(text: str, dates_and_numbers: str) -> list[str]:
    found = reticent.redact(
        [text],
        policies=POLICIES,
        check_language=False,
        dates_and_numbers=dates_and_numbers,  # type: ignore[arg-type]
    )
    return [text[find.start : find.end] for find in found[0].finds]


@pytest.mark.parametrize(
    "text",
    [
        "x = np.random.rand(3)",
        "Give paracetamol 500 mg twice daily.",
        "The answer is in section 4 of RFC 2616.",
        "ts=1700000123.25 level=debug msg=ok",
        "Family history of Alzheimer's disease.",
    ],
)
def test_no_mode_masks_code_doses_standards_and_eponyms(text: str) -> None:
    assert _masked(text, "careful") == _masked(text, "identifying") == []


@pytest.mark.parametrize("text", ["See you on Friday at 3 pm.", "We sold 1,200 tickets in two weeks."])
def test_identifying_leaves_dates_and_numbers_without_a_cue(text: str) -> None:
    assert _masked(text, "careful")
    assert not _masked(text, "identifying")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("She was born on 4 March 1987 in the north.", "1987"),
        ("Call 020 7946 0018 after lunch.", "7946"),
        ("He is 79 years old now.", "79"),
        ("My account number is 48210.", "48210"),
    ],
)
def test_identifying_masks_dates_and_numbers_with_a_cue_or_form(text: str, secret: str) -> None:
    assert any(secret in find for find in _masked(text, "identifying"))


def test_the_default_stays_out_of_keys() -> None:
    assert "dates_and_numbers" not in RedactConfig().keyed()
    assert RedactConfig(dates_and_numbers="identifying").keyed()["dates_and_numbers"] == "identifying"
    assert "dates_and_numbers" not in RedactConfig().keyed("estimate")


@given(st.text(), st.sampled_from(("PERSON", "DATE", "URL", "ADDRESS", "PHONE_NUMBER")), st.text(), st.text())
def test_careful_leaves_out_no_more_than_identifying(find: str, label: str, before: str, after: str) -> None:
    assert is_ordinary(find, label, before, after, "careful") <= is_ordinary(find, label, before, after, "identifying")
