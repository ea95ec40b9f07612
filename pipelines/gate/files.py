"""Searching files of any kind before they are published."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.files import read_file, to_be_read
from pipelines.gate.index import indexes_to_search
from pipelines.gate.own import own_words
from pipelines.gate.search import Hit, Hits
from pipelines.gate.strings import words_of
from pipelines.tables import Table

Kind = Literal["text", "vocabulary"]

SKIPPED_SUFFIXES: Final = frozenset({".safetensors"})
"""Weights: numbers that no search for text can judge. What they may give away is what the guarantee is about."""
_VOCABULARIES: Final = frozenset({"tokenizer.json", "vocab.json"})
_CARD: Final = "README.md"
_CARD_TEXTS: Final = frozenset({"model_card.md", "data_card.md"})
"""What the report stage writes for the cards of releases: the sentences and figures of the public report."""
_OWN_FILES: Final = frozenset({_CARD, "report.json"})
"""Our own documents beside pages; any other text is in a format of ``transformers``."""
_VERSION: Final = "transformers_version"
"""Whoever saves a model writes the version of the library there; its digits are no number of the corpus."""
_MAX_SHOWN: Final = 1_000


@dataclass(frozen=True)
class Unit:
    """A piece of a file that is searched by itself: a cell, a JSON string, a vocabulary entry, a whole text."""

    text: str
    where: str = ""
    """The keys that lead to it in a JSON document, as a path; places in lists, and numbers as keys, are left open."""
    kind: Kind = "text"
    is_computed: bool = False
    """Its numbers are computed ones, so a string of digits alone is no find."""
    is_prose: bool = False
    """It holds our own wording, which cannot come from the corpus."""
    is_format: bool = False
    """It holds words of a file format that is not ours."""


def units_of(path: Path) -> Iterator[Unit]:
    """What a file says, piece by piece. A file that is not what its name promises is read as text."""
    is_format = path.name not in _OWN_FILES
    if path.suffix == ".parquet":
        yield from _cells(path)
    elif path.suffix == ".json":
        text = _text_of(path)
        try:
            document = json.loads(text)
        except ValueError:
            yield Unit(text)
        else:
            yield from _vocabulary(document) if path.name in _VOCABULARIES else json_units(document, is_format)
    elif path.suffix == ".html":
        yield from page_units(_text_of(path))
    elif path.name in _CARD_TEXTS:
        yield Unit(_text_of(path), is_computed=True, is_prose=True)
    elif path.suffix not in SKIPPED_SUFFIXES:
        yield Unit(_text_of(path), is_prose=True, is_format=is_format)


def _text_of(path: Path) -> str:
    return read_file(path).decode("utf-8", "replace")


def _cells(path: Path) -> Iterator[Unit]:
    with pq.ParquetFile(to_be_read(path)) as table:
        schema = table.schema_arrow
        for field in schema:
            is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
            if is_text:  # no column is exempt for its name
                for batch in table.iter_batches(columns=[field.name]):
                    yield from (Unit(value) for value in batch.column(0).to_pylist() if value)


class _PageText(HTMLParser):
    """What a page says: its text, each piece between two tags on a line; and each attribute and comment by itself.

    Characters that are written as entities (``O&#39;Brien``) come as what they stand for.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self.others: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Takes the attributes' values."""
        self.others += [value for _, value in attrs if value]

    def handle_data(self, data: str) -> None:
        """Takes text."""
        self.lines.append(" ".join(data.split()))

    def handle_comment(self, data: str) -> None:
        """Takes a comment."""
        self.others.append(data)


def page_units(html: str) -> Iterator[Unit]:
    """What an HTML page says."""
    page = _PageText()
    page.feed(html)
    page.close()
    for text in ("\n".join(page.lines), *page.others):
        yield Unit(text, is_computed=True, is_prose=True)


def json_units(value: Any, is_format: bool = False, where: str = "") -> Iterator[Unit]:
    """Every string in a JSON document, keys included. Numbers are computed by us, never quoted."""
    if isinstance(value, str):
        yield Unit(value, where, is_prose=True, is_format=is_format)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield Unit(key, where, is_prose=True, is_format=is_format)
            below = f"{where}/{'#' if key.isdigit() else key}"
            if is_format and key == _VERSION and isinstance(inner, str):
                yield Unit(inner, below, is_computed=True)
            else:
                yield from json_units(inner, is_format, below)
    elif isinstance(value, list):
        for inner in value:
            yield from json_units(inner, is_format, f"{where}/[]")


def _vocabulary(document: Any) -> Iterator[Unit]:
    """A tokenizer's file: entries and merges of the vocabulary decoded from the byte-level alphabet, the rest as is."""
    if not isinstance(document, dict):
        yield from json_units(document, is_format=True)
        return
    model = document.get("model") if isinstance(document.get("model"), dict) else None
    vocabulary = (model or {}).get("vocab", {}) if model is not None else document
    entries = [*vocabulary] if isinstance(vocabulary, dict) else [str(entry) for entry in vocabulary]
    entries += ["".join(m) if isinstance(m, list) else m.replace(" ", "") for m in (model or {}).get("merges", [])]
    yield from (Unit(_decoded(entry), kind="vocabulary") for entry in entries)
    if model is not None:
        rest_of_model = {key: value for key, value in model.items() if key not in ("vocab", "merges")}
        yield from json_units({**document, "model": rest_of_model}, is_format=True)


@cache
def _byte_of_character() -> dict[str, int]:
    """The byte-level alphabet of GPT-2: printable bytes stand for themselves, the others for 256 and upwards."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


def _decoded(entry: str) -> str:
    table = _byte_of_character()
    if all(character in table for character in entry):
        return bytes(table[character] for character in entry).decode("utf-8", "replace")
    return entry


def search_folder(folder: Path, table: Table, *, case_sensitive: bool, hits: Hits, basis: Path | None = None) -> None:
    """Searches every file below a folder, and the files' names, for the strings of an index.

    What a public file says exactly as a file of the same name in ``basis`` does, at the same place, is no find: the
    file there is made from settings and from what was made elsewhere, before any text of ours is read, so that it would
    say the same of every text, and that it is there tells nothing of this one. That holds for the names, keys and words
    of a format ("fuse", a library's version), and for a vocabulary that was learnt elsewhere, which holds many names.
    Whatever was added or changed, and the same string at another place, is searched as ever.

    Args:
        folder: what is about to be published.
        table: the index, as `pipelines.gate.index.write_index` filled it.
        case_sensitive: as the index was made.
        hits: what is found is added here.
        basis: files that depend on no text of ours; may be missing. Of ``README.md`` each line counts by itself,
            wherever the public one says it.
    """
    known = _known_units(basis)

    def texts() -> Iterator[list[str]]:
        for _, _, said in _said_in(folder, known):
            yield words_of(said, case_sensitive=case_sensitive)

    for index, parts in indexes_to_search(table, texts):
        if not index.labels:
            continue
        for name, unit, said in _said_in(folder, known):
            found = index.find(words_of(said, case_sensitive=case_sensitive))
            if found and unit.kind == "vocabulary":
                found -= parts
            if found and unit.is_computed:
                found = {string for string in found if not string.replace(" ", "").isdigit()}
            if found and unit.is_prose:
                own = own_words()
                found = {s for s in found if not own.explain(s, said, is_format=unit.is_format)}
            for string in sorted(found):
                text = unit.text if len(unit.text) <= _MAX_SHOWN else ""
                hits.add(Hit(file=name, string=string, label=index.labels[string], text=text))


def _said_in(folder: Path, known: Mapping[str, Set[Unit]]) -> Iterator[tuple[str, Unit, str]]:
    """What the files below a folder, and their names, say beyond what is known: file, unit, and what of it counts."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        unchanged = known.get(path.name, frozenset())
        new_name = name if path.name not in known else path.parent.relative_to(folder).as_posix()
        named = () if path.suffix == ".parquet" else (Unit(new_name, is_prose=True, is_format=True),)
        for unit in (*named, *units_of(path)):
            if unit not in unchanged:
                yield name, unit, _without(unit.text, unchanged) if path.name == _CARD else unit.text


def _known_units(basis: Path | None) -> Mapping[str, Set[Unit]]:
    """What each file of a basis says, by its name."""
    if basis is None or not basis.is_dir():
        return {}
    return {path.name: frozenset(units_of(path)) for path in sorted(basis.rglob("*")) if path.is_file()}


def _without(text: str, known: Set[Unit]) -> str:
    """A text without the lines of some others; what stood beside one is not joined."""
    for line in sorted({line for unit in known for line in unit.text.splitlines() if line}, key=len, reverse=True):
        text = text.replace(line, "\n")
    return text
