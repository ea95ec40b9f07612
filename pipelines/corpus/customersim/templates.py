"""The wordings and value formats of the CustomerSim simulator, in two sets that share neither.

Set A is for working on policies. Set B, with other words, other formats and barer answers, is held out, to see whether
a policy learnt the secrets or the templates. In a template, ``{NAME}`` and the like stand for a secret with that label;
``{item}`` is not a secret.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random

LABELS = ("NAME", "ADDRESS", "PHONE", "ORDER", "TRACKING")
BASE36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, kw_only=True)
class TemplateSet:
    """Wordings by purpose, and how each kind of secret is written.

    ``greetings``, ``hellos``, ``requests``: how a dialogue opens (agent, then customer). ``asks`` and ``answers``: by
    label. ``resolutions``: the agent's answer, with the tracking number. ``more``: the agent's question after it.
    ``dones``, ``byes``: the customer's last turn, its second half when the agent replies. ``farewells``: that reply.
    ``formats``: by label, from random source and plain value to the value as written.
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
    text = resources.files(__package__).joinpath("templates.toml").read_text("utf-8")
    return {name: TemplateSet(**lists, formats=_FORMATS[name]) for name, lists in tomllib.loads(text).items()}


TEMPLATE_SETS = _template_sets()
