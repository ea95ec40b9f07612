"""Recognises text tables, with and without a line that names the columns, for `reticent init`."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from pipelines.corpus.fields import Look, choose_fields
from pipelines.corpus.hashed_stream import HashedStream
from pipelines.corpus.items import BadRow
from pipelines.corpus.readers import cells_of
from pipelines.corpus.rows import iter_rows

_ROWS: Final = 400
_ROW_BYTES: Final = 1 << 20
_DELIMITERS: Final = {",": ",", ";": ";", "\t": "tab", "|": "|"}
"""Separators of columns, in the order of trial, and their values of ``corpus.delimiter``."""
_FEW_ROWS: Final = 3
_SEVERAL_ROWS: Final = 10
_LABEL_VALUES: Final = 20
_SENTENCE_WORDS: Final = 4
_TEXT_WORDS: Final = 2
_BLANKS: Final = 0.2
_NO_TEXT: Final = 0.6
"""Confidence that a table without text is none, above that of plain text."""
_MARKED: Final = 0.9
"""Share of lines that a separator of several characters cuts alike."""
_MARK: Final = re.compile(r"(?<![-+$|#@~^*=<>%&:;.])([-+$|#@~^*=<>%&:;]{2,12})(?![-+$|#@~^*=<>%&:;.])")
_NAME: Final = re.compile(r"[^\W\d_][^\d\n]{1,38}")
_SPEAKER: Final = "name"
"""Name of a column with speakers, in a table that names no columns."""
_ONE_WORD = re.compile(r"[^\W\d][\w.-]{0,40}")
_NUMBER: Final = re.compile(r"[-+]?[0-9][-+0-9.,:/ ]*%?|true|false|null|nan", re.I)
_VALUE: Final = re.compile(r"\S+@\S+\.\S+|https?://\S+|[0-9]{4}-[0-9]{2}-[0-9]{2}.*", re.I)


class _Table(NamedTuple):
    """The first rows of a table.

    Attributes:
        delimiter: separator of the columns
        rows: cells of the rows with the most frequent number of columns
        share: share of rows with that number
    """

    delimiter: str
    rows: list[list[str]]
    share: float


def looks_of_table(data: bytes, suffix: str) -> list[Look]:
    """Returns the readings of a text as a table, best first; none if it is plainly no table.

    Args:
        data: beginning of the file in UTF-8, cut after a whole line
        suffix: suffix of the file
    """
    usual = {".csv": ",", ".tsv": "\t"}.get(suffix)
    if usual is None and (marked := _looks_of_marked(data)):
        return marked
    marks = sorted(_DELIMITERS, key=lambda mark: mark != usual)
    tables = [table for mark in marks if (table := _table(data, mark)) is not None]
    if usual is None:
        tables = [table for table in tables if _is_plainly_a_table(table)]
    if not tables and usual is not None and (only := _table(data, usual, 1)) is not None:
        tables = [only]
    if not tables:
        return []
    # The usual delimiter is right if it fits all rows. Otherwise the one that fits more rows is.
    best = tables[0] if tables[0].share == 1 and tables[0].delimiter == usual else max(tables, key=lambda t: t.share)
    form = suffix[1:] if usual is not None else "tsv" if best.delimiter == "\t" else "csv"
    looks = _looks(best, form)
    if usual is None:
        is_certain = best.delimiter == "\t" and best.share == 1
        share = 0.9 if is_certain else 0.7
        looks = [replace(k, score=k.score * share if k.format else max(k.score * share, _NO_TEXT)) for k in looks]
    default = "\t" if form == "tsv" else ","
    if best.delimiter == default:
        return looks
    mark = _DELIMITERS[best.delimiter]
    told = f"; separated by {mark!r}"
    return [replace(k.with_fields(("delimiter", mark)), what=k.what + told * bool(k.format)) for k in looks]


def _looks_of_marked(data: bytes) -> list[Look]:
    """Returns the readings of lines that a separator of several characters cuts into the same number of columns."""
    lines = [line for line in data.decode("utf-8", "replace").splitlines()[:_ROWS] if line.strip()]
    found = Counter(tuple(match[1] for match in _MARK.finditer(line)) for line in lines)
    marks, number = next(iter(found.most_common(1)), ((), 0))
    is_bare = bool(marks) and not any(f" {marks[0]}" in line for line in lines)
    if len(set(marks)) != 1 or len(lines) < (_SEVERAL_ROWS if is_bare else _FEW_ROWS) or number < _MARKED * len(lines):
        return []
    mark = marks[0]
    rows = [cells for line in lines if len(cells := cells_of(line, mark, is_quoted=False)) == len(marks) + 1]
    made = _looks(_Table(mark, rows, len(rows) / len(lines)), "csv")
    found_by = f"{len(marks) + 1} columns, separated by {mark}"
    return [
        replace(look.with_fields(("delimiter", mark)), what=f"{found_by}; {look.what}", score=0.85) for look in made
    ]


def _table(data: bytes, delimiter: str, fewest: int = 2) -> _Table | None:
    """Cuts the first rows at a delimiter. None if there are fewer columns than ``fewest``."""
    is_quoted = delimiter != "\t"
    cut = partial(cells_of, delimiter=delimiter, is_quoted=is_quoted)
    stream = HashedStream(io.BytesIO(data))
    found: list[list[str]] = []
    num_rows = 0
    for row in islice(
        iter_rows(stream, "record", 1, _ROW_BYTES, quoted_after=delimiter.encode() if is_quoted else None), _ROWS
    ):
        if row.data is None or not row.data.strip():
            continue
        num_rows += 1
        try:
            found.append(cut(row.data.decode("utf-8", "replace")))
        except BadRow:
            continue
    widths = [len(cells) for cells in found]
    if not found:
        return None
    width = widths[0] if widths.count(widths[0]) >= 0.5 * len(widths) else max(set(widths), key=widths.count)
    if width < fewest:
        return None
    rows = [cells for cells in found if len(cells) == width]
    return _Table(delimiter, rows, len(rows) / num_rows)


def _is_plainly_a_table(table: _Table) -> bool:
    """Checks if a text without a table's suffix is a table: nearly all lines have the same, not empty, columns."""
    is_tab = table.delimiter == "\t"
    if len(table.rows) < (_FEW_ROWS if is_tab else _SEVERAL_ROWS) or table.share < (0.98 if is_tab else 0.995):
        return False
    first = [cells[0].strip() for cells in table.rows]
    if sum(map(bool, first)) < 0.9 * len(first):
        return False
    # Running text has commas too, but with blanks behind them. A table has a column of short values.
    columns = list(zip(*table.rows, strict=True))
    blanks = sum(cell[:1] == " " for cells in table.rows for cell in cells[1:])
    if table.delimiter in ",;" and blanks > _BLANKS * len(table.rows) * (len(columns) - 1):
        return False
    return is_tab or any(_is_label(column) or _is_number(column) for column in columns)


