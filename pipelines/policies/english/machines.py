"""Ranges of the text of machines that say themselves what they are: requests, blocks, small images, columns and genes.

Labels of screens and settings that are no passwords belong here, too. A name or a secret word keeps a find masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.english.common_words import FUNCTION_WORDS
from pipelines.policies.english.known_words import is_word
from pipelines.policies.english.name_lists import names_somebody

_TRACED: Final = re.compile(
    r"(?<![^\W_])(?:req(?:uest)?|trace|span|correlation|task|job|build|deployment|container|pod|volume|partition)"
    r"(?:[ _-]?id)?(?:[\"']?[:=]| is|[ ])[ \"'\[(#]{0,3}[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])",
    re.I,
)
_BLOCK: Final = re.compile(
    r"(?<!\w)block(?: (?:number|height))?[ :=#]{1,3}[0-9]{5,9}(?![\w.-]?[0-9])"
    r"|(?<!\w)(?:(?:block|parent|state|receipts|merkle) ?(?:hash|root)|hash)[\"']?[ :=]{1,3}[\"']?0x[0-9a-f]{64}"
    r"(?!\w)"
    r"|(?<!\w)gas (?:used|limit|price)[ :=]{1,3}[0-9]{1,3}(?:,?[0-9]{3}){0,3}(?![\w.,-]?[0-9])",
    re.I,
)
_ICON: Final = re.compile(
    r"data:(?:image|font)/[a-z0-9.+-]{1,40}(?:;[a-z]{1,10}=[a-z0-9-]{1,20})?;base64,[A-Za-z0-9+/]{4,400}={0,2}(?![\w+/=])"
)
"""An image inside a text, too small for a photo."""

_CLASSES: Final = re.compile(r"(?<![\w-])class(?:Name)?=(?:\"([^\"\n@]{1,400})\"|'([^'\n@]{1,400})')")
_CLASS: Final = re.compile(r"\S+")
_COLUMN: Final = re.compile(
    r"(?<![\w.,+-])(?<![0-9] )[1-9][0-9]{0,6}(?: [1-9][0-9]{0,6}){1,9} ?"
    r"(?:[mnµu]s|[kMG]i?B(?:/s)?|[kMG]?Hz|(?:req|rows|ops|tokens|bytes|packets)/(?:s|sec|min|h)|rpm|fps)(?![\w/-])"
)
"""Whole numbers before one unit."""

_PACKED: Final = re.compile(r"\.(?:tar\.|tgz|whl|deb|rpm|jar|iso|apk|dmg|msi)")
_KERNEL: Final = re.compile(r"^\[ {0,8}[0-9]{1,8}\.[0-9]{6}\](?= )", re.M)
_ARCHIVE: Final = re.compile(
    r"(?<![\w/.@+~-])[A-Za-z][\w.+~-]{0,80}\.(?:tar\.(?:gz|bz2|xz|zst)|tgz|whl|deb|rpm|jar|iso|apk|dmg|msi)(?![\w-]|\.\w)"
)
_VARIANT: Final = re.compile(
    r"(?<![\w.])(?:(?:[A-Z]{2,6}[0-9]{0,4}[A-Z]?|NM_[0-9]{6,9}\.[0-9]{1,2}):? ?)?"
    r"(?:c\.[*-]?[0-9]{1,6}(?:[+-][0-9]{1,4})?(?:_[*-]?[0-9]{1,6}(?:[+-][0-9]{1,4})?)?"
    r"(?:[ACGT]{1,9}>[ACGT]{1,9}|(?:dup|del|ins|inv)[ACGT]{0,20}(?:ins[ACGT]{1,20})?)"
    r"|p\.\(?[A-Z][a-z]{0,2}[0-9]{1,5}(?:[A-Z][a-z]{0,2}|\*|=)?(?:_[A-Z][a-z]{0,2}[0-9]{1,5})?(?:del|dup|ins)?"
    r"(?:fs(?:\*?[0-9]{1,4})?)?\)?)(?!\w)"
    r"|(?<![\w.])chr(?:[0-9]{1,2}|[XYM]):[0-9]{1,9}(?:-[0-9]{1,9})?(?: [ACGT]{1,9}>[ACGT]{1,9})?(?!\w)"
)
"""A variant of a gene in the notation of the HGVS, with its gene, and a place on a chromosome."""

_FIELD: Final = r"(?:pass(?:word|wd|phrase|code)|secret|token|pin|api_?key)s?"
_FIELD_PARTS: Final = ("pass", "secret", "token", "pin", "key")
_SETTING: Final = re.compile(
    rf"(?<![\w.-])(?:[A-Za-z]\w{{0,30}}[_.-])?(?:allow|require|enable|disable|use|force|has|show|hide|random|expire|no)"
    rf"[_-]?(?:[A-Za-z]{{1,12}}[_-]?){{0,2}}{_FIELD}(?:[_-]?(?:login|auth|authentication|reset|check))?[\"']?"
    r"(?: ?[:=] ?|[ ])[\"']?(?:yes|no|true|false|on|off|0|1)(?![\w.@!#$%^&*+-])[\"']?",
    re.I,
)
"""A setting that turns something on or off."""

_LABEL: Final = re.compile(
    rf"[\"'](?:[A-Za-z][\w-]{{0,30}}\.){{0,6}}(?:\w{{0,20}}[._-])?{_FIELD}[._-](?:label|hint|placeholder|title"
    r"|tooltip|help|error|message|heading|description|caption|button|prompt)[\"'] ?: ?"
    r"[\"']([A-Z][^\"'\n]{1,80})[\"'](?:, )?",
    re.I,
)
"""A text on a screen about a secret."""

_WORDS: Final = re.compile(r"[^\W_]+")
_CODE: Final = re.compile(
    r"(?<![\w-])(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)(?= /[\w{:<-])"
    r"|(?<![\w-])(?:NO)?(?:PASSWD|EXEC|SETENV)(?=: ?(?:ALL(?!\w)|/))"
    r"|(?<![\w-])[RCL][0-9]{1,3} ?[(=] ?[0-9]{1,3}[kKMRpnu][0-9]{0,2}(?![\w-])"
)
"""A method of HTTP before a path, a tag of sudoers before a command, and a part of a circuit with its value."""

_DOSED: Final = re.compile(
    r"(?<![\w.,-])[0-9]{1,5}(?:[.,][0-9]{1,3})? ?(?:mg|mcg|[µu]g|g|m[lL]|IU|units?|puffs?|tablets?|tabs?|drops?)"
    r"(?: [A-Z]{2,5}){1,2}(?![\w'’/-]| [A-Z])"
)
"""A dose, with how and when it is taken in capitals."""

_HIDDEN_URL: Final = re.compile(
    r"(?<![\w.])[a-z][a-z+0-9]{1,20}://([\w.-]{1,40}):\*{3,40}@([\w.:-]{1,60}(?:/[\w.-]{0,60})?)(?![\w.@/-])"
)


def machine_ranges(text: str, lower: str, *, has_digit: bool) -> Iterator[tuple[int, int]]:
    """Yields ranges of text of machines that identify nobody.

    Args:
        text: text of a row.
        lower: the same text in small letters.
        has_digit: flag that it holds a digit.
    """
    if has_digit:
        yield from _numbers(text, lower)
    if ";base64," in text:
        yield from (match.span() for match in _ICON.finditer(text))
    for classes in _CLASSES.finditer(text) if "class" in text else ():
        for match in _CLASS.finditer(text, *classes.span(1 if classes[1] else 2)):
            if not names_somebody(match[0]):
                yield match.span()
    if _PACKED.search(text):
        yield from (match.span() for match in _ARCHIVE.finditer(text) if not names_somebody(match[0]))
    if " /" in text or "(" in text or "=" in text:
        yield from (match.span() for match in _CODE.finditer(text))
    if any(word in lower for word in _FIELD_PARTS):
        yield from (match.span() for match in _SETTING.finditer(text))
    if '":' in text or "':" in text:
        yield from _labels(text)
    for match in _HIDDEN_URL.finditer(text) if ":***" in text else ():
        if is_word(match[1]) and not names_somebody(match[2]):
            yield match.span()


def _numbers(text: str, lower: str) -> Iterator[tuple[int, int]]:
    """Yields ranges that hold a digit."""
    if "-" in text:
        yield from (match.span() for match in _TRACED.finditer(text))
    if "block" in lower or "0x" in lower or "gas " in lower:
        yield from (match.span() for match in _BLOCK.finditer(text))
    if "[" in text:
        yield from (match.span() for match in _KERNEL.finditer(text))
    if "c." in text or "p." in text or "chr" in text:
        yield from (match.span() for match in _VARIANT.finditer(text))
    yield from (match.span() for match in _DOSED.finditer(text) if not names_somebody(match[0]))
    yield from (match.span() for match in _COLUMN.finditer(text))


def _labels(text: str) -> Iterator[tuple[int, int]]:
    """Yields texts of screens that have only words of the dictionary. Those that follow each other are one range."""
    start = end = 0
    for match in _LABEL.finditer(text):
        words = [word.lower() for word in _WORDS.findall(match[1])]
        if all(word in FUNCTION_WORDS or is_word(word) for word in words):
            start, end = start if match.start() == end else match.start(), match.end()
            yield start, end
