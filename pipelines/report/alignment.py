"""Aligns numbers in the tables of a page to the right, with the heads of their columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pipelines.filled_in import without_marks

_TABLE: Final = re.compile(r"<table.*?</table>", re.S)
_ROW: Final = re.compile(r"<tr>.*?</tr>", re.S)
_CELL: Final = re.compile(r"<(t[hd])\b([^>]*)>(.*?)</\1>", re.S)
_TAG: Final = re.compile(r"<[^>]*>")
_NUMBER: Final = re.compile(r"(?:at most |at least )?[−-]?\d[\d,.]*(?:\s?%|\s?× 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?")
_RANGE: Final = re.compile(rf"{_NUMBER.pattern}(?: (?:to|of|–) {_NUMBER.pattern})?")
_SHORT: Final = 24  # letters of a value beside numbers, in a table without a head
_NO_NUMBER: Final = frozenset({"", "–", "none", "no limit", "not measured"})


def aligned(page: str) -> str:
    """Returns a page in which columns of numbers, and short values of tables without a head, have the class ``num``."""
    return _TABLE.sub(lambda table: _aligned_table(table[0]), page)


def _aligned_table(table: str) -> str:
    rows = [[_text(cell[3]) for cell in _CELL.finditer(row)] for row in _ROW.findall(table)]
    has_head = "<thead" in table
    body = rows[1:] if has_head else rows
    columns = {
        place
        for place in range(1, max(map(len, body), default=0))
        if _are_numbers([r[place] for r in body if place < len(r)])
    }

    def row_of(row: re.Match[str]) -> str:
        places = iter(range(len(_CELL.findall(row[0]))))

        def cell_of(cell: re.Match[str]) -> str:
            place = next(places)
            is_number = place in columns if has_head else place > 0 and len(_text(cell[3])) <= _SHORT
            return f'<{cell[1]}{cell[2]} class="num">{cell[3]}</{cell[1]}>' if is_number else cell[0]

        return _CELL.sub(cell_of, row[0])

    return _ROW.sub(row_of, table)


def _are_numbers(cells: Sequence[str]) -> bool:
    return any(map(_RANGE.fullmatch, cells)) and all(cell in _NO_NUMBER or _RANGE.fullmatch(cell) for cell in cells)


def _text(cell: str) -> str:
    """Returns the first line of a cell: a number may stand above its interval."""
    return " ".join(without_marks(_TAG.sub("", cell.partition(' <span class="soft">')[0])).split())
