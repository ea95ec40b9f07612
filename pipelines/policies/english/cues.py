"""Words beside a date or number, and its form, that tell that it identifies somebody."""

from __future__ import annotations

import re
from typing import Final

from pipelines.policies.english.common_words import NUMBER_WORDS
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("ordinary")
_WORD: Final = re.compile(r"[^\W\d_]+")
_DATE: Final = re.compile(
    r"(?<![\d.])(?:\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})|\d{4}[-/.]\d{1,2}[-/.]\d{1,2})(?![\d.])|\d{1,2}[-/]\w{3}[-/]\d{2,4}"
    rf"|(?=.*\b(?:{'|'.join(_LISTS['months'])}))(?=.*\d{{1,2}}(?!\d))(?=.*(?<!\d)\d{{4}}(?!\d))",
    re.I | re.S,
)
_LONG_NUMBER: Final = re.compile(r"\d(?:[ -]?\d){5,}")
_SPAN_OF_TIME: Final = re.compile(r"(?<!\w)(?:days?|weeks?|hours?|minutes?|seconds?|months?)(?!\w)(?! old)", re.I)
_FEW: Final = re.compile(r"[0-9]{1,2}|one|two|three|four|five|six|seven|eight|nine|ten", re.I)
_THINGS: Final = re.compile(r" (?:[a-z]{3,12} )?(?!years|yrs|kids|children)[a-z]{3,}s(?!\w)")
CUE_NEXT: Final = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_LISTS['cues_before']))})\W{{0,3}}$", re.I)
_MEASURED: Final = re.compile(r"[$€£¥]|\d[.,]\d|%|percent|\d{1,3}(?:,\d{3})+", re.I)
CUE_BEFORE: Final = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_LISTS['cues_before']))})(?!\w)[^.!?;{{]{{0,24}}$", re.I)
_COUNTS: Final = re.compile(rf"\d|(?<!\w)(?:{'|'.join(sorted(NUMBER_WORDS))})(?!\w)", re.I)
_DATE_CUE: Final = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_LISTS['date_cues']))})(?!\w)[^.!?;]{{0,24}}$", re.I)
CUE_AFTER: Final = re.compile(
    r"(?:[ -](?:one|two|three|four|five|six|seven|eight|nine))?"
    r"(?:[ -]?(?:years?|yrs?|months?|weeks?|days?)[ -]old|[ -]old|[ -]?y/?o(?!\w))"
    r"|[^.!?;]{0,24}(?<!\w)(?:from|out of|into|in|to) my (?:\w+ )?account",
    re.I,
)
_CUE_INSIDE: Final = re.compile(
    r"(?:years?|yrs?|months?|weeks?|days?)[ -]old|\by/?o\b|\baged?\b|\d(?:st|nd|rd|th) birth", re.I
)


def _has_cue(find: str, before: str, after: str) -> bool:
    """Returns true if a cue stands before a number. A span of time, or a count of things, needs a cue of its own."""
    if _SPAN_OF_TIME.search(find) and not before.endswith(("=", ":")):
        return _DATE_CUE.search(before) is not None
    if _FEW.fullmatch(find) and _THINGS.match(after):
        return CUE_NEXT.search(before) is not None and not before.lower().endswith(("order ", ", "))
    return CUE_BEFORE.search(before) is not None


def identifies(find: str, before: str, after: str) -> bool:
    """Returns true if a date or number has a cue, or a form that identifies somebody."""
    if not _COUNTS.search(find):
        return _DATE_CUE.search(before) is not None
    if _has_cue(find, before, after) or CUE_AFTER.match(after) or _CUE_INSIDE.search(find):
        return True
    if _DATE.search(find):
        return True
    if _LONG_NUMBER.search(find):
        return not _MEASURED.search(find) or len(re.sub(r"\D", "", find)) > 9
    words = [word for word in _WORD.findall(find.lower()) if word in NUMBER_WORDS]
    return len(words) >= 4
