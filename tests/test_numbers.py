"""Printed bounds stay bounds, and nothing missing is printed as a number."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.numbers import NOT_MEASURED, coarse, count, percent, plain, real

_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def _parse(text: str) -> float:
    """The inverse of `real`, written without looking at it."""
    mantissa, _, power = text.replace(",", "").partition(" × ")
    if mantissa.startswith("10") and mantissa[2:] and mantissa[2] in "⁻⁰¹²³⁴⁵⁶⁷⁸⁹":
        mantissa, power = "1", mantissa
    exponent = int(power[2:].translate(_SUPERSCRIPTS)) if power else 0
    return float(f"{mantissa}e{exponent}")


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0, "0"),
        (0.0, "0"),
        (1.8825151, "1.883"),
        (1031.4, "1,031"),
        (123456.0, "123,500"),
        (1e-5, "10⁻⁵"),
        (0.0000123456, "1.235 × 10⁻⁵"),
        (0.00099999, "0.001"),
        (0.0009999, "9.999 × 10⁻⁴"),
        (4.433704609, "4.434"),
        (1e7, "10⁷"),
        (-0.25, "-0.25"),
    ],
)
def test_reals_are_printed_with_four_digits(value: float, printed: str) -> None:
    assert real(value) == printed


@given(st.floats(1e-300, 1e300))
@settings(deadline=None, max_examples=300)
def test_a_printed_upper_bound_is_never_below_the_bound(value: float) -> None:
    up, down = _parse(real(value, upper=True)), _parse(real(value, lower=True))
    assert down <= value <= up
    assert up <= value * 1.0011
    assert down >= value * 0.9989


@given(st.floats(1e-300, 1e300), st.integers(1, 6))
@settings(deadline=None, max_examples=200)
def test_coarse_numbers_have_few_digits_and_stay_on_their_side(value: float, num_digits: int) -> None:
    up, down = coarse(value, num_digits, "up"), coarse(value, num_digits, "down")
    assert up is not None
    assert down is not None
    assert down <= value <= up
    mantissa = f"{up:e}"
    assert float(f"{up:.{num_digits - 1}e}") == up, mantissa


@pytest.mark.parametrize("value", [None, math.nan, math.inf, "5", True])
def test_what_is_no_number_is_said_to_be_not_measured(value: object) -> None:
    assert {count(value), real(value), percent(value)} == {NOT_MEASURED}
    assert coarse(value, 3) is None


def test_counts_percentages_and_other_values() -> None:
    assert count(1234567) == "1,234,567"
    assert count(0) == "0"
    assert percent(0.0669127, upper=True) == "6.7\u00a0%"
    assert percent(0.0669127) == "6.69\u00a0%"
    assert percent(2e-6) == "2 × 10⁻⁶"
    assert plain(None) == NOT_MEASURED
    assert plain([]) == "none"
    assert plain({"b": True, "a": 1.5}) == "a: 1.5, b: yes"
