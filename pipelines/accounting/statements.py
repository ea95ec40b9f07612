"""Assumptions as text that knows what it supposes, so that two which contradict each other are never issued together.

An assumption may state the value of a named fact ("redaction reads" = "sentence"). Two assumptions of one claim that
state different values of one fact cannot both hold, and a claim under both would promise anything at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Fact = Literal[
    "redaction reads",  # sentence | document
    "public rows",  # none | some
    "training reads",  # redacted | original | both
    "other releases",  # none | some
    "noise chosen from",  # settings | private text
    "masks show",  # nothing | lengths
]


class Assumption(str):
    """A sentence that a claim rests on.

    Attributes:
        facts: what it supposes, by name of the fact.
    """

    __slots__ = ("facts",)

    facts: dict[str, str]

    def __new__(cls, text: str, facts: dict[Fact, str] | None = None) -> Assumption:
        """The text, with what it supposes."""
        made = super().__new__(cls, text)
        made.facts = {str(name): value for name, value in (facts or {}).items()}
        return made


def contradictions(assumptions: Iterable[str]) -> list[str]:
    """The facts that some of the assumptions suppose to be one thing and others another, by name, sorted.

    Plain strings suppose nothing that could be compared.
    """
    known: dict[str, set[str]] = {}
    for assumption in assumptions:
        if isinstance(assumption, Assumption):
            for name, value in assumption.facts.items():
                known.setdefault(name, set()).add(value)
    return sorted(name for name, values in known.items() if len(values) > 1)
