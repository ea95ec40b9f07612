"""Cuts a run without white space at the marks of JSON, CSV, markup and ``key=value``, so that values are tokens."""

from __future__ import annotations

import re
from typing import Final

_WHOLE: Final = re.compile(r"://|&#?\w{2,8};")
"""An address or an entity of HTML. A run with one is cut at quotes and tags alone."""

_TAG: Final = r"</?[A-Za-z][\w:.-]{0,60}/?>|(?<=[\"'/])>|\\*\"|[|]"
_TAGS: Final = re.compile(f"({_TAG})")
_MARKS: Final = re.compile(
    rf"({_TAG}|[{{}}]|[\[(](?=[\"'{{\[(])|(?<=[\"'}}\])])[\])]|;|(?<=[\w\"'\]])=(?!=)|(?<=[^\W\d_]):(?=[^\W_]|[+(\[{{'])"
    r"|(?<=[\"'\]}]):|(?:(?<=[^\W\d])|(?<=['\"\])])),|,(?=[^\W\d]|['\"(\[])|,(?=\d{4})|,(?=\d{1,2}(?!\d))"
    r"|(?<=[,:(\[{=])'|'(?=[,:;)\]}=>]))"
)


def pieces_of(run: str) -> list[str]:
    """Returns the pieces of a run. Their concatenation is the run. A run without such marks is one piece."""
    pattern = _TAGS if _WHOLE.search(run) else _MARKS
    return [piece for piece in pattern.split(run) if piece]
