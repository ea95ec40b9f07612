"""Reads texts with annotations in columns: CoNLL-U, CoNLL-2003 and CoNLL-2012. Only text and entities are kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

from pipelines.corpus.gold import TAG, places_of, tagged
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.records import Record
from pipelines.corpus.sentences import COMMENT, DOCUMENT_LINES, Mark, Sentence, sentences

_BYTES_PER_CHAR: Final = 60  # of text: a line of ten columns for each short word
_OTHER_BYTES: Final = 1 << 20
_BREAKS: Final = re.compile(r"[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
_BEGIN: Final = re.compile(r"#begin document\s*(.*?);?\s*")
_WORD_ID: Final = re.compile(r"([0-9]{1,9})(?:([-.])([0-9]{1,9}))?")
_BRACKET: Final = re.compile(r"\(([^()]*)(\))?|([^()]*)\)")
_NER_KEYS: Final = ("ner", "ne")

_STARTS: Final[Mapping[Mark, tuple[Mark, ...]]] = {
    "document": ("document",),
    "paragraph": ("document", "paragraph"),
    "sentence": ("document", "paragraph", "sentence"),
}


class _Annotated:
    """A reader of sentences, which makes documents of them.

    The first sentence decides on the documents: by marks of documents, else by marks of paragraphs, else each sentence
    is a document.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._limit = options.max_document_chars * _BYTES_PER_CHAR + _OTHER_BYTES

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Record | BadRow]]:
        """Yields documents, numbered from 1 on, with their entities if the file marks any."""
        number = num_bytes = 0
        starts: tuple[Mark, ...] | None = None
        held: list[Sentence] = []
        bad: BadRow | None = None
        for sentence in sentences(file, self._limit):
            if starts is None:
                starts = _STARTS[sentence.mark]
            elif sentence.mark in starts:
                number += 1
                yield from self._numbered(number, bad, held)
                held, num_bytes, bad = [], 0, None
            num_bytes += sentence.num_bytes
            bad = bad or sentence.bad
            if bad is None and num_bytes > self._limit:
                bad = BadRow("over_long", "longer than corpus.max_document_chars allows. Split it.")
            if bad is None:
                held.append(sentence)
            else:
                held.clear()
        yield from self._numbered(number + 1, bad, held)

    def _numbered(
        self, number: int, bad: BadRow | None, sentences: Sequence[Sentence]
    ) -> Iterator[tuple[int, Record | BadRow]]:
        try:
            if bad is not None:
                raise bad
            record = self._record(sentences)
            if record is not None:
                yield number, record
        except BadRow as error:
            yield number, error

    def _record(self, sentences: Sequence[Sentence]) -> Record | None:
        """Joins sentences by line breaks. Returns None if they have no words."""
        texts: list[str] = []
        spans: list[dict[str, Any]] = []
        num_chars = 0
        has_gold = False
        for made in self._made(sentences):
            if made.text:
                texts.append(made.text)
                spans += [
                    {"start": num_chars + start, "end": num_chars + end, "label": label}
                    for start, end, label in made.spans
                ]
                num_chars += len(made.text) + 1
            has_gold |= made.has_gold
        if not texts:
            return None
        options = self._options
        record: dict[str, Any] = {options.text_field: "\n".join(texts), options.id_field: _id_of(sentences)}
        return record | ({options.gold_field: spans} if has_gold else {})

    def _made(self, sentences: Sequence[Sentence]) -> Iterator[_Made]:
        raise NotImplementedError


class _Made(NamedTuple):
    """The text of a sentence and its entities: half-open offsets and label."""

    text: str
    spans: Sequence[tuple[int, int, str]]
    has_gold: bool


def _id_of(sentences: Sequence[Sentence]) -> str | None:
    found: dict[str, str] = {}
    for line in sentences[0].lines if sentences else ():
        begin = _BEGIN.fullmatch(line)
        comment = COMMENT.fullmatch(line)
        if begin is not None and begin[1]:
            return str(begin[1])
        if comment is not None and comment[2]:
            found.setdefault(comment[1], comment[2].strip())
    # A sentence's id names a document only if the sentence is all of it.
    names = ("newdoc id", "newpar id", *["sent_id"] * (len(sentences) == 1))
    return next((found[name] for name in names if found.get(name)), None)


def _bad(sentence: Sentence, number: int, why: str) -> BadRow:
    return BadRow("bad_columns", f"line {sentence.first_line + number} of the file {why}")


