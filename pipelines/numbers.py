"""Numbers for people: a bound is never rounded to its weak side, and a missing figure is never shown as 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any, Final, Literal

Direction = Literal["nearest", "up", "down"]

NOT_MEASURED: Final = "not measured"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ROUNDING: Final = {"nearest": ROUND_HALF_EVEN, "up": ROUND_CEILING, "down": ROUND_FLOOR}
_SMALLEST_PLAIN = Decimal("0.001")
_SAME: Final = 1e-6
"""Relative difference up to which two figures are the same: processors and libraries round in other places."""


def is_number(value: Any) -> bool:
    """True for a finite int or float; False for None, bool, NaN, infinities and everything else."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def same_figures(one: Any, other: Any) -> bool:
    """Tells whether two JSON documents are equal, floats up to the rounding of another processor or library."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_figures(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_figures, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_SAME)
    return bool(one == other)


def count(value: Any) -> str:
    """A count with a comma every three digits, or `NOT_MEASURED`."""
    return f"{round(value):,}" if is_number(value) else NOT_MEASURED


def real(value: Any, num_digits: int = 4, *, upper: bool = False, lower: bool = False) -> str:
    """A number to ``num_digits`` significant digits, or `NOT_MEASURED`.

    Args:
        value: the number.
        num_digits: significant digits that are kept.
        upper: the number is an upper bound, so it is rounded up: the printed bound is true whenever the bound is.
        lower: likewise, a lower bound is rounded down.

    Returns:
        Decimal notation, or ``a × 10ⁿ`` below 0.001 and from 10⁷ on.
    """
    if not is_number(value):
        return NOT_MEASURED
    rounded = _rounded(value, num_digits, "up" if upper else "down" if lower else "nearest")
    if rounded == 0:
        return "0"
    exponent = rounded.adjusted()
    if _SMALLEST_PLAIN <= abs(rounded) < 10**7:
        whole, _, fraction = f"{rounded:,f}".partition(".")
        fraction = fraction.rstrip("0")
        return f"{whole}.{fraction}" if fraction else whole
    mantissa = f"{rounded.scaleb(-exponent):f}"
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    power = f"10{str(exponent).translate(_SUPERSCRIPTS)}"
    return power if mantissa == "1" else f"{mantissa} × {power}"


def upper_bound(value: Any) -> str:
    """An upper bound to three significant digits, rounded up, or `NOT_MEASURED`."""
    return real(value, 3, upper=True)


def coarse(value: Any, num_digits: int, direction: Direction = "nearest") -> float | None:
    """A number rounded to ``num_digits`` significant digits; None for what is no number.

    A rate in full precision is a fraction of two counts, and continued fractions give both counts back; a few digits
    do not. Bounds are rounded to their safe side.
    """
    return float(_rounded(value, num_digits, direction)) if is_number(value) else None


def _rounded(value: float, num_digits: int, direction: Direction) -> Decimal:
    exact = Decimal(repr(value))
    if exact == 0:
        return Decimal(0)
    step = Decimal(1).scaleb(exact.adjusted() - num_digits + 1)
    return exact.quantize(step, rounding=_ROUNDING[direction])


def percent(value: Any, num_digits: int = 3, *, upper: bool = False, lower: bool = False) -> str:
    """A fraction as per cent, or `NOT_MEASURED`; a fraction below 10⁻⁵ stays a number (``2 × 10⁻⁶``)."""
    if not is_number(value):
        return NOT_MEASURED
    if 0 < abs(value) < 1e-5:
        return real(value, num_digits, upper=upper, lower=lower)
    hundredfold = float(Decimal(repr(value)).scaleb(2))
    return f"{real(hundredfold, num_digits, upper=upper, lower=lower)}\N{NO-BREAK SPACE}%"


def plain(value: Any) -> str:
    """Any JSON value as short text: yes or no, a number, a list joined by commas, or `NOT_MEASURED` for None."""
    if value is None:
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return real(value)
    if isinstance(value, list | tuple):
        return ", ".join(plain(item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {plain(item)}" for key, item in sorted(value.items())) or "none"
    return str(value)
