"""Table-to-text generation: E2E (Novikova et al. 2017) and DART (Nan et al. 2020), as Li et al. (2022) use them.

A table is written out as one line of ``key : value`` pairs joined by ``|``, which is the form of Li et al.'s table 11,
and the model learns to continue it with the description.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipelines.errors import InputError
from pipelines.training.models.vocabulary import TextEncoder
from pipelines.training.tasks.examples import Example
from pipelines.training.tasks.prompts import prompt_ids, prompted_example
from pipelines.training.tokenizer import ControlTokens

Table = tuple[tuple[str, ...], ...]
"""Rows of a table: (key, value) pairs of E2E, (subject, relation, object) triples of DART."""

_FIELD: Final = re.compile(r"\s*([^\[\],]+)\[([^\]]*)\]\s*(?:,|$)")
# The names that Li et al.'s table 11 shows.
_E2E_KEYS: Final[Mapping[str, str]] = {
    "eatType": "Type",
    "priceRange": "price",
    "familyFriendly": "family friendly",
}


@dataclass(frozen=True, kw_only=True)
class Described:
    """A table and its descriptions.

    Attributes:
        table: its rows.
        references: the descriptions that people wrote; at least one.
    """

    table: Table
    references: tuple[str, ...]


def parse_e2e(meaning: str) -> Table:
    """The pairs of an E2E meaning representation, ``name[The Mill], area[riverside]``.

    Raises:
        InputError: it is none.
    """
    pairs, at = [], 0
    while at < len(meaning.rstrip()):
        field = _FIELD.match(meaning, at)
        if field is None:
            raise InputError("table-to-text: a meaning representation is not of the form key[value], key[value]")
        key = field[1].strip()
        pairs.append((_E2E_KEYS.get(key, key), field[2].strip()))
        at = field.end()
    if not pairs:
        raise InputError("table-to-text: a meaning representation is empty")
    return tuple(pairs)


def parse_dart(tripleset: Iterable[Sequence[str]]) -> Table:
    """The triples of a DART entry.

    Raises:
        InputError: a row is no (subject, relation, object), or there is none.
    """
    table = tuple(tuple(part.strip() for part in triple) for triple in tripleset)
    if not table or any(len(triple) != 3 for triple in table):
        raise InputError("table-to-text: a DART entry needs triples of (subject, relation, object)")
    return table


def linearise(table: Table) -> str:
    """One line: ``name : The Mill | Type : pub``; a DART triple is ``subject : relation : object``."""
    return " | ".join(" : ".join(row) for row in table)


def read_e2e(path: Path) -> Iterator[tuple[Table, str]]:
    """(table, description) pairs of an E2E file: CSV with ``mr`` and ``ref``, or JSON lines.

    JSON lines may hold the tokenised text of ``ref_tokenised``, which is put back together: blanks before punctuation
    go.

    Raises:
        InputError: a column is missing, or a row is no meaning representation.
    """
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if not {"mr", "ref"} <= set(reader.fieldnames or ()):
                raise InputError("table-to-text: an E2E file needs the columns mr and ref")
            for row in reader:
                yield parse_e2e(row["mr"]), row["ref"].strip()
    else:
        with path.open(encoding="utf-8") as file:
            for line in file:
                entry: dict[str, Any] = json.loads(line)
                if "mr" not in entry or not {"ref", "ref_tokenised"} & entry.keys():
                    raise InputError("table-to-text: an E2E line needs mr and ref, or ref_tokenised")
                text = entry["ref"] if "ref" in entry else detokenise(entry["ref_tokenised"])
                yield parse_e2e(entry["mr"]), text


def read_dart(path: Path) -> Iterator[tuple[Table, str]]:
    """(table, description) pairs of a DART JSON file.

    Raises:
        InputError: it has another form.
    """
    entries = json.loads(path.read_text(encoding="utf-8"))
    try:
        for entry in entries:
            table = parse_dart(entry["tripleset"])
            for annotation in entry["annotations"]:
                yield table, annotation["text"].strip()
    except (KeyError, TypeError, AttributeError):
        raise InputError("table-to-text: a DART file is a list of entries with tripleset and annotations") from None


def group_references(pairs: Iterable[tuple[Table, str]]) -> list[Described]:
    """One entry a table, with all its references, in the order of first appearance: what metrics are computed on."""
    grouped: dict[Table, list[str]] = {}
    for table, text in pairs:
        grouped.setdefault(table, []).append(text)
    return [Described(table=table, references=tuple(texts)) for table, texts in grouped.items()]


_BLANKS: Final = (
    (re.compile(r" ([.,!?;:%)\]])"), r"\1"),
    (re.compile(r"([(\[£$]) "), r"\1"),
    (re.compile(r" ('s|'re|'ve|'ll|'d|'m|n't)\b"), r"\1"),
    (re.compile(r"(\w) - (\w)"), r"\1-\2"),
)


def detokenise(text: str) -> str:
    """Text without the blanks that a tokenizer put round punctuation; a heuristic, good for training on."""
    for pattern, replacement in _BLANKS:
        text = pattern.sub(replacement, text)
    return text.strip()


def table_example(
    table: Table, description: str, encoder: TextEncoder, control: ControlTokens, context_length: int
) -> Example:
    """An example whose loss is on the description only."""
    prompt, answer = encoder.ids([linearise(table), description])
    return prompted_example(prompt, answer, control, context_length)


def table_prompt(
    table: Table, encoder: TextEncoder, control: ControlTokens, context_length: int, max_new_tokens: int
) -> list[int]:
    """What the model continues; it leaves room for ``max_new_tokens``."""
    return prompt_ids(encoder.ids([linearise(table)])[0], control, context_length - max_new_tokens)
