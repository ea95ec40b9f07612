"""The labelled texts of `benchmarks/pii.py`, with a flag for those that nobody looked at while writing policies."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from data_sets import DOMAINS, multidogo_words, ner, noisy_sentences, presidio_research, simulated, wikitext
from data_sets import Text as Labelled
from pii_mails import mails

ORDINARY = frozenset(
    {
        *("service_type", "datacategoryvalues", "car_year", "car_model", "car_brand", "seat_type", "price"),
        *("number_of_passengers", "start_date", "end_date", "date", "departure_time", "arrival_time"),
    }
)
"""Slots of MultiDoGO that are wishes, and no name, number or place of a person."""


class TextSet(NamedTuple):
    """Labelled texts.

    Attributes:
        held_out: true if nobody looked at them while the policies were changed; the others flatter tuned policies.
        mode: mode of splitting into sentences; "whole" for no splitting, as `reticent evaluate-policy` reads texts.
        texts: function that makes the texts.
    """

    held_out: bool
    mode: str
    texts: Callable[[], Iterable[Labelled]]


def multidogo(folder: Path, domain: str, ordinary: bool) -> Iterator[Labelled]:
    """Yields sentences of customers; without ``ordinary``, only slots that point at a person are secrets."""
    for words, slots in multidogo_words(folder, domain, "test"):
        text, spans = "", list[tuple[int, int, str]]()
        for word, slot in zip(words, slots, strict=True):
            text += " " * bool(text)
            if slot != "O" and (ordinary or slot not in ORDINARY):
                goes_on = bool(spans) and spans[-1][2] == slot and spans[-1][1] == len(text) - 1
                start = spans.pop()[0] if goes_on else len(text)
                spans.append((start, len(text) + len(word), slot))
            text += word
        yield text, spans


_ANSWERS = (
    ("full name", r"(?:My name's |Yep - I'm |Yep - |Sure, |Yes, |I am )?(.*?)\.?$", "NAME"),
    ("phone", r"(?:Phone number is |You can reach me at |my number is )?(.*?)\.?$", "PHONE"),
    ("address", r"(?:Yea sure, |Ok, it is |My address is |Shipping address is )?(.*?)\.?$", "ADDRESS"),
    ("order number", r"(?:Yes, |My order number is |It's |Sure, it is )?(.*?)\.?$", "ORDER"),
)
"""Questions of the published CustomerSim, and beginnings of its customers' answers."""


def customersim(folder: Path) -> Iterator[Labelled]:
    """Yields turns of the published test dialogues; the secrets are the part of an answer that no template has."""
    with (folder / "customersim" / "test.jsonl").open(encoding="utf-8") as file:
        for line in islice(file, 400):
            asked = ""
            for turn in json.loads(line)["text"].splitlines():
                speaker, _, text = turn.partition(": ")
                if speaker == "SYS":
                    asked = text
                    codes = re.finditer(r"(?<![A-Z0-9])[A-Z0-9]{10}(?![A-Z0-9])", text)
                    yield text, [(*code.span(), "TRACKING") for code in codes]
                    continue
                found = next((re.match(p, text) and (p, kind) for cue, p, kind in _ANSWERS if cue in asked), None)
                answer = re.match(found[0], text) if found else None
                spans = [(*answer.span(1), found[1])] if answer and found and answer[1] else []
                yield text, spans
                asked = ""


def plain_texts(folder: Path) -> dict[str, TextSet]:
    """Returns sets of text with no private person and (nearly) no identifier; nobody looked at them."""

    def articles() -> Iterator[Labelled]:
        return ((line, []) for line in wikitext(folder, "test", headings=True)[:600])

    def reviews() -> Iterator[Labelled]:
        lines = (folder / "sst2" / "dev.jsonl").read_text("utf-8").splitlines()
        return ((next(v for v in json.loads(line).values() if isinstance(v, str)), []) for line in lines)

    def restaurants() -> Iterator[Labelled]:
        with (folder / "e2e" / "devset.csv").open(encoding="utf-8", newline="") as file:
            yield from ((row["ref"], []) for row in islice(csv.DictReader(file), 1_500))

    return {
        "WikiText-2 test": TextSet(True, "rules", articles),
        "SST-2 dev": TextSet(True, "rules", reviews),
        "E2E dev": TextSet(True, "rules", restaurants),
    }


def text_sets(folder: Path, seed: int) -> dict[str, TextSet]:
    """Returns every set by name."""

    def research(*, odd: bool) -> Iterator[Labelled]:
        return presidio_research(folder, chosen=lambda record: record["template_id"] % 2 == odd)

    return {
        "presidio-research, even templates": TextSet(False, "rules", lambda: research(odd=False)),
        "presidio-research, odd templates": TextSet(True, "rules", lambda: research(odd=True)),
        "presidio-research, odd, whole texts": TextSet(True, "whole", lambda: research(odd=True)),
        **{
            f"MultiDoGO {domain} test": TextSet(True, "turns", lambda d=domain: multidogo(folder, d, ordinary=True))
            for domain in DOMAINS
        },
        "MultiDoGO test, slots of persons": TextSet(
            True, "turns", lambda: (row for domain in DOMAINS for row in multidogo(folder, domain, ordinary=False))
        ),
        "WNUT-17 dev": TextSet(True, "turns", lambda: ner(folder, "wnut17_dev")),
        "BTC dev": TextSet(True, "turns", lambda: ner(folder, "btc_dev")),
        "CustomerSim test": TextSet(True, "turns", lambda: customersim(folder)),
        "simulator A": TextSet(True, "auto", lambda: simulated(150, seed, "A")),
        "simulator B": TextSet(True, "auto", lambda: simulated(150, seed, "B")),
        **{
            f"noisy {which}": TextSet(which in "DE", "turns", lambda w=which: noisy_sentences(w, 1_500, seed))
            for which in "ABCDE"
        },
        "mails A": TextSet(False, "rules", lambda: mails("A", 300, seed)),
        "mails B": TextSet(True, "rules", lambda: mails("B", 300, seed)),
    }
