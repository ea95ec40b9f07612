"""The assumptions of all claims of a report that have numbers, each printed once and cited by number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from markupsafe import Markup

from pipelines.report.claims import only_together

CONFIRMED: Final = (
    "validation and test folds are public",
    "hyper-parameters were not chosen by looking at private data",
    "no other release of this store shares an input file",
    "the store was copied",
)
"""How those of `ONLY_PEOPLE_KNOW` begin that have a box of their own on the page to sign."""
ONLY_PEOPLE_KNOW: Final = (
    *CONFIRMED,
    "the trusted side keeps to itself what is not published",
    "the labels mark every secret",
    "speaker, domain and label of a row are not redacted",
    "the models that redaction uses were pre-trained on other, public data",
    "a person is an id in the corpus",
    "these policies were fitted on text",
)
"""How assumptions begin that no program can check: the person who signs must know."""


class Numbered:
    """The assumptions of a report, with numbers.

    Args:
        report: report, of which ``claims``, ``person`` and ``synthetic`` are read.

    Attributes:
        texts: the assumptions in the order of their numbers, which begin with 1. Those that only people know are first.
        num_for_people: number of assumptions that only people know.
    """

    def __init__(self, report: Mapping[str, Any]) -> None:
        claims = [claim for claim in report["claims"] if claim["status"] != "refused"]
        person, synthetic = report.get("person") or {}, report.get("synthetic") or {}
        stated = chain(
            *(claim["assumptions"] for claim in claims),
            *(only_together(claim)["assumptions"] for claim in claims),
            (person.get("assumptions") or ()) if person.get("refused") is None else (),
            (synthetic.get("claim") or {}).get("assumptions") or (),
        )
        every = dict.fromkeys(stated)
        for_people = [text for text in every if text.startswith(ONLY_PEOPLE_KNOW)]
        self.num_for_people = len(for_people)
        self.texts: Sequence[str] = [*for_people, *(text for text in every if text not in for_people)]
        self._numbers = {text: number for number, text in enumerate(self.texts, start=1)}

    def that_hold(self, part: str) -> list[str]:
        """Returns the assumptions that have a text in them."""
        return [text for text in self.texts if part in text]

    def cited(self, texts: Iterable[str]) -> Markup:
        """Returns links to assumptions, neighbours as a range: A1–A4, A7."""
        ranges: list[tuple[int, int]] = []
        for number in sorted(self._numbers[text] for text in texts):
            first, last = ranges[-1] if ranges else (0, -1)
            ranges[-1:] = [(first, number)] if number == last + 1 else [*ranges[-1:], (number, number)]
        return Markup(", ").join(
            _link(first)
            if first == last
            else Markup("{}{}{}").format(_link(first), "–" if last > first + 1 else ", ", _link(last))
            for first, last in ranges
        )


def _link(number: int) -> Markup:
    return Markup('<a href="#a{0}">A{0}</a>').format(number)
