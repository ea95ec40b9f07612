"""Finds the fields of a text: JSON, ``key=value``, ``key: value``, elements, attributes, tables and records.

Each separator is read with a bounded number of characters before and behind it. So the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pipelines.policies.detectors.fields.keys import MARKS, THINGS, kinds_of, kinds_of_words, parts_of
from pipelines.policies.detectors.finds import Range
from pipelines.policies.english.common_words import COMMON_WORDS
from pipelines.policies.english.name_lists import personal_names

_SEPARATOR: Final = re.compile(r"=>|:=|[:=：＝]")
_BEFORE: Final = 72
_TOKEN: Final = re.compile(rf"[\w.$'’{MARKS}-]+|[^\w\s]|\n")
_QUOTES: Final = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "«": "»"}
_QUOTED_KEY: Final = re.compile(rf"[\w .$:/@{MARKS}-]{{1,64}}")
_REMARK: Final = re.compile(r"(?:[ ]\(|（)[^()（）\n]{1,40}[)）]\Z")
"""What a form says of a field behind its name: "氏名（漢字）"."""

_GAP: Final = re.compile(r"[ \t\u00a0\u3000]{0,8}(?:\n[ \t]{0,16}(?=\"))?")
_MAX_VALUE: Final = 400
_MAX_ITEMS: Final = 50
_ITEM: Final = re.compile(r"[\w@][\w@.-]{1,40}(?=[ ]?[,\]])")
_ENTRY: Final = re.compile(r"\n[ \t]{0,16}-[ ]{1,3}([\w@][\w@.'’ -]{1,40}(?<![ ]))(?=[ ]{0,4}(?:\n|\Z))")
"""An entry of a list in YAML, in brackets and on a line of its own."""

_LINE: Final = re.compile(r"[^\n\r;|{}<>\"]{1,200}")
_NEXT_KEY: Final = re.compile(
    rf"[ \t,&、，；\u3000]+(?![A-Za-z0-9+/]{{6,400}}={{1,2}}(?:[\s\"',;]|\Z))[\w.{MARKS}-]{{1,40}}[ ]?(?:[=:：](?!/)"
    rf"|\()"
    r"|[ ]{2}|\t|[ ]&&"
)
"""The name of the next field. It is no credential in base64, which also ends in "="."""

_BARE: Final = re.compile(r"[^\s,;|&<>\"'`{}()\[\]]{1,400}")
_ELEMENT: Final = re.compile(r"<([A-Za-z_][\w:.-]{0,60})(\s[^<>]{0,300})?>([^<>]{1,300})</")
_NAMED: Final = re.compile(r"\b(?:name|key|id)=[\"']([\w.-]{1,64})[\"']", re.I)
_CELL: Final = re.compile(r"<(?:td|th)(?:\s[^<>]{0,100})?>([^<>]{1,200})</", re.I)
_ROW_BREAK: Final = re.compile(r"</?tr|</?table", re.I)
_RULE: Final = re.compile(r"[|\s:+-]{3,}")
_ONE_CELL: Final = r"(?:\"[^\"\n]{0,100}\"|'[^'\n]{0,100}'|-?[\w.]{1,20})"
_QUOTED_CELLS: Final = re.compile(rf"{_ONE_CELL}(?:[ ]?[,;][ ]?{_ONE_CELL}){{2,40}}")
_VERSION: Final = re.compile(
    r"[ \t]?[\"'^~>=<]{0,4}v?\d{1,9}(?:\.\d{1,9}){1,2}(?:-[a-z]{1,8}\.?\d{0,4})?[\"']?(?![\w@.])"
)
_IDENTIFIER: Final = re.compile(r"@|\d{3}|\d[ -]\d")
_PROGRAMS: Final = frozenset(
    {
        "api",
        "app",
        "aws",
        "azure",
        "bot",
        "csrf",
        "db",
        "gcp",
        "github",
        "gitlab",
        "google",
        "openai",
        "session",
        "slack",
    }
)
_NAME_KEYS: Final = frozenset({"name", "key", "k", "field", "header", "attribute"})
_DECLARED: Final = re.compile(r"variable[ ]\"([\w-]{1,64})\"[ ]?\{[^{}]{0,300}\Z")
"""A variable of Terraform, above its default value."""

_VALUE_KEYS: Final = frozenset({"value", "val", "v", "content"})
_INITIALS: Final = frozenset({"fn", "ln", "sn", "gn"})
"""Names of inputs of a form for the parts of a name. Elsewhere they have other meanings."""

_LABELS: Final = frozenset({"dt", "th", "td", "label", "b", "strong", "span"})
_BEHIND_LABELS: Final = frozenset({"dd", "td", "span", "p", "div", "output"})
"""Elements that hold the name of a field as text, and those behind them that hold its value."""

_MAX_LABEL: Final = 4
_PERSON: Final = frozenset({"person"})
_PERSONS: Final = frozenset({"person", "user", "role", "perhaps"})
_SECRETS: Final = frozenset({"secret", "phrase", "header", "cookie"})
_NEAR: Final = 40
_PARENTHESES: Final = re.compile(r"\(([^()\n]{5,600})\)")
_MAX_CELLS: Final = 60
_MAX_CELL: Final = 100


class Field(NamedTuple):
    """A value of a text and what names it.

    Attributes:
        kinds: kinds of the field (`keys.KINDS`). Empty if its name is unknown.
        start, end: half-open range of the value.
        style: ``quoted``, ``=``, ``= `` with spaces, ``:``, ``cell`` or ``element``.
        key: name of the field. Empty for names in words.
    """

    kinds: frozenset[str]
    start: int
    end: int
    style: str
    key: str


class Row(NamedTuple):
    """A record without names: the ranges of its cells."""

    cells: tuple[tuple[int, int], ...]


def find_fields(text: str) -> Iterator[Field]:
    """Yields the fields of a text. A value without quotes may reach to the end of its line."""
    named: Field | None = None  # the last field with a value that is the name of a field: key="Password" value="…"
    for match in _separators(text):
        if text.startswith("://", match.start()):
            continue
        kinds, key = _key_before(text, match.start())
        if key is None:
            continue
        if named is not None and key.lower() in _VALUE_KEYS and match.start() - named.end < _NEAR:
            name = text[named.start : named.end]
            kinds = kinds_of(name) or (_PERSON if name.lower() in _INITIALS else kinds)
        elif key == "default" and (
            declared := _DECLARED.search(text, max(0, match.start() - _MAX_VALUE), match.start())
        ):
            kinds = kinds_of(declared[1])
        named = None
        for field in _values_behind(text, match, kinds, key):
            if key.lower() in _NAME_KEYS:
                start, end = field[1:3] if field.style == "quoted" else bare_word(text, field)
                named = field._replace(start=start, end=end)
                if kinds_of(text[start:end]) & _SECRETS:
                    continue
            yield field
    label, end_of_label = frozenset[str](), 0
    for element in _ELEMENT.finditer(text) if "</" in text else ():
        name = element[1].rpartition(":")[2]
        start, end = trimmed(text, *element.span(3))
        if start < end:
            attribute = _NAMED.search(element[2]) if element[2] else None
            is_labelled = element.start() - end_of_label < _NEAR and name.lower() in _BEHIND_LABELS
            kinds = kinds_of(name) or kinds_of(attribute[1] if attribute is not None else "")
            yield Field(kinds or (label if is_labelled else kinds), start, end, "element", name)
            words = text[start:end].rstrip(" :*").split() if name.lower() in _LABELS else []
            label, end_of_label = kinds_of_words(words)[0] if len(words) <= _MAX_LABEL else frozenset(), element.end()


def _separators(text: str) -> Iterable[re.Match[str]]:
    return _SEPARATOR.finditer(text) if ":" in text or "=" in text or not text.isascii() else ()


def find_names(text: str) -> list[Range]:
    """Returns the ranges of known names of fields, with the quotes and the separator beside them, and versions.

    A name in plain words ("Contact: …") is left out, and so is one with the name of a person ("anna_password"), an at
    sign, or a part with several digits. The name of ``keystore_password: ${KEYSTORE_PASSWORD}`` is no secret.
    """
    ranges: list[Range] = []
    for match in _separators(text):
        if text.startswith("://", match.start()):
            continue
        kinds, key = _key_before(text, match.start())
        if not kinds or not key or _IDENTIFIER.search(key):
            continue
        if not (_is_name_alone(key) or text.startswith(f" ${{{key.upper()}}}", match.end())):
            continue
        end = match.start()
        while end > 0 and text[end - 1] in " \t\"'`\\])":
            end -= 1
        start = end - len(key)
        is_marked = start > 0 and text[start - 1] in "\"'`"
        if text[start:end] == key and (is_marked or "=" in match[0] or not key.isalpha() or "secret" in kinds):
            last = match.end() + (text[match.end() : match.end() + 1] in "\"'")
            version = _VERSION.match(text, last) if "version" in kinds else None
            ranges.append((start - is_marked, version.end() if version is not None else last))
    return ranges


def _is_name_alone(key: str) -> bool:
    """Checks that each word before the known part of a name is a word of fields, and none may be a person's name."""
    parts = parts_of(key)
    known = next((at for at in range(len(parts)) if kinds_of("".join(parts[at:]))), len(parts))
    names = personal_names()
    return all(
        kinds_of(part) or part in THINGS or part in _PROGRAMS or (part in COMMON_WORDS and part not in names)
        for part in parts[:known]
    )


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns a range without white space at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _key_before(text: str, at: int) -> tuple[frozenset[str], str | None]:
    """Returns the kinds and the name of a field that ends before a separator. The name is None if there is none."""
    low = max(0, at - _BEFORE)
    before = text[low:at].rstrip(" \t\u00a0")
    if (subscript := before.rstrip("])"))[-1:] in ('"', "'"):  # environ["KEY"] = …
        before = subscript
    if before[-1:] in ('"', "'", "`", "”"):
        closing = before[-1]
        inside = before[:-1].rstrip("\\")
        key = inside[inside.rfind("“" if closing == "”" else closing) + 1 :]
        if _QUOTED_KEY.fullmatch(key):
            return kinds_of_words(key.split())[0], key
        return frozenset(), None
    words: list[str] = []
    if (remark := _REMARK.search(before)) is not None:
        before = before[: remark.start()]
    for token in reversed(_TOKEN.findall(before.rstrip("])*"))):
        word = token.lstrip("'’").removeprefix("-D")  # -H 'Authorization: …', -Dpassword=…
        if not (word[:1].isalnum() or (word[:1] in ("_", "$", "-") and len(word) > 1)) or len(words) == 4:
            break
        words.append(word)
        if word != token:
            break
    if not words:
        return frozenset(), None
    kinds, number = kinds_of_words(words[::-1])
    return kinds, words[0] if number == 1 else ""


