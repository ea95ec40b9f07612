"""Readers of the data sets below the folder that ``--data-dir`` names."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from common import ROOT

from pipelines.corpus.customersim import simulate
from pipelines.corpus.split import Splitter
from pipelines.policies.judging.judge import Request

sys.path.insert(0, str(ROOT / "tests" / "policies" / "detectors"))
from noisy_text import SETS, noisy_sentences  # noqa: F401

DOMAINS: Final = ("airline", "insurance", "media")
Spans = list[tuple[int, int, str]]
"""Secrets of a text: start, end and kind of each."""

Text = tuple[str, Spans]
"""A text and its secrets."""


def wikitext(folder: Path, part: str, *, min_words: int = 0, headings: bool = False) -> list[str]:
    """Reads the paragraphs of a raw file of WikiText-2."""
    lines = (folder / "wikitext2" / f"wiki.{part}.raw").read_text("utf-8").splitlines()
    found = [line.strip() for line in lines if line.strip() and len(line.split()) >= min_words]
    return [line for line in found if headings or not line.startswith("=")]


def multidogo_words(folder: Path, domain: str, part: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the words and slots of each turn of MultiDoGO; broken lines are left out."""
    lines = (folder / "multidogo" / domain / f"{part}.tsv").read_text("utf-8", "replace").splitlines()[1:]
    for columns in (line.split("\t") for line in lines):
        if len(columns) == 7:
            words, slots = columns[4].split(), columns[5].split()
            if len(words) == len(slots):
                yield words, slots


def multidogo(folder: Path, part: str) -> Iterator[Text]:
    """Yields the turns of MultiDoGO with their slots, word by word."""
    for domain in DOMAINS:
        for words, slots in multidogo_words(folder, domain, part):
            text, spans = "", Spans()
            for word, slot in zip(words, slots, strict=True):
                text += " " * bool(text)
                if slot != "O":
                    spans.append((len(text), len(text) + len(word), slot))
                text += word
            yield text, spans


def posts(file: Path) -> Iterator[Text]:
    """Yields the posts of a CoNLL file: a word and its label per line, with an empty line between posts."""
    for block in file.read_text("utf-8").split("\n\n"):
        text, spans = "", Spans()
        for word, label in (line.split("\t") for line in block.splitlines() if line.strip()):
            text += " " * bool(text)
            start, kind = len(text), label[2:].upper().replace("-", "_")
            text += word
            if label[0] == "I" and spans and spans[-1][1] == start - 1:
                spans[-1] = (spans[-1][0], len(text), spans[-1][2])
            elif label != "O":
                spans.append((start, len(text), kind))
        yield text, spans


def ner(folder: Path, name: str) -> Iterator[Text]:
    return posts(folder / "ner" / f"{name}.conll")


def presidio_research(
    folder: Path, change: Callable[[str], str] | None = None, chosen: Callable[[Any], bool] = lambda record: True
) -> Iterator[Text]:
    """Yields the published texts of presidio-research.

    Args:
        folder: folder of data sets.
        change: function that is applied between and inside secrets, so that their places stay known.
        chosen: function that tells if a record is read.
    """
    for record in filter(chosen, json.loads((folder / "presidio_research" / "synth_dataset_v2.json").read_text())):
        whole, spans = record["full_text"], record["spans"]
        if change is None:
            yield whole, [(s["start_position"], s["end_position"], s["entity_type"]) for s in spans]
            continue
        text, gold, at = "", Spans(), 0
        for span in sorted(spans, key=lambda span: span["start_position"]):
            text += change(whole[at : span["start_position"]])
            secret = change(whole[span["start_position"] : span["end_position"]])
            if secret.strip():
                gold.append((len(text), len(text) + len(secret), span["entity_type"]))
            text, at = text + secret, span["end_position"]
        yield text + change(whole[at:]), gold


def customersim(folder: Path) -> Iterator[Text]:
    """Yields the published test dialogues of CustomerSim, turn by turn, without labels."""
    with (folder / "customersim" / "test.jsonl").open(encoding="utf-8") as file:
        for line in file:
            for turn in json.loads(line)["text"].splitlines():
                yield turn.partition(": ")[2], []


def simulated(number: int, seed: int, which: str = "A") -> Iterator[Text]:
    for made in simulate(number, seed, which):
        yield made["text"], [(s["start"], s["end"], s["label"]) for s in made["spans"]]


def sentences_of(texts: Iterable[Text], mode: str) -> Iterator[tuple[Request, Spans]]:
    """Yields sentences as the split stage cuts them, with the parts of secrets in each."""
    for _, request, inside in chunks_of(texts, mode):
        yield request, inside


def chunks_of(texts: Iterable[Text], mode: str, *, cut_fields: bool = False) -> Iterator[tuple[int, Request, Spans]]:
    """Yields sentences as the split stage cuts them, with the number of the text and the parts of secrets in each."""
    splitter = Splitter(mode=mode, max_sentence_tokens=256, cut_fields=cut_fields)
    for number, ((_, gold), sentences) in enumerate(splitter.split_each(texts, lambda row: (row[0], None))):
        for s in sentences:
            base, end = s.char_start, s.char_start + len(s.text)
            inside = [(max(a, base) - base, min(b, end) - base, kind) for a, b, kind in gold if a < end and b > base]
            yield number, Request(s.text, s.token_starts, s.token_ends), inside


def requests_of(texts: Iterable[str], splitter: Splitter) -> list[Request]:
    """Returns the sentences of texts as requests to a judge."""
    return [Request(s.text, s.token_starts, s.token_ends) for found in splitter.split(texts) for s in found]
