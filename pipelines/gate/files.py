"""Searching files of any kind before they are published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.gate.search import Hit, Hits, read_index
from pipelines.gate.strings import StringIndex, words_of

Kind = Literal["text", "vocabulary"]

SKIPPED_SUFFIXES: Final = frozenset({".safetensors"})
"""Weights: numbers that no search for text can judge. What they may give away is what the guarantee is about."""
_PSEUDONYMS: Final = frozenset({"doc_id"})
_VOCABULARIES: Final = frozenset({"tokenizer.json", "vocab.json"})
_FORMAT_WORDS: Final = Path(__file__).with_name("format_words.json")
"""Words of the file formats of ``tokenizers`` and ``transformers``: "fuse" may be a masked name, and is a setting."""
_OWN_SOURCES: Final = ("accounting", "dedup", "miss_rate", "report", "stages", "training")
_TAG: Final = re.compile(r"<[^>]*>")
_MAX_SHOWN: Final = 1_000


@dataclass(frozen=True)
class Unit:
    """A piece of a file that is searched by itself: a cell, a JSON string, a vocabulary entry, a whole text."""

    text: str
    kind: Kind = "text"
    is_computed: bool = False
    """Its numbers are computed ones, so a string of digits alone is no find."""
    is_prose: bool = False
    """It holds our own wording, which cannot come from the corpus."""


def units_of(path: Path) -> Iterator[Unit]:
    """What a file says, piece by piece. A file that is not what its name promises is read as text."""
    if path.suffix == ".parquet":
        yield from _cells(path)
    elif path.suffix == ".json":
        text = path.read_text("utf-8", "replace")
        try:
            document = json.loads(text)
        except ValueError:
            yield Unit(text)
        else:
            yield from _vocabulary(document) if path.name in _VOCABULARIES else _strings(document)
    elif path.suffix == ".html":
        yield Unit(_TAG.sub(" ", path.read_text("utf-8", "replace")), is_computed=True, is_prose=True)
    elif path.suffix not in SKIPPED_SUFFIXES:
        yield Unit(path.read_text("utf-8", "replace"), is_prose=True)


def _cells(path: Path) -> Iterator[Unit]:
    with pq.ParquetFile(path) as table:
        schema = table.schema_arrow
        for field in schema:
            is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
            if is_text and field.name not in _PSEUDONYMS:
                for batch in table.iter_batches(columns=[field.name]):
                    yield from (Unit(value) for value in batch.column(0).to_pylist() if value)


def _strings(value: Any) -> Iterator[Unit]:
    """Every string in a JSON document, keys included. Numbers are computed by us, never quoted."""
    if isinstance(value, str):
        yield Unit(value, is_prose=True)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield Unit(key, is_prose=True)
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _vocabulary(document: Any) -> Iterator[Unit]:
    """A tokenizer's file: entries and merges of the vocabulary decoded from the byte-level alphabet, the rest as is."""
    if not isinstance(document, dict):
        yield from _strings(document)
        return
    model = document.get("model") if isinstance(document.get("model"), dict) else None
    vocabulary = (model or {}).get("vocab", {}) if model is not None else document
    entries = [*vocabulary] if isinstance(vocabulary, dict) else [str(entry) for entry in vocabulary]
    entries += ["".join(m) if isinstance(m, list) else m.replace(" ", "") for m in (model or {}).get("merges", [])]
    yield from (Unit(_decoded(entry), "vocabulary") for entry in entries)
    if model is not None:
        yield from _strings({key: value for key, value in document.items() if key != "model"})
        yield from _strings({key: value for key, value in model.items() if key not in ("vocab", "merges")})


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


def search_folder(
    folder: Path, index_file: Path, *, case_sensitive: bool, hits: Hits, basis: Path | None = None
) -> None:
    """Searches every file below a folder, and the files' names, for the strings of an index.

    A model that was pretrained elsewhere brings a vocabulary that holds many names. What a public file says exactly as
    a file of the same name in ``basis`` does is no find: it was there before any text of ours was read. Whatever was
    added or changed is searched as ever.

    Args:
        folder: what is about to be published.
        index_file: as `pipelines.gate.search.write_index` made it.
        case_sensitive: as the index was made.
        hits: what is found is added here.
        basis: files that were made elsewhere and that the public files build on; may be missing.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    known: dict[str, set[Unit]] = {}
    for path in sorted(basis.iterdir()) if basis is not None and basis.is_dir() else ():
        known[path.name] = set(units_of(path))
    for index, parts in read_index(index_file):
        if not index.labels:
            continue
        own: set[str] | None = None
        for path in files:
            name = path.relative_to(folder).as_posix()
            unchanged = known.get(path.name, set())
            for unit in (Unit(name, is_prose=True), *units_of(path)) if path.suffix != ".parquet" else units_of(path):
                if unit in unchanged:
                    continue
                found = index.find(words_of(unit.text, case_sensitive=case_sensitive))
                if found and unit.kind == "vocabulary":
                    found -= parts
                if found and unit.is_computed:
                    found = {string for string in found if not string.replace(" ", "").isdigit()}
                if found and unit.is_prose:
                    own = _own_wording(index, case_sensitive) if own is None else own
                    found -= own
                for string in sorted(found):
                    text = unit.text if len(unit.text) <= _MAX_SHOWN else ""
                    hits.add(Hit(file=name, string=string, label=index.labels[string], text=text))


def _own_wording(index: StringIndex, case_sensitive: bool) -> set[str]:
    """The strings in the source, or the format, of public prose: "Poisson" is a name, and a way to sample."""
    root = Path(__file__).parents[1]
    return index.singles.intersection(json.loads(_FORMAT_WORDS.read_text("utf-8"))) | {
        string
        for part in _OWN_SOURCES
        for path in sorted((root / part).rglob("*"))
        if path.suffix in (".py", ".html", ".css", ".json")
        for string in index.find(words_of(path.read_text("utf-8"), case_sensitive=case_sensitive))
    }
