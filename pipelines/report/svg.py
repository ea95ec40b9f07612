"""What charts are drawn with: elements of an SVG, and axes with round numbers.

Every chart is 400 units wide, so that its letters keep a readable size on a phone; colours come from the page's
classes, so that light, dark and print agree. The XML writer escapes what is printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

from pipelines.numbers import real

WIDTH: Final = 400
_LOG_FROM: Final = 10.0  # largest over smallest value
_MOST_TICKS: Final = 6
_FEWEST_DIGITS: Final = 4
_ROOM: Final = 0.06  # of the axis, beyond the outermost values
_LEAST_SPAN: Final = 0.2  # of the largest value: a closer look would make noise look like an effect


@dataclass(frozen=True)
class Axis:
    """A line of values: logarithmic where all are positive and they span an order of magnitude, else linear.

    Attributes:
        low, high: its ends.
        is_log: flag that equal ratios have equal lengths.
    """

    low: float
    high: float
    is_log: bool

    @classmethod
    def over(cls, values: Iterable[float], *, least: float = -math.inf, most: float = math.inf) -> Axis:
        """An axis with a little room beyond the values, but none beyond what the figure can be.

        Args:
            values: finite, one at least.
            least, most: of the figure.
        """
        found = sorted(values)
        first, last = found[0], found[-1]
        if first > 0 and last / first >= _LOG_FROM:
            room = (last / first) ** _ROOM
            return cls(max(first / room, least), min(last * room, most), is_log=True)
        return cls.linear(found, least=least, most=most)

    @classmethod
    def linear(cls, values: Iterable[float], *, least: float = -math.inf, most: float = math.inf) -> Axis:
        """A linear axis, which spans a fifth of its largest value at least. The arguments are those of `over`."""
        found = sorted(values)
        first, last = found[0], found[-1]
        wanted = _LEAST_SPAN * max(abs(first), abs(last)) or 2.0
        room = max((last - first) * _ROOM, (wanted - (last - first)) / 2)
        return cls(max(first - room, least), min(last + room, most), is_log=False)

    def share(self, value: float) -> float:
        """Returns the place of a value, from 0 to 1; a value outside the axis lies at the nearer end."""
        low, high = self._scale(self.low), self._scale(self.high)
        at = -math.inf if self.is_log and value <= 0 else self._scale(value)
        return min(1.0, max(0.0, (at - low) / (high - low)))

    def _scale(self, value: float) -> float:
        return math.log(value) if self.is_log else value

    def ticks(self) -> list[float]:
        """Returns round numbers on the axis, in order."""
        if self.is_log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for digits in ((1, 2, 5), (1, 3), (1,)):
                found = self._inside(digit * 10.0**exponent for exponent in decades for digit in digits)
                if len(found) <= _MOST_TICKS:
                    return found
            return found[:: math.ceil(len(found) / _MOST_TICKS)]
        smallest = math.floor(math.log10(self.high - self.low)) - 1
        for exponent in range(smallest, smallest + 3):
            for digit in (1, 2, 5):
                step = digit * 10.0**exponent
                multiples = range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
                if len(multiples) <= _MOST_TICKS:
                    return [round(multiple * step, max(0, -exponent)) for multiple in multiples]
        raise AssertionError("a step of a tenth of the axis or more was tried")

    def labelled_ticks(self) -> list[tuple[float, str]]:
        """Returns the ticks with their labels, which have as many digits as it takes to tell them apart."""
        ticks, digits = self.ticks(), _FEWEST_DIGITS
        while len({real(tick, digits) for tick in ticks}) < len(ticks):
            digits += 1
        return [(tick, real(tick, digits)) for tick in ticks]

    def _inside(self, values: Iterable[float]) -> list[float]:
        return [value for value in values if self.low <= value <= self.high]


def new_chart(height: float, spoken: str) -> Element:
    """An empty chart, with what a screen reader says."""
    svg = Element(
        "svg", {"viewBox": f"0 0 {WIDTH} {coordinate(height)}", "role": "img", "aria-label": spoken, "class": "chart"}
    )
    SubElement(svg, "title").text = spoken
    return svg


def text(svg: Element, x: float, y: float, words: str, anchor: str = "start", css: str = "") -> None:
    """Words at a place."""
    attributes = {"x": coordinate(x), "y": coordinate(y), "text-anchor": anchor}
    if css:
        attributes["class"] = css
    SubElement(svg, "text", attributes).text = words


def rect(svg: Element, x: float, y: float, width: float, height: float, css: str) -> Element:
    """A rectangle."""
    places = {"x": coordinate(x), "y": coordinate(y), "width": coordinate(width), "height": coordinate(height)}
    return SubElement(svg, "rect", {**places, "class": css})


def line(svg: Element, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
    """A straight line."""
    places = {"x1": coordinate(x1), "y1": coordinate(y1), "x2": coordinate(x2), "y2": coordinate(y2)}
    SubElement(svg, "line", {**places, "class": css})


def dot(svg: Element, x: float, y: float, radius: float = 4.0) -> None:
    """A point of a figure."""
    places = {"cx": coordinate(x), "cy": coordinate(y), "r": coordinate(radius)}
    SubElement(svg, "circle", {**places, "class": "fill-accent"})


def whisker(svg: Element, low: float, high: float, at: float, half: float, *, is_open: bool = False) -> None:
    """A level interval at a height ``at``, with a stroke of twice ``half`` at each end; at the high one if open."""
    line(svg, low, at, high, at, "whisker")
    for x in (high,) if is_open else (low, high):
        line(svg, x, at - half, x, at + half, "whisker")


def upright_whisker(svg: Element, low: float, high: float, at: float, half: float) -> None:
    """The same, upright, at ``at`` from the left."""
    line(svg, at, low, at, high, "whisker")
    for y in (low, high):
        line(svg, at - half, y, at + half, y, "whisker")


def coordinate(value: float) -> str:
    """A coordinate: two decimals are finer than a pixel, and the bytes do not hang on the last bit of a float."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def markup(svg: Element) -> Markup:
    """The chart for a page."""
    written: Any = tostring(svg, encoding="unicode", short_empty_elements=False)
    return Markup(written)  # noqa: S704 -- the XML writer has escaped every text and attribute
