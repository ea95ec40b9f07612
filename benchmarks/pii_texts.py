"""The labelled texts of `benchmarks/pii.py`, and which of them were looked at while policies were written."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pii_mails import Labelled, mails
from stability import posts

from pipelines.corpus.customersim import simulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "policies" / "detectors"))
from noisy_text import noisy_sentences

DOMAINS = ("airline", "insurance", "media")
ORDINARY = frozenset(
    {
        *("service_type", "datacategoryvalues", "car_year", "car_model", "car_brand", "seat_type", "price"),
        *("number_of_passengers", "start_date", "end_date", "date", "departure_time", "arrival_time"),
    }
)
"""Slots of MultiDoGO that say what somebody wants and nobody's name, number or place."""


class TextSet(NamedTuple):
    """Labelled texts.

    Attributes:
        held_out: nobody looked at them while the policies were changed; the others flatter what was tuned on them.
        mode: how they are split into sentences; "whole": not at all, as `reticent evaluate-policy` reads them.
        texts: makes them.
    """

    held_out: bool
    mode: str
    texts: Callable[[], Iterable[Labelled]]


def presidio_research(folder: Path, odd: bool) -> Iterator[Labelled]:
    """The texts of templates with an odd, or an even, number."""
    for row in json.loads((folder / "presidio_research" / "synth_dataset_v2.json").read_text("utf-8")):
        if row["template_id"] % 2 == odd:
            spans = [(s["start_position"], s["end_position"], s["entity_type"]) for s in row["spans"]]
            yield row["full_text"], spans


def multidogo(folder: Path, domain: str, ordinary: bool) -> Iterator[Labelled]:
    """Sentences of customers; without ``ordinary``, only slots that point at a person are secrets."""
    lines = (folder / "multidogo" / domain / "test.tsv").read_text("utf-8", "replace").splitlines()[1:]
    for columns in (line.split("\t") for line in lines):
        words, slots = (columns[4].split(), columns[5].split()) if len(columns) == 7 else ([], ["?"])
        if len(words) != len(slots):
            continue  # broken by a line break
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
"""What the published CustomerSim asks, and how its customers begin the answer."""


def customersim(folder: Path) -> Iterator[Labelled]:
    """Turns of the published test dialogues; the secrets are what its templates leave of an answer."""
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


def simulated(which: str, seed: int) -> Iterator[Labelled]:
    for made in simulate(150, seed, which):
        yield made["text"], [(s["start"], s["end"], s["label"]) for s in made["spans"]]


def plain_texts(folder: Path) -> dict[str, TextSet]:
    """Text that names no private person and holds no identifier, or next to none; not looked at."""

    def articles() -> Iterator[Labelled]:
        lines = (folder / "wikitext2" / "wiki.test.raw").read_text("utf-8").splitlines()
        return ((line.strip(), []) for line in [x for x in lines if x.strip()][:600])

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
    """Every set by name."""

    def conll(name: str) -> Callable[[], Iterable[Labelled]]:
        return lambda: (
            (text, [(s.start, s.end, s.label) for s in spans]) for text, spans in posts(folder / "ner" / name)
        )

    sets = {
        "presidio-research, even templates": TextSet(False, "rules", lambda: presidio_research(folder, odd=False)),
        "presidio-research, odd templates": TextSet(True, "rules", lambda: presidio_research(folder, odd=True)),
        "presidio-research, odd, whole texts": TextSet(True, "whole", lambda: presidio_research(folder, odd=True)),
        **{
            f"MultiDoGO {domain} test": TextSet(True, "turns", lambda d=domain: multidogo(folder, d, ordinary=True))
            for domain in DOMAINS
        },
        "MultiDoGO test, slots of persons": TextSet(
            True, "turns", lambda: (row for domain in DOMAINS for row in multidogo(folder, domain, ordinary=False))
        ),
        "WNUT-17 dev": TextSet(True, "turns", conll("wnut17_dev.conll")),
        "BTC dev": TextSet(True, "turns", conll("btc_dev.conll")),
        "CustomerSim test": TextSet(True, "turns", lambda: customersim(folder)),
        "simulator A": TextSet(True, "auto", lambda: simulated("A", seed)),
        "simulator B": TextSet(True, "auto", lambda: simulated("B", seed)),
        **{
            f"noisy {which}": TextSet(which in "DE", "turns", lambda w=which: noisy_sentences(w, 1_500, seed))
            for which in "ABCDE"
        },
        "mails A": TextSet(False, "rules", lambda: mails("A", 300, seed)),
        "mails B": TextSet(True, "rules", lambda: mails("B", 300, seed)),
    }
    return sets