def _values_behind(text: str, separator: re.Match[str], kinds: frozenset[str], key: str) -> Iterator[Field]:
    gap = _GAP.match(text, separator.end())
    at = gap.end() if gap is not None else separator.end()
    opening = text[at : at + 1]
    if opening == "\\" and text[at + 1 : at + 2] in ('"', "'"):
        end = text.find("\\" + text[at + 1], at + 2, at + _MAX_VALUE)
        yield Field(kinds, at + 2, end if end >= 0 else min(len(text), at + _MAX_VALUE), "quoted", key)
    elif opening in _QUOTES and opening:
        yield _quoted(text, at, kinds, key)
    elif opening == "[":
        kinds = kinds or _of_several(key)
        for _ in range(_MAX_ITEMS):
            at += 1
            while at < len(text) and text[at] in " \n\t,":
                at += 1
            bare = _ITEM.match(text, at) if kinds & _PERSONS else None
            if text[at : at + 1] not in ('"', "'") and bare is None:
                break
            item = Field(kinds, *bare.span(), "quoted", key) if bare is not None else _quoted(text, at, kinds, key)
            yield item
            at = item.end - (bare is not None)
    elif opening == "\n" and (kinds := (kinds & _PERSONS) or _of_several(key)):
        for _ in range(_MAX_ITEMS):
            entry = _ENTRY.match(text, at)
            if entry is None:
                break
            yield Field(kinds, *entry.span(1), "quoted", key)
            at = entry.end()
    elif opening and opening not in "{<\n\r":
        is_spaced = separator[0] != ":" and at > separator.end()
        style = ":" if separator[0] in ":：" else "= " if is_spaced else "="
        wide = _LINE.match(text, at)
        if wide is None:
            return
        cut = _NEXT_KEY.search(text, at, wide.end())
        start, end = trimmed(text, at, cut.start() if cut is not None else wide.end())
        if start < end:
            yield Field(kinds, start, end, style, key)


