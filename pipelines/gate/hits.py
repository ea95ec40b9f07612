"""What the gate finds in sentences, pass by pass, and what follows from it: held rows, and why.

Which rows are held is a function of the corpus and of what is searched for: it is the same for any number of passes.
Memory holds the finds of one partition at a time, and the distinct strings that were found.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Final

from pipelines.artifacts import Source, Target
from pipelines.gate.search import Hit, Hits, finds_in_tags, public_rows, words_of_row
from pipelines.gate.strings import Choice, StringIndex, places_of_words
from pipelines.policies.held import HELD, Place, Range, digest_of_held, table_of_held
from pipelines.tables import Table

_WORDS: Final = 1_000_000
"""Distinct public words held at once (about 100 MB)."""
Found = Mapping[Place, Mapping[str, str]]
"""Rows with the strings that stand in them, and the labels of these, all sorted."""


class Finds:
    """Finds in files, by partition.

    Args:
        scratch: an empty folder for the files.
    """

    def __init__(self, scratch: Target) -> None:
        self._scratch = scratch
        self._files: dict[str, list[str]] = {}  # of each partition, one for each pass
        self.strings: set[str] = set()
        self._dismissed: set[str] = set()

    def dismiss(self, strings: Set[str]) -> None:
        """Leaves strings out from now on, because they are no secrets."""
        self._dismissed |= strings
        self.strings -= strings

    @contextmanager
    def writer(self, partition: str) -> Iterator[Callable[[Place, Mapping[str, str]], None]]:
        """Yields a function that takes what one pass finds in a row: strings with their labels."""
        files = self._files.setdefault(partition, [])
        files.append(f"{partition}/{len(files)}.jsonl")
        with self._scratch.lines(files[-1]) as file:

            def add(place: Place, strings: Mapping[str, str]) -> None:
                file.write(json.dumps([*place, strings]).encode() + b"\n")
                self.strings.update(strings)

            yield add

    def of(self, partition: str) -> Found:
        """Returns all that was found in the rows of a partition."""
        found: dict[Place, dict[str, str]] = {}
        for name in self._files.get(partition, ()):
            for doc_id, sentence_index, strings in map(json.loads, Source(folder=self._scratch.folder).lines(name)):
                if left := {s: label for s, label in strings.items() if s not in self._dismissed}:
                    found.setdefault((doc_id, sentence_index), {}).update(left)
        return {place: dict(sorted(strings.items())) for place, strings in sorted(found.items())}


def search_rows(
    table: Table,
    index: StringIndex,
    choice: Choice,
    add: Callable[[Place, Mapping[str, str]], None],
    in_tags: Hits,
    may_hold: Iterator[bool],
) -> None:
    """Searches some strings in the rows of a partition that would be public.

    Args:
        table: the redacted table.
        index: index of the strings.
        choice: rule by which text is compared.
        add: function that takes what is found in a row's text.
        in_tags: collector of what is found in a row's speaker, domain or label.
        may_hold: flag of each of these rows that one of the strings may stand in it.
    """
    for row in public_rows(table):
        if not next(may_hold):
            continue
        for hit in finds_in_tags(row, index, choice):
            in_tags.add(hit)
        if found := index.find(choice.words(row["redacted_text"])):
            add((row["doc_id"], row["sentence_index"]), {string: index.labels[string] for string in found})


def judged_to_be_none(
    tables: Mapping[str, Table], finds: Finds, choice: Choice, secrets_of: Callable[[str], Sequence[Range] | None]
) -> set[str]:
    """Returns the strings that reviewers call no secret in a sentence that they judged, and a secret in none.

    Args:
        tables: the redacted table of each partition.
        finds: strings found, by row.
        choice: rule by which text is compared.
        secrets_of: function that gives the characters of a sentence that reviewers call sensitive; None if nobody
            judged the sentence.
    """
    none, some = set[str](), set[str]()
    for partition, table in tables.items():
        found = finds.of(partition)
        for row in public_rows(table) if found else ():
            strings = found.get((row["doc_id"], row["sentence_index"]), {})
            if not strings or (secrets := secrets_of(row["redacted_text"])) is None:
                continue
            for string, label in strings.items():
                places = ranges_of(row["redacted_text"], {string: label}, choice)
                is_secret = any(start < end and one < other for start, other in places for one, end in secrets)
                (some if is_secret else none).add(string)
    return none - some


def first_masked(tables: Sequence[Table], strings: set[str]) -> dict[str, Place]:
    """Returns the first row in which each string is masked; ``tables`` are ``gate_places`` tables in order."""
    found: dict[str, Place] = {}
    for table in tables if strings else ():
        for row in table.rows():
            if row["string"] in strings:
                found.setdefault(row["string"], (row["doc_id"], row["sentence_index"]))
    return found


def explained(tables: Mapping[str, Table], finds: Finds, masked: Mapping[str, Place]) -> Iterator[Hit]:
    """Yields every find in a sentence: the string, where it stands, and where it is masked."""
    for partition, table in tables.items():
        found = finds.of(partition)
        for row in public_rows(table) if found else ():
            for string, label in found.get((row["doc_id"], row["sentence_index"]), {}).items():
                yield Hit(
                    file="public.parquet",
                    string=string,
                    label=label,
                    text=row["redacted_text"],
                    doc_id=row["doc_id"],
                    sentence_index=row["sentence_index"],
                    masked_doc_id=masked[string][0],
                    masked_sentence_index=masked[string][1],
                )


def ranges_of(text: str, strings: Mapping[str, str], choice: Choice) -> list[Range]:
    """Returns where strings stand in a text, in any spelling that the gate takes for equal.

    Returns:
        Half-open ranges of characters in order; those that only white space parts are one.
    """
    words = places_of_words(text, case_sensitive=choice.case_sensitive)
    found = StringIndex(strings).places([word for word, _, _ in words])
    merged: list[Range] = []
    for start, end in sorted((words[first][1], words[stop - 1][2]) for first, stop in found):
        if merged and not text[merged[-1][1] : start].strip():  # next to each other, or one over the other
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def write_held(out: Target, tables: Mapping[str, Table], finds: Finds, choice: Choice) -> Counter[str]:
    """Writes ``<partition>.parquet`` for every partition, ``held.parquet``, ``held.json`` and ``held_by_label.json``.

    Returns:
        How many rows are held, by label; one row may count for several.
    """
    by_label: Counter[str] = Counter()
    digests = []
    with out.table(HELD) as every:
        for partition, table in tables.items():
            found = finds.of(partition)
            held = {}
            for row in public_rows(table) if found else ():
                place = (row["doc_id"], row["sentence_index"])
                if place in found:
                    text = row["redacted_text"]
                    held[place] = ranges_of(text, found[place], choice) or [(0, len(text))]  # fails closed
                    by_label.update({label for labels in found[place].values() for label in labels.split("+")})
            with out.table(HELD, partition) as writer:
                for row in table_of_held(held):
                    writer.append(**row)
                    every.append(**row)
            digests += [digest_of_held(held)] if held else []
    out.json("held.json", {"schema_version": 1, **({"held": digests} if digests else {})})
    out.json("held_by_label.json", dict(sorted(by_label.items())))
    return by_label


def public_parts(
    tables: Mapping[str, Table], finds: Finds, choice: Choice, parts_of: Callable[[Set[str]], Set[str]]
) -> tuple[int, set[str]]:
    """Returns the number of the rows that stay public, and the parts of their words that are strings of one word."""
    num_rows, words, parts = 0, set[str](), set[str]()
    for partition, table in tables.items():
        found = finds.of(partition)
        for row in public_rows(table):
            if (row["doc_id"], row["sentence_index"]) in found:
                continue
            num_rows += 1
            for text in words_of_row(row, choice):
                words.update(text)
            if len(words) > _WORDS:
                parts |= parts_of(words)
                words.clear()
    return num_rows, parts | parts_of(words)