class _Token(NamedTuple):
    form: str
    has_space: bool
    tags: list[str | None]


class Conllu(_Annotated):
    """A reader of CoNLL-U.

    The text of a sentence is its line ``# text = …``. Without one, or if its words are not in that line, the text is
    the column FORM, with spaces except after ``SpaceAfter=No``. Of a token such as ``1-2 du`` the words inside are not
    part of the text, and neither are empty nodes such as ``5.1``. Entities come from the column MISC (``NER=B-PER``,
    ``Entity=(1-person``), or from a column behind it with tags (BIO, BIOES).
    """

    _declares_entities = False

    def _made(self, sentences: Sequence[Sentence]) -> Iterator[_Made]:
        for sentence in sentences:
            self._declares_entities |= any(line.startswith("# global.Entity") for line in sentence.lines)
            made = _conllu(sentence)
            yield made._replace(has_gold=made.has_gold or self._declares_entities)


def _conllu(sentence: Sentence) -> _Made:
    text: str | None = None
    tokens: list[_Token] = []
    brackets: list[tuple[int, int, str]] = []
    has_gold = False
    inside = 0  # last word of the token on several words
    for number, line in enumerate(sentence.lines):
        if line.startswith("#"):
            comment = COMMENT.fullmatch(line)
            if comment is not None and comment[1] == "text" and comment[2]:
                text = _BREAKS.sub(" ", comment[2]).strip()
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        word = _WORD_ID.fullmatch(cells[0])
        if word is None or len(cells) < 10 or not cells[1].strip():
            raise _bad(sentence, number, "is not a word of CoNLL-U: a number and nine more columns.")
        misc = _misc(cells[9])
        tag = next((_as_tag(misc[key]) for key in _NER_KEYS if key in misc), None)
        if len(cells) > 10 and TAG.fullmatch(cells[10]):
            tag = cells[10]
        has_gold |= tag is not None or "entity" in misc
        if word[2] == ".":
            brackets.append((len(tokens), len(tokens) - 1, misc.get("entity", "")))
            continue
        if word[2] == "-" or int(word[1]) > inside:
            tokens.append(_Token(_BREAKS.sub(" ", cells[1]).strip(), misc.get("spaceafter") != "No", [tag]))
            inside = int(word[3]) if word[2] == "-" else 0
        else:
            tokens[-1].tags.append(tag)
        brackets.append((len(tokens) - 1, len(tokens) - 1, misc.get("entity", "")))
    if tokens and all(token.form == "_" for token in tokens) and text is None:
        raise BadRow("missing_text", "the words are left out of this file (FORM is _). Get the file with its text.")
    placed = _placed(tokens, text)
    if placed is None:
        text = "".join(token.form + " " * token.has_space for token in tokens).strip()
        placed = _placed(tokens, text)
    if text is None or placed is None:
        raise BadRow("bad_columns", "the words of a sentence are not a text.")
    tags = [next((tag for tag in token.tags if tag not in (None, "O")), None) for token in tokens]
    spans = [*tagged(placed, tags), *_bracketed(placed, brackets)]
    return _Made(text, spans, has_gold)


def _misc(cell: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in cell.split("|"))
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _as_tag(value: str) -> str:
    if TAG.fullmatch(value) or value in ("", "_"):
        return value if value not in ("", "_") else "O"
    return f"I-{value}"


def _placed(tokens: Sequence[_Token], text: str | None) -> list[tuple[int, int]] | None:
    """Finds the tokens in a text, with only white space between them; None if the text is another one."""
    if text is None:
        return None
    places: list[tuple[int, int]] = []
    at = 0
    for token in tokens:
        start = text.find(token.form, at, at + len(token.form) + 100)
        if start < 0 or text[at:start].strip():
            return None
        at = start + len(token.form)
        places.append((start, at))
    return None if text[at:].strip() else places