def _of_several(key: str) -> frozenset[str]:
    """Returns the kinds of the name of a list of persons: ``users``."""
    return kinds_of(key.removesuffix("s")) & _PERSONS if key.endswith("s") else frozenset()


def _quoted(text: str, at: int, kinds: frozenset[str], key: str) -> Field:
    """Returns the field of a string in quotes that begins at a quote. It may lack its end."""
    closing = _QUOTES[text[at]]
    end = at + 1
    limit = min(len(text), at + _MAX_VALUE)
    while end < limit and text[end] != closing and text[end] != "\n":
        end += 2 if text[end] == "\\" else 1
    return Field(kinds, at + 1, min(end, limit), "quoted", key)


def bare_word(text: str, field: Field) -> tuple[int, int]:
    """Returns the first word of a value without quotes."""
    word = _BARE.match(text, field.start, field.end)
    return (field.start, word.end()) if word is not None else (field.start, field.start)


def find_rows(text: str) -> Iterator[Row | Field]:
    """Yields the cells of tables with a header as fields, and the rows of other tables."""
    header: list[frozenset[str]] = []
    separator = ""
    at = 0
    for line in text.splitlines(keepends=True):
        start, end = trimmed(text, at, at + len(line))
        at += len(line)
        content = text[start:end]
        used = separator or _separator_of(content)
        if not used or len(content) > _MAX_CELL * _MAX_CELLS:
            header, separator = [], ""
            continue
        if header and _RULE.fullmatch(content):
            continue
        cells = _cells(text, start, end, used)
        if header and len(cells) == len(header):
            for kinds, (first, last) in zip(header, cells, strict=True):
                if first < last:
                    yield Field(kinds, first, last, "cell", "")
            continue
        may_be_header = len(cells) >= 2 and all(_QUOTED_KEY.fullmatch(text[first:last]) for first, last in cells)
        names = [kinds_of_words(text[first:last].split())[0] for first, last in cells] if may_be_header else []
        is_header = may_be_header and sum(map(bool, names)) * 2 >= len(cells)
        header, separator = (names, used) if is_header else ([], "")
        if not is_header and len(cells) >= 3 and used + " " not in content.replace('", "', "").replace("| ", ""):
            yield Row(tuple(cells))
    for values in _PARENTHESES.finditer(text) if "(" in text else ():
        if _QUOTED_CELLS.fullmatch(values[1]) and ("'" in values[1] or '"' in values[1]):
            yield Row(tuple(_cells(text, *values.span(1), ",")))
    row: list[tuple[int, int]] = []
    last_end = 0
    for cell in _CELL.finditer(text) if "<t" in text or "<T" in text else ():
        if row and _ROW_BREAK.search(text, last_end, cell.start()):
            yield Row(tuple(row))
            row = []
        row.append(trimmed(text, *cell.span(1)))
        last_end = cell.end()
    if row:
        yield Row(tuple(row))


