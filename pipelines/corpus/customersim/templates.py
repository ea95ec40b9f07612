"""The wordings and value formats of the CustomerSim simulator, in two disjoint sets.

Set A is for working on policies. Set B, with other words, other formats and shorter answers, is held out, to show if a
policy learnt the secrets or the templates. In a template, ``{NAME}`` and the like mark a secret with that label.
``{item}`` is not a secret. Talk (`Talk`) holds no secret.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random
from typing import Any

LABELS = ("NAME", "ADDRESS", "PHONE", "ORDER", "TRACKING")
BASE36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


PLACEHOLDER = re.compile(r"\{(\w+)\}")
_MAX_CLOSING = 3
_OPENING_SHARE = 0.5  # share of dialogues in which the agent asks something that is not a secret
_CLOSING_SHARE = 0.55  # share of possible ends at which the customer says something more


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A grammar of exchanges: product questions, opening hours, explanations, complaints, thanks, small talk.

    In ``opening``, the agent speaks first; in ``closing``, the customer. ``{word}`` in an exchange stands for one line
    of ``words[word]``, the same in the whole exchange. ``{item}`` stands for the subject of the dialogue.
    """

    opening: Sequence[Sequence[str]]
    closing: Sequence[Sequence[str]]
    words: Mapping[str, Sequence[str]]

    def played(self, rng: Random, item: str) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
        """Draws the exchanges of one dialogue, those before the checks and those before the goodbye."""
        opening = [self._exchange(rng, self.opening, item)] if rng.random() < _OPENING_SHARE else []
        closing: list[Sequence[str]] = []
        while len(closing) < _MAX_CLOSING and rng.random() < _CLOSING_SHARE:
            closing.append(self._exchange(rng, self.closing, item))
        return opening, closing

    def _exchange(self, rng: Random, exchanges: Sequence[Sequence[str]], item: str) -> Sequence[str]:
        chosen = {"item": item}

        def choose(match: re.Match[str]) -> str:
            if match[1] not in chosen:
                chosen[match[1]] = rng.choice(self.words[match[1]])
            return chosen[match[1]]

        # A line may be empty and then leaves no space.
        return [" ".join(PLACEHOLDER.sub(choose, turn).split()) for turn in rng.choice(exchanges)]


@dataclass(frozen=True, kw_only=True)
class TemplateSet:
    """Wordings by purpose, and the notation of each kind of secret.

    ``greetings``, ``hellos``, ``requests``: how a dialogue opens (agent, then customer). ``asks`` and ``answers``: by
    label. ``resolutions``: the agent's answer, with the tracking number. ``more``: the agent's question after it.
    ``dones``, ``byes``: the customer's last turn, its second half when the agent replies. ``farewells``: that reply.
    ``formats``: functions by label, from random source and plain value to the written value. ``talk``: other exchanges.
    """

    greetings: Sequence[str]
    hellos: Sequence[str]
    items: Sequence[str]
    requests: Sequence[str]
    asks: dict[str, Sequence[str]]
    answers: dict[str, Sequence[str]]
    resolutions: Sequence[str]
    more: Sequence[str]
    dones: Sequence[str]
    byes: Sequence[str]
    farewells: Sequence[str]
    formats: dict[str, Callable[[Random, str], str]]
    talk: Talk


def _as_is(rng: Random, value: str) -> str:
    return value


def _phone_a(rng: Random, value: str) -> str:
    area, exchange, line = value[:3], value[3:6], value[6:]
    return rng.choice((f"{area}-{exchange}-{line}", f"{area}.{exchange}.{line}", value))


def _phone_b(rng: Random, value: str) -> str:
    area, exchange, line = value[:3], value[3:6], value[6:]
    forms = (f"({area}) {exchange} {line}", f"+1 {area} {exchange} {line}", f"1/{area}/{exchange}/{line}")
    return rng.choice(forms)


def _name_b(rng: Random, value: str) -> str:
    first, _, last = value.partition(" ")
    return rng.choice((value.lower(), f"{last}, {first}", f"{first[0]}. {last}", value.upper()))


def _address_b(rng: Random, value: str) -> str:
    return rng.choice((value.lower(), value.replace(" Apt. ", " #").replace(" Suite ", ", unit ").upper()))


def _order_b(rng: Random, value: str) -> str:
    digits = value.replace("-", "")
    return rng.choice((f"#{digits[:8]}/{digits[8:]}", f"po{digits[:9]}", f"{digits[:6]} {digits[6:]}"))


def _tracking_b(rng: Random, value: str) -> str:
    return rng.choice((f"1Z {value[:5]} {value[5:]}", f"trk-{value[:4]}-{value[4:]}".lower(), f"{value}US"))


_FORMATS: dict[str, dict[str, Callable[[Random, str], str]]] = {
    "A": {"NAME": _as_is, "ADDRESS": _as_is, "PHONE": _phone_a, "ORDER": _as_is, "TRACKING": _as_is},
    "B": {"NAME": _name_b, "ADDRESS": _address_b, "PHONE": _phone_b, "ORDER": _order_b, "TRACKING": _tracking_b},
}


def _template_sets() -> dict[str, TemplateSet]:
    return {
        name: TemplateSet(**lists, formats=_FORMATS[name], talk=Talk(**_read(f"talk_{name.lower()}")))
        for name, lists in _read("templates").items()
    }


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))


TEMPLATE_SETS = _template_sets()
