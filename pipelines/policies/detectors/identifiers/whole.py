"""Makes finds whole: a find that covers a part of a number, or of a name in Cyrillic or Greek, grows over all of it.

Rules:

* A *tight run* is digits with one mark of ``-/.:,`` between them, without spaces. If a find covers a part of it, it is
  masked whole.
* A *number in groups* is tight runs with one space or bracket between them, and a ``+`` or bracket before them. It has
  up to `MAX_DIGITS` digits. It is masked whole if at least `MIN_DIGITS` of its digits are masked and not all.
* A word with a capital beside a found name in Cyrillic, Greek or Armenian belongs to the name.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from pipelines.policies.protocol import Sentence, Span

MIN_DIGITS: Final = 7
MAX_DIGITS: Final = 20

_SPACE: Final = "[ \u00a0\u2007\u2009\u202f]"
_DIGIT: Final = re.compile(r"\d")
_TIGHT: Final = re.compile(r"\d+(?:[-/.:,‐‑–]\d+)*")
_GROUPS: Final = re.compile(rf"[+(]{{0,2}}\d+(?:(?:[-/.:,‐‑–]|[)]?{_SPACE}?[(]?)\d+)*")
_NAME: Final = re.compile(
    r"[\u0391-\u03ab\u0386-\u038f\u0400-\u042f\u0531-\u0556][\u0370-\u03ff\u0400-\u052f\u0531-\u0587'’-]*"
    r"(?: [\u0391-\u03ab\u0386-\u038f\u0400-\u042f\u0531-\u0556][\u0370-\u03ff\u0400-\u052f\u0531-\u0587'’-]*)+"
)
_NAMES: Final = frozenset({"PERSON", "NAME", "ORG", "ORGANIZATION"})


def made_whole(sentence: Sentence, finds: Sequence[Span], policy: str) -> list[Span]:
    """Returns more spans, for the rest of the numbers and names that finds cover in part."""
    text = sentence.text
    if not finds:
        return []
    labels: list[str | None] = [None] * sentence.num_tokens
    for find in finds:
        for token in range(find.start_token, find.end_token):
            labels[token] = labels[token] or find.label
    grown: list[Span] = []
    num_digits = len(_DIGIT.findall(text)) if None in labels else 0  # nothing is masked in part if all is masked
    if num_digits:
        grown += _grown(sentence, labels, list(_TIGHT.finditer(text)), policy)
    if num_digits > MIN_DIGITS:
        groups = [match for match in _GROUPS.finditer(text) if _is_number_in_part(sentence, labels, match)]
        grown += _grown(sentence, labels, groups, policy)
    if not text.isascii():
        names = [label if label in _NAMES else None for label in labels]
        grown += _grown(sentence, names, list(_NAME.finditer(text)), policy)
    return grown


def _is_number_in_part(sentence: Sentence, labels: Sequence[str | None], match: re.Match[str]) -> bool:
    """Returns true if enough digits of a number in groups are masked, and some are not."""
    digits = [match.start() + at for at, character in enumerate(match[0]) if character.isdigit()]
    if not MIN_DIGITS <= len(digits) <= MAX_DIGITS:
        return False
    masked = sum(labels[bisect_right(sentence.ends, at)] is not None for at in digits)
    return MIN_DIGITS <= masked < len(digits)


def _grown(
    sentence: Sentence, labels: list[str | None], wholes: Sequence[re.Match[str]], policy: str
) -> Iterator[Span]:
    """Yields one span for each whole of which some tokens have a label, and some have none. They get the label.

    Two wholes may share a token. So each is looked at from both sides.
    """
    for whole in (*wholes, *reversed(wholes)):
        tokens = sentence.widen(*whole.span())
        if tokens is None:
            continue
        first, last = tokens
        found = labels[first:last]
        label = next((label for label in found if label is not None), None)
        if label is not None and None in found:
            labels[first:last] = [label] * (last - first)
            yield Span(first, last, label, policy)
