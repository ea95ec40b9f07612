"""Doses, sizes, and short numbers after "version", "section" and the like."""

from __future__ import annotations

import re
from typing import Final

from pipelines.policies.english.cues import CUE_AFTER
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("ordinary")
DOSE: Final = re.compile(
    r"(?:[A-EK][0-9]{0,2} )?"
    r"(?:[0-9]{1,5}(?:[.,][0-9]{1,4})?(?: ?(?:-|to|x) ?[0-9]{1,4})? ?)?(?:mg|ml|mcg|µg|ug|kg|g|l|dl|mmol|mmhg|iu|"
    r"units?|cc|tablets?|tabs?|capsules?|puffs?|drops?|bpm|cups?|tsp|tbsp|oz)(?:/(?:kg|d?l|day|h|min))?",
    re.I,
)
MEASURE: Final = re.compile(
    r"[0-9]{1,5}(?:[.,][0-9]{1,4})? ?(?:[kmgt]?hz|[kmgt]i?b|[km]?w|kwh|px|fps|dpi|mbps|km|cm|mm)", re.I
)
_UNIT_NEXT: Final = re.compile(
    r" ?(?:mg|ml|mcg|µg|ug|kg|g|dl|mmol|mmhg|iu|units?|tablets?|capsules?|puffs?|drops?|bpm|cups?|tsp|tbsp)(?!\w)",
    re.I,
)
_SIZE_NEXT: Final = re.compile(r" ?(?:px|ms|[kmgt]i?b|[kmg]?hz|fps|dpi)(?!\w)", re.I)
_AFTER_DIGIT: Final = re.compile(r"\d ?$")
_RATIO: Final = re.compile(r"[0-9]{2,3}/[0-9]{2,3}")
_PRESSURE: Final = re.compile(r"(?:BP|pressure)\W{0,4}(?:\w{1,4} )?$", re.I)
_SHORT_NUMBER: Final = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}[a-z]?")
_TECHNICAL: Final = re.compile(
    rf"(?<!\w)(?:{'|'.join(sorted(_LISTS['numbered']))})(?:/[0-9.]{{1,4}})?[ #.:/=-]{{0,2}}$", re.I
)
_REST_OF_PHONE: Final = re.compile(r"\) ?\w{0,4}\d")


def is_number_of_a_thing(find: str, before: str, after: str, dates_and_numbers: str) -> bool:
    """Returns true for a dose, for a short number after "version", "section" and the like, and for a size of data."""
    follows_digit = _AFTER_DIGIT.search(before[-3:]) is not None
    if not (follows_digit or any(map(str.isdigit, find))) or CUE_AFTER.match(after) or _REST_OF_PHONE.match(after):
        return False
    if (find[0].isdigit() or follows_digit) and DOSE.fullmatch(find):
        return True
    if _SHORT_NUMBER.fullmatch(find) and (_UNIT_NEXT.match(after) or _TECHNICAL.search(before)):
        return True
    if dates_and_numbers == "identifying" and follows_digit and _SIZE_NEXT.fullmatch(find):
        return True
    return _RATIO.fullmatch(find) is not None and _PRESSURE.search(before) is not None
