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

from pipelines.corpus.speakers import MADE
from pipelines.files import read_file, to_be_read
from pipelines.filled_in import END, START, filled_ranges, our_names, without_marks
from pipelines.gate.index import indexes_to_search
from pipelines.gate.search import Hit, Hits
from pipelines.gate.strings import StringIndex, places_of_words, words_of
from pipelines.tables import Table

Kind = Literal["text", "vocabulary"]

SKIPPED_SUFFIXES: Final = frozenset({".safetensors"})
"""Suffixes of weights: numbers that no search for text can judge, and which the guarantee is about."""
_VOCABULARIES: Final = frozenset({"tokenizer.json", "vocab.json"})
_CARD: Final = "README.md"
_CARD_TEXTS: Final = frozenset({"model_card.md", "data_card.md"})
"""Cards of releases, as the report stage writes them: the sentences and figures of the public report."""
_OWN_FILES: Final = frozenset({_CARD, "report.json"})
"""Our own documents beside pages; any other text is in a format of ``transformers``."""
_VERSION: Final = "transformers_version"
"""Key at which a saved model names the version of the library, whose digits are no number of the corpus."""
_FORMAT_WORDS: Final = Path(__file__).with_name("format_words.json")
"""Words of the file formats of ``tokenizers`` and ``transformers``: "fuse" may be a masked name, and is a setting."""
_MAX_SHOWN: Final = 1_000


@dataclass(frozen=True)
class Unit:
    """A piece of a file that is searched by itself: a cell, a JSON string, a vocabulary entry, a whole text."""

    text: str
    """What it says, with marks (`pipelines.filled_in`) if `is_marked`."""
    where: str = ""
    """Keys that lead to it in a JSON document, as a path; places in lists, and numbers as keys, are left open."""
    kind: Kind = "text"
    is_computed: bool = False
    """Flag that its numbers are computed ones, so a string of digits alone is no find."""
    is_format: bool = False
    """Flag that it holds words of a file format that is not ours."""
    is_marked: bool = False
    """Flag that marks tell which of its characters are filled in; without, all are."""


def units_of(path: Path, marked: Path | None = None) -> Iterator[Unit]:
    """Yields what a file says, piece by piece. A file that is not what its name promises is read as text.

    Args:
        path: the file.
        marked: its marked copy; may be missing. One that says anything else than the file is ignored.
    """
    if path.suffix == ".parquet":
        yield from _cells(path)
    elif path.suffix not in SKIPPED_SUFFIXES:
        text, copy = _text_of(path), None if marked is None or not marked.is_file() else _text_of(marked)
        if path.suffix == ".json":
            yield from _json_file(path.name, text, copy)
            return
        is_marked = copy is not None and without_marks(copy) == text
        said = copy if copy is not None and is_marked else text
        if path.suffix == ".html":
            yield from page_units(said, is_marked=is_marked)
        else:
            is_card = path.name in _CARD_TEXTS
            yield Unit(said, is_computed=is_card, is_format=path.name != _CARD and not is_card, is_marked=is_marked)


def _text_of(path: Path) -> str:
    return read_file(path).decode("utf-8", "replace")


def _json_file(name: str, text: str, copy: str | None) -> Iterator[Unit]:
    try:
        document = json.loads(text)
        marked = json.loads(copy) if copy is not None else None
    except ValueError:
        yield Unit(text)
        return
    is_format = name not in _OWN_FILES
    if name in _VOCABULARIES:
        yield from _vocabulary(document)
    elif marked is not None and _unmarked(marked) == document:
        yield from json_units(marked, is_marked=True)
    else:
        yield from json_units(document, is_format=is_format)


def _unmarked(document: Any) -> Any:
    if isinstance(document, dict):
        return {without_marks(key): _unmarked(inner) for key, inner in document.items()}
    if isinstance(document, list):
        return [_unmarked(inner) for inner in document]
    return without_marks(document) if isinstance(document, str) else document


def _cells(path: Path) -> Iterator[Unit]:
    with pq.ParquetFile(to_be_read(path)) as table:
        schema = table.schema_arrow
        for field in schema:
            is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
            if is_text:  # no column is exempt for its name, only the numbers that we gave to speakers
                made = MADE if field.name == "speaker" else None
                for batch in table.iter_batches(columns=[field.name]):
                    values = filter(None, batch.column(0).to_pylist())
                    yield from (Unit(value) for value in values if made is None or not made.fullmatch(value))


class _PageText(HTMLParser):
    """A reader of what a page says: text, each piece between two tags on a line, and each attribute and comment.

    Characters that are written as entities (``O&#39;Brien``) come as what they stand for. A value that is filled in may
    hold tags, as a chart does: each piece of it has marks of its own.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self.others: list[str] = []
        self._is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Takes the attributes' values."""
        self.others += [self._marked(value) for _, value in attrs if value]

    def handle_data(self, data: str) -> None:
        """Takes text."""
        self.lines.append(self._marked(" ".join(data.split())))

    def handle_comment(self, data: str) -> None:
        """Takes a comment."""
        self.others.append(self._marked(data))

    def _marked(self, text: str) -> str:
        begins = START if self._is_inside else ""
        last = max(text.rfind(START), text.rfind(END))
        if last >= 0:
            self._is_inside = text[last] == START
        return f"{begins}{text}{END if self._is_inside else ''}"