def _bracketed(
    places: Sequence[tuple[int, int]], brackets: Iterable[tuple[int, int, str]]
) -> Iterator[tuple[int, int, str]]:
    """Yields the entities of brackets such as ``(1-person`` … ``1)``.

    Raises:
        BadRow: an entity does not close in its sentence.
    """
    opened: list[tuple[int, str]] = []
    for first, last, value in brackets:
        for bracket in _BRACKET.finditer(value):
            if bracket[1] is not None:
                opened.append((first, bracket[1]))
                if bracket[2] is None:
                    continue
                index = len(opened) - 1
            else:
                close = bracket[3]
                matches = (
                    i for i in reversed(range(len(opened))) if not close or f"{opened[i][1]}-".startswith(f"{close}-")
                )
                index = next(matches, -1)
                if index < 0:
                    raise BadRow(
                        "bad_spans", "an entity ends that has not begun in its sentence. Correct the brackets."
                    )
            start, name = opened.pop(index)
            if start <= last:
                fields = name.split("-")
                label = next((part for part in fields if len(part) > 1 and part.replace("_", "").isalpha()), "ENTITY")
                yield places[start][0], places[last][1], label
    if opened:
        raise BadRow("bad_spans", "an entity does not end in its sentence. Correct the brackets.")


class Conll(_Annotated):
    """A reader of the columns of CoNLL-2003 and CoNLL-2012 (OntoNotes), with whole documents.

    Tokens are joined by spaces, because the files do not say where the text has none. The tokens are the first column,
    or the second one if the first numbers them, or the fourth one after ``#begin document``. Entities are the last
    column in which every cell of the first document is a tag (the first such column if the tokens are numbered), or the
    brackets of CoNLL-2012.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._columns: tuple[int, int | None] | None = None  # of tokens and tags, by the first document with tokens

    def _columns_of(self, rows: Sequence[Sequence[str]]) -> tuple[int, int | None]:
        if self._columns is None:
            is_numbered = _is_numbered(rows)
            tags = _tag_columns(rows, 1 + is_numbered)
            if not rows:
                return 0, None
            self._columns = int(is_numbered), (tags[0 if is_numbered else -1] if tags else None)
        token, tag = self._columns
        if tag is not None and tag not in _tag_columns(rows, tag):
            raise BadRow("bad_columns", f"a token has no tag (O, B-PER, I-PER, …) in column {tag + 1}.")
        return token, tag

    def _made(self, sentences: Sequence[Sentence]) -> Iterator[_Made]:
        is_2012 = any(line.startswith("#begin document") for line in sentences[0].lines) if sentences else False
        rows = [list(_rows(sentence)) for sentence in sentences]
        token, tag = (3, 10) if is_2012 else self._columns_of([cells for one in rows for cells in one])
        width = next((len(one[0]) for one in rows if one), 0)
        for sentence, cells in zip(sentences, rows, strict=True):
            if any(len(row) <= max(token, tag or 0) or (len(row) != width and not is_2012) for row in cells):
                raise _bad(sentence, 0, "begins a sentence with another number of columns.")
            words = [_BREAKS.sub(" ", row[token]).strip() for row in cells]
            places = places_of(words)
            spans: list[tuple[int, int, str]] = []
            if is_2012:
                spans += _bracketed(places, [(i, i, row[10].replace("*", "")) for i, row in enumerate(cells)])
            elif tag is not None:
                spans += tagged(places, [row[tag] for row in cells])
            yield _Made(" ".join(words), spans, tag is not None)


def _rows(sentence: Sentence) -> Iterator[list[str]]:
    """Yields the columns of each token. Raises `BadRow`."""
    lines = [
        (number, line, line.split("\t") if "\t" in line else line.split())
        for number, line in enumerate(sentence.lines)
        if not line.startswith((*DOCUMENT_LINES, "#end document"))
    ]
    # A line that starts with "#" may be a token or a comment, which has any number of words, or blanks and no tabs.
    certain = [cells for _, line, cells in lines if not line.startswith("#")]
    widths = Counter(map(len, certain or [cells for _, _, cells in lines]))
    width = max(widths, key=widths.__getitem__, default=0)
    has_tabs = any("\t" in line for _, line, cells in lines if len(cells) == width)
    for number, line, cells in lines:
        if line.startswith("#") and (len(cells) != width or (has_tabs and "\t" not in line)):
            continue
        if len(cells) != width or not cells[0].strip():
            raise _bad(sentence, number, "has another number of columns than the rest of its sentence.")
        yield cells


def _is_numbered(rows: Sequence[Sequence[str]]) -> bool:
    return bool(rows) and all(len(row) > 1 and row[0].isdigit() for row in rows) and rows[0][0] in ("0", "1")


def _tag_columns(rows: Sequence[Sequence[str]], first: int) -> list[int]:
    """Returns the columns from ``first`` on in which every cell is a tag."""
    return [
        column
        for column in range(first, min((len(row) for row in rows), default=0))
        if all((match := TAG.fullmatch(row[column])) and (match[1] == "O") == (match[2] is None) for row in rows)
    ]
