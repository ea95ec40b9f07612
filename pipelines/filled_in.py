"""Text that knows which of its characters were filled in.

The gate searches what is published for masked strings, and our own prose may hold a word that is also a masked name. So
public documents are written twice. The public copy is plain. The marked copy, which stays private, has every value that
is filled in between two characters for private use. The gate searches for strings in which at least one such character
stands, and a text without a marked copy counts as filled in from its first to its last character.

A value is filled in unless the source of the project states it. `mark_document` marks every string of a document, so
that a new value is searched without further doing. Only what is written in code, in a template or in an f-string has no
marks.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

START: Final = "\ue000"
END: Final = "\ue001"
_MARKS: Final = re.compile(f"[{START}{END}]")
_FIELD: Final = re.compile(r"\{[^{}]*\}")
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*(?:e[-+]?\d+|(?: × 10)?[⁻⁰¹²³⁴-⁹]+)?")
"""A number as Python and `pipelines.numbers.real` write it."""
_SENTENCE_WORDS: Final = 3
"""Words from which on a literal of our source passes for ours inside a value."""
_WORDING: Final = ("accounting", "dedup", "methods", "miss_rate", "report", "settings", "stages", "training")
"""Packages of `pipelines` that word what reports, claims and model cards say."""
_NAMING: Final = (*_WORDING, "policies")
"""Packages whose settings and names these documents show."""
_PREFIX: Final = 8


class FilledIn(str):
    """A string with marks, which is compared and hashed as the same string without them.

    Code that looks it up or compares it works as with the string itself. What that code writes keeps the marks.

    Attributes:
        plain: the string without marks.
    """

    __slots__ = ("plain",)

    plain: str

    def __new__(cls, marked: str) -> FilledIn:
        """The string, and what it says without marks."""
        made = super().__new__(cls, marked)
        made.plain = without_marks(marked)
        return made

    def __eq__(self, other: object) -> bool:
        return self.plain == _plain(other)

    def __ne__(self, other: object) -> bool:
        return self.plain != _plain(other)

    def __lt__(self, other: str) -> bool:
        return self.plain < str(_plain(other))

    def __gt__(self, other: str) -> bool:
        return self.plain > str(_plain(other))

    def __hash__(self) -> int:
        return hash(self.plain)

    def lower(self) -> FilledIn:
        """The string in lower case."""
        return FilledIn(super().lower())

    def endswith(self, *suffix: Any) -> bool:
        """Tells how the string ends without its marks."""
        return self.plain.endswith(*suffix)


def _plain(other: object) -> object:
    return other.plain if isinstance(other, FilledIn) else other


def without_marks(text: str) -> str:
    """Returns a text without the characters that mark a value."""
    return _MARKS.sub("", text)


def ours(text: str) -> FilledIn:
    """Returns text of our own, which our code chose, as a value that gets no marks."""
    return FilledIn(without_marks(text))


def fill(template: str, **values: Any) -> FilledIn:
    """Fills a template with values, each string of which is marked but for what our source says.

    Args:
        template: literal text of ours, with fields as `str.format` takes them.
        **values: values; numbers are computed and get no marks.
    """
    return FilledIn(template.format(**{name: mark_document(value) for name, value in values.items()}))


def join(separator: str, texts: Iterable[str]) -> FilledIn:
    """Joins values by literal text of ours, each marked as by `fill`."""
    return FilledIn(separator.join(map(mark_document, texts)))


def filled_ranges(marked: str) -> list[tuple[int, int]]:
    """Returns the half-open ranges of the characters that are filled in, as the text without marks counts them.

    Marks that do not match are no proof of anything: all of the text counts as filled in then.
    """
    places: list[int] = []
    for number, found in enumerate(_MARKS.finditer(marked)):
        if found[0] != (END if number % 2 else START):
            return [(0, len(marked))]
        places.append(found.start() - number)
    if len(places) % 2:
        return [(0, len(marked))]
    return list(zip(places[::2], places[1::2], strict=True))


def mark_document(value: Any, choices: Mapping[str, Container[str]] | None = None, *, key: str = "") -> Any:
    """Returns a JSON document in which every string, keys included, is marked but for what our source says.

    A key is ours if the source names it and the keys beside it are not data, as those of ``accuracy_by_class`` are.

    Args:
        value: the document.
        choices: fixed words of ours that may be the whole value of a key, by key.
        key: key that leads to the value.
    """
    if isinstance(value, dict):
        is_data = "_by_" in key
        return {
            name if name in our_names() and not is_data else _filled(name): mark_document(inner, choices, key=name)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [mark_document(inner, choices, key=key) for inner in value]
    if not isinstance(value, str) or isinstance(value, FilledIn) or value in (choices or {}).get(key, ()):
        return value
    return _marked(value)


def _filled(text: str) -> str:
    return FilledIn(f"{START}{without_marks(text)}{END}") if re.search(r"\w", text) else text


def _marked(text: str) -> str:
    """A value with marks around all but sentences of ours, and numbers between two of them."""
    pieces = _pieces(without_marks(text))
    last = len(pieces) - 1
    marked = (
        piece if is_ours or (0 < at < last and _is_computed(piece)) else _filled(piece)
        for at, (piece, is_ours) in enumerate(pieces)
    )
    return FilledIn("".join(marked))


def _pieces(text: str) -> list[tuple[str, bool]]:
    """A text in pieces, each with the answer whether it is a sentence of ours."""
    sentences = _sentences()
    pieces, at, done = [], 0, 0
    while at < len(text):
        known = (one for one in sentences.get(text[at : at + _PREFIX], ()) if text.startswith(one, at))
        if length := max(map(len, known), default=0):
            pieces += [(text[done:at], False), (text[at : at + length], True)]
            done = at = at + length
        else:
            at += 1
    return [(piece, is_ours) for piece, is_ours in (*pieces, (text[done:], False)) if piece]


def _is_computed(piece: str) -> bool:
    """Tells whether a piece is made of numbers and of what our source says between them."""
    between = _NUMBER.split(piece)
    return len(between) > 1 and all(part in our_names() or not re.search(r"\w", part) for part in between)


@functools.cache
def our_names() -> frozenset[str]:
    """Returns what the source states as a whole string, and the names of its fields."""
    return frozenset[str]().union(*map(_literals, _NAMING))


@functools.cache
def _sentences() -> dict[str, list[str]]:
    """Literals of several words, by the characters that they begin with."""
    sentences = defaultdict(list)
    for literal in frozenset[str]().union(*map(_literals, _WORDING)):
        if len(re.findall(r"\w+", literal)) >= _SENTENCE_WORDS:
            sentences[literal[:_PREFIX]].append(literal)
    return dict(sentences)


@functools.cache
def _literals(package: str) -> frozenset[str]:
    """Literals and names of fields, in the source of a package beside this module."""
    files = Path(__file__).with_name(package).rglob("*.py")
    found = (literal for file in files for literal in _literals_of(ast.parse(file.read_bytes())))
    return frozenset(part for literal in found for part in _FIELD.split(literal))


def _literals_of(tree: ast.Module) -> Iterator[str]:
    """The strings of a module but for its docstrings, and the names of fields."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