def _looks(table: _Table, form: str) -> list[Look]:
    header, *rest = table.rows
    if names_columns(header, rest):
        if not rest:
            return [Look(format=None, what="a header without rows", score=0.9)]
        columns = [at for at, name in enumerate(header) if name.strip()]
        records = [{header[at]: cells[at] for at in columns} for cells in rest if any(cells)]
        return choose_fields(form, records) if records else [Look(format=None, what="only empty rows", score=0.9)]
    names = _names(table.rows, may_speak=len(table.delimiter) > 1)
    looks = choose_fields(form, [dict(zip(names, cells, strict=True)) for cells in table.rows if any(cells)])
    more = (("column_names", names), *((("speaker_field", _SPEAKER),) if _SPEAKER in names else ()))
    said = f"; speaker: {_SPEAKER}" if _SPEAKER in names else ""
    return [
        replace(
            look.with_fields(*more),
            what=f"its first line names no columns; {look.what}{said if look.format else ''}",
        )
        for look in looks
    ]


def names_columns(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Checks if the first line of a table names the columns, and is no record."""
    named = [cell.strip() for cell in first]
    if len({*filter(None, named)}) < sum(map(bool, named)) or all(_NUMBER.fullmatch(cell) for cell in named if cell):
        return False
    if not rest:
        return True
    votes = 0
    for cell, column in zip(named, zip(*rest, strict=True), strict=True):
        values = [value.strip() for value in column if value.strip()]
        if not values:
            continue
        if _VALUE.fullmatch(cell):
            votes -= 2
        elif _is_number(values):
            votes += -1 if _NUMBER.fullmatch(cell) else 2
        elif _is_label(values):
            votes += -3 if cell in values else 1
        elif _mean_words(values) >= _SENTENCE_WORDS:
            votes += -2 if len(cell.split()) >= _SENTENCE_WORDS else 1
        elif _NUMBER.fullmatch(cell):
            votes -= 1
    return votes > 0 or (votes == 0 and all(_ONE_WORD.fullmatch(cell) for cell in named if cell))


def _names(rows: Sequence[Sequence[str]], *, may_speak: bool = False) -> tuple[str, ...]:
    """Names columns by their values: the longest prose is the text, the only column of few values the label.

    Args:
        rows: cells of the rows
        may_speak: true if a column with names that repeat may name the speakers
    """
    columns = list(zip(*rows, strict=True))
    words = [_mean_words(column) for column in columns]
    text = max(range(len(columns)), key=lambda at: words[at])
    labels = [at for at, column in enumerate(columns) if at != text and _is_label(column)]
    taken: dict[int, str] = {labels[0]: "label"} if len(labels) == 1 else {}
    if words[text] >= _TEXT_WORDS and not _is_number(columns[text]):
        taken[text] = "text"
        if may_speak and (speakers := [at for at in range(len(columns)) if at != text and _is_speaker(columns[at])]):
            taken = {text: "text", max(speakers, key=lambda at: len(set(columns[at]))): _SPEAKER}
    return tuple(taken.get(at, f"column_{at + 1}") for at in range(len(columns)))


def _is_label(values: Sequence[str]) -> bool:
    """Checks if values are labels: short, few, and each one occurs often."""
    found = [value.strip() for value in values if value.strip()]
    distinct = set(found)
    return (
        len(found) >= _FEW_ROWS
        and len(distinct) <= min(_LABEL_VALUES, len(found) / 2)
        and all(len(value) <= 40 and len(value.split()) <= _SENTENCE_WORDS for value in distinct)
    )


def _is_speaker(values: Sequence[str]) -> bool:
    """Checks if values are names that repeat: a few words, without digits, most of them with a capital letter."""
    found = [value.strip() for value in values if value.strip()]
    named = [value for value in found if _NAME.fullmatch(value)]
    capital = sum(value[0].isupper() for value in named)
    return 1 < len(set(found)) < len(found) and len(named) >= 0.9 * len(found) and capital >= 0.8 * len(named)


def _is_number(values: Sequence[str]) -> bool:
    found = [value.strip() for value in values if value.strip()]
    return bool(found) and sum(_NUMBER.fullmatch(value) is not None for value in found) >= 0.9 * len(found)


def _mean_words(values: Sequence[Any]) -> float:
    texts = [value for value in values if value.strip()]
    return sum(len(text.split()) for text in texts) / len(texts) if texts else 0.0
