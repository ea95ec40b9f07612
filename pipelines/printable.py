"""Makes text safe to show, so that it cannot control a terminal, an editor or a browser."""

from __future__ import annotations

import re
from typing import Final

_STEERING: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and line feed, with the escape of terminals
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # invisible characters inside scripts
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, ends of lines and paragraphs, marks of direction
    "\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\ud800-\udfff"  # halves of pairs, as Python reads a file name that is no UTF-8
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "]"
)


def printable(text: str) -> str:
    r"""Escapes every character that moves a cursor, reorders text, or is invisible, like JSON: ``\u202e``.

    Tabs, line feeds and all visible text stay. A JSON document keeps its values, because such characters stand only
    inside its strings.
    """
    return _STEERING.sub(lambda found: _escaped(found[0]), text)


def first_sentence(text: str) -> str:
    """Returns the first sentence of a text, with a full stop."""
    return text.partition(". ")[0].rstrip(".") + "."


def markdown_code(text: str) -> str:
    """Returns text on one line as code in Markdown, whatever backticks it holds."""
    shown = " ".join(printable(text).split("\n"))
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    around = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{around}{shown}{around}{fence}"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