def page_units(html: str, *, is_marked: bool = False) -> Iterator[Unit]:
    """Yields what an HTML page says."""
    page = _PageText()
    page.feed(html)
    page.close()
    for text in ("\n".join(page.lines), *page.others):
        yield Unit(text, is_computed=True, is_marked=is_marked)


def json_units(value: Any, is_format: bool = False, where: str = "", *, is_marked: bool = False) -> Iterator[Unit]:
    """Yields every string in a JSON document, keys included. Numbers are computed by us, never quoted."""
    if isinstance(value, str):
        yield Unit(value, where, is_format=is_format, is_marked=is_marked)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield Unit(key, where, is_format=is_format, is_marked=is_marked)
            below = f"{where}/{'#' if key.isdigit() else key}"
            if is_format and key == _VERSION and isinstance(inner, str):
                yield Unit(inner, below, is_computed=True)
            else:
                yield from json_units(inner, is_format, below, is_marked=is_marked)
    elif isinstance(value, list):
        for inner in value:
            yield from json_units(inner, is_format, f"{where}/[]", is_marked=is_marked)


def _vocabulary(document: Any) -> Iterator[Unit]:
    """Yields what a tokenizer's file says: entries and merges decoded from the byte-level alphabet, the rest as is."""
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


def search_folder(
    folder: Path,
    table: Table,
    *,
    case_sensitive: bool,
    hits: Hits,
    basis: Path | None = None,
    marked: Path | None = None,
) -> None:
    """Searches every file below a folder, and the files' names, for the strings of an index.

    A string that stands in literal text of ours alone is no find. If one of its characters is filled in, it is one.

    What a public file says exactly as a file of the same name in ``basis`` does, at the same place, is no find: the
    file there is made from settings and from what was made elsewhere, before any text of ours is read, so that it would
    say the same of every text, and that it is there tells nothing of this one. That holds for the names, keys and words
    of a format ("fuse", a library's version), and for a vocabulary that was learnt elsewhere, which holds many names.
    Whatever was added or changed, and the same string at another place, is searched as ever.

    Args:
        folder: folder that is about to be published.
        table: the index, as `pipelines.gate.index.write_index` filled it.
        case_sensitive: flag that case counts, as when the index was made.
        hits: collector of what is found.
        basis: files that depend on no text of ours; may be missing. Of ``README.md`` each line counts by itself,
            wherever the public one says it.
        marked: folder of marked copies, by the files' names below ``folder``; may be missing.
    """
    known = _known_units(basis)

    def texts() -> Iterator[list[str]]:
        for _, unit, said in _said_in(folder, known, marked):
            yield words_of(without_marks(said) if unit.is_marked else said, case_sensitive=case_sensitive)

    for index, parts in indexes_to_search(table, texts):
        if not index.labels:
            continue
        for name, unit, said in _said_in(folder, known, marked):
            plain = without_marks(said) if unit.is_marked else said
            found = index.find(words_of(plain, case_sensitive=case_sensitive))
            if found and unit.kind == "vocabulary":
                found -= parts
            if found and unit.is_computed:
                found = {string for string in found if not string.replace(" ", "").isdigit()}
            if found and unit.is_format:
                found = {string for string in found if string.casefold() not in _format_words()}
            if found and unit.is_marked:
                found = {string for string in found if _is_filled_in(string, said, case_sensitive=case_sensitive)}
            for string in sorted(found):
                text = without_marks(unit.text) if len(unit.text) <= _MAX_SHOWN else ""
                hits.add(Hit(file=name, string=string, label=index.labels[string], text=text))


@cache
def _format_words() -> frozenset[str]:
    return frozenset(json.loads(_FORMAT_WORDS.read_text("utf-8")))


def _is_filled_in(string: str, marked: str, *, case_sensitive: bool) -> bool:
    """Tells whether a string stands in a text with marks so that some character of one of its words is filled in."""
    filled = filled_ranges(marked)
    words = places_of_words(without_marks(marked), case_sensitive=case_sensitive)
    places = StringIndex({string: ""}).places([word for word, _, _ in words])
    return not places or any(
        start < end and first < last
        for begin, stop in places
        for _, first, end in words[begin:stop]
        for start, last in filled
    )


def _said_in(folder: Path, known: Mapping[str, Set[Unit]], marked: Path | None) -> Iterator[tuple[str, Unit, str]]:
    """Yields what files below a folder, and their names, say beyond what is known: file, unit, what of it counts."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        unchanged = known.get(path.name, frozenset())
        new_name = name if path.name not in known else path.parent.relative_to(folder).as_posix()
        copy = None if marked is None else marked / name
        is_ours = copy is not None and copy.is_file() and our_names().issuperset(name.split("/"))
        named = () if is_ours or path.suffix == ".parquet" else (Unit(new_name, is_format=True),)
        for unit in (*named, *units_of(path, copy)):
            if unit not in unchanged:
                yield name, unit, _without(unit.text, unchanged) if path.name == _CARD else unit.text


def _known_units(basis: Path | None) -> Mapping[str, Set[Unit]]:
    """Returns what each file of a basis says, by its name."""
    if basis is None or not basis.is_dir():
        return {}
    return {path.name: frozenset(units_of(path)) for path in sorted(basis.rglob("*")) if path.is_file()}


def _without(text: str, known: Set[Unit]) -> str:
    """Returns a text without the lines of some others; what stood beside one is not joined."""
    for line in sorted({line for unit in known for line in unit.text.splitlines() if line}, key=len, reverse=True):
        text = text.replace(line, "\n")
    return text