def _separator_of(content: str) -> str:
    """Returns the mark that separates the cells of a line, or an empty string."""
    counts = {mark: content.count(mark) for mark in "\t|;,"}
    return next((mark for mark, count in counts.items() if count >= (1 if mark in "\t|" else 2)), "")


def _cells(text: str, start: int, end: int, separator: str) -> list[tuple[int, int]]:
    """Returns the cells of a line, without quotes. Empty if there are too many, or one is too long."""
    if separator == "|":
        start, end = start + (text[start] == "|"), end - (text[end - 1] == "|" and end - 1 > start)
    cells: list[tuple[int, int]] = []
    at = start
    while at <= end and len(cells) <= _MAX_CELLS:
        while at < end and text[at] == " ":
            at += 1
        quote = text[at] if at < end and text[at] in "\"'" else ""
        close = text.find(quote, at + 1, end) if quote else -1
        if close >= 0 and text[close + 1 : end].lstrip(" ")[:1] in ("", separator):
            cells.append(trimmed(text, at + 1, close))
            stop = text.find(separator, close, end)
        else:
            stop = text.find(separator, at, end)
            cells.append(trimmed(text, at, stop if stop >= 0 else end))
        if stop < 0:
            break
        at = stop + 1
    return [] if len(cells) > _MAX_CELLS or any(last - first > _MAX_CELL for first, last in cells) else cells
