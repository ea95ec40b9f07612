"""Ranges of a text that are read as a whole and identify nobody, and the finds that consist of their parts.

A model takes a part of a quantity, a version, a standard or a move of chess for a date, a number or a name. A find is
left out if such ranges cover it, apart from plain words. Hours, scores and models are left out only in rows without
another find, because they may tell of somebody.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pipelines.policies.english.code import documented_ranges
from pipelines.policies.english.common_words import FUNCTION_WORDS, NUMBER_WORDS, UNITS
from pipelines.policies.english.cues import CUE_NEXT
from pipelines.policies.english.everyday_numbers import STREETS
from pipelines.policies.english.known_words import WORDS, facts_of, is_word, runs_of
from pipelines.policies.english.name_lists import given_names, personal_names
from pipelines.policies.english.nobody import row_of
from pipelines.policies.english.public_entries import entries, set_phrases
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("ordinary")
_UNITS: Final = _LISTS["measures"] | _LISTS["times"]
_TERMS: Final = _LISTS["technical"] | _LISTS["numbered"] | _LISTS["programs"]
_SPORT: Final = word_lists("rows")["sport"]
_DIGITS: Final = _LISTS["digit_words"] | {"point"}
_SECRETS: Final = word_lists("rows")["secrets"]
_ANNOUNCED: Final = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_SECRETS))})(?: is| was| of|:|=)?\W{{0,3}}$", re.I)
_NUMBER_OF: Final = re.compile(r"(?<!\w)(?:no|nr|is|was)\W{1,3}$", re.I)
_NEAR: Final = 40
"""Characters before a range in which its cues stand."""

_CITED: Final = re.compile(
    r"(?<!\w)[A-Z][\w'’.&-]{0,40}(?: [A-Z][\w'’.&-]{0,40}){0,3} vs?\. "
    r"[A-Z][\w'’.&-]{0,40}(?: [A-Z][\w'’.&-]{0,40}){0,3}"
    r",? (?:[0-9]{1,4} [A-Z][\w. ]{0,14}[0-9]{1,5} ?)?(?:\([A-Za-z0-9. ]{0,16}[12][0-9]{3}\)|\[[12][0-9]{3}\])"
)
_NUMERAL: Final = r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,2}|[0-9]{1,5}(?:[.,][0-9]{1,4})?)"
_UNIT: Final = (
    r"(?:[kM]?Ω|bp|k?Wh|[km]?W|m?Ah|mA|[mk]V|[kMG]?Hz|MP|dB|[khM]?Pa|psi|rpm|fps|dpi|px|mph|km/h|N[ ·⋅]?m|kN|[cdkmnµ]m"
    r"[²³]?|m[²³]|[mµnk]g|mcg|[mdc][lL]|m?mol|kcal|kJ|lm|lx|ppm|mins?|secs?|hrs?|ms|inch(?:es)?|ft|lbs?|oz)(?![\w/]"
    r"|-[0-9])"
)
_QUANTITY: Final = re.compile(
    rf"(?<![\w.,:/#@-])(?<![NS] )(?<![NS], )[~±<>≤≥−+-]?{_NUMERAL}(?: ?(?:[x×±/–-]|to|by) ?{_NUMERAL}){{0,3}}"
    rf"(?:[ -]?(?:° ?[CF](?!\w)|°(?! ?[\w'’′])|%|{_UNIT}(?: (?:deep|wide|long|high|thick|tall)(?!\w))?)"
    r"|( ?[ghsmlLVWA](?![\w'’/-])))"
)
"""A quantity with a unit. A unit of one letter is a group."""

_DILUTION: Final = re.compile(
    r"(?<![\w.:/-])(?:1:[0-9]{3,6}|20/(?:[1-9]0|15|25|[1-4]00)|[1-9]-0(?= [A-Za-z]))(?![\w:]|\.[0-9])"
)
"""A dilution, the acuity of an eye, and the size of a suture."""

_SPAN: Final = re.compile(
    r"(?<![\w.,:/-])(?:[0-9]{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|twelve) (?:to|or) "
    r"(?:[0-9]{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|twelve) ([a-z]{3,20})(?!\w)",
    re.I,
)
"""Two numbers and what they count: "two to three tablets"."""

_TO_NUMBER: Final = re.compile(
    r" (?:to|or) (?:[0-9]{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|twelve) ", re.I
)
"""A part of every match of the pattern above."""

_LAST_WORD: Final = re.compile(r"([^\W\d_]+)\W*$")
_COUNT: Final = re.compile(
    r"(?<![\w.,:/-])[0-9]{1,3}(?:[-–][0-9]{1,3})? (?:[A-Z]{1,4}[0-9]{0,2} )?([a-z]{4,20}s)(?!\w)"
)
"""The number of things, perhaps with a size: "2 XL shirts"."""

_PRICE: Final = re.compile(
    r"(?<![\w$€£¥.,])(?:[$€£¥] ?[0-9]{1,3}(?:[.,][0-9]{2})?|[0-9]{1,3}(?:[.,][0-9]{2})? ?€"
    r"|[1-9][0-9]{0,2}(?:\.[0-9])?p)(?![\w$€£¥/-]|[.,][0-9])"
)
_INCOME: Final = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_LISTS['money_cues']))})(?!\w)[^.!?;]{{0,24}}$", re.I)
_PLAN: Final = re.compile(
    r"[^.!?;\n]{0,20}(?<!\w)(?:plans?|packages?|tariffs?|contracts?|bundles?|pension|rent)(?!\w)", re.I
)
_STANDARD: Final = re.compile(
    r"(?<![\w/-])((?:ISO|IEC|IEEE|DIN|EN|ASTM|ANSI|BS|NF|UNE|UNI|NZS|JIS|SAE|ASME|NFPA|CSA|ETSI|NIST|FIPS|RFC)"
    r"(?:/[A-Z]{2,4})?(?: (?:ISO|IEC|EN|TS|TR|SP)(?:/[A-Z]{2,4})?){0,2})[ -]"
    r"[A-Z]?[0-9]{1,5}[A-Z]?(?:[.-][0-9]{1,4}){0,3}(?::(?:19|20)[0-9]{2})?(?![\w/:-])"
    r"|(?<![\w/-])(?:19|20)?[0-9]{2}/[0-9]{1,4}/E(?:U|C|EC)(?!\w)"
    r"|(?<![\w.,-])[0-9]{1,2} CFR (?:Part )?[0-9]{1,4}(?:\.[0-9]{1,4})?(?![\w-])"
    r"|(?<!\w)(?:[Ff]orm|Schedule) [A-Z]{1,2}-[0-9]{1,3}[A-Z]{0,3}(?![\w-])"
    r"|(?<!\w)(?:Articles?|Art\.|Annex|Appendix|Clause|Recital|Schedule|Sections?) "
    r"(?:[0-9]{1,3}|[IVX]{1,5})(?:\([0-9a-z]{1,3}\)){0,3}(?![\w/:-])"
)
_BODIES: Final = word_lists("rows")["standards"]
"""Words of which every standard has one. They are a fast first test."""

_SHORT_BODIES: Final = frozenset({"BS", "NF", "UNE", "UNI", "CSA", "SAE", "EN"})
_OF_STANDARDS: Final = re.compile(
    r"(?<!\w)(?:standards?|compl(?:y|ies|iant)|conforms?|accordance|certifi\w{1,7}|marked|tested|grade|ISO|IEC)(?!\w)"
)
_VERSION: Final = re.compile(
    r"(?<![\w.,:/-])(?:v[0-9]{1,3}\.[0-9]{1,3}|[0-9]{1,2}\.x|v?[0-9]{1,3}\.[0-9]{1,3}\.(?:[0-9]{1,3}|x)"
    r"(?:-(?:rc|alpha|beta)[.0-9]{0,4})?)(?![\w/-]|[.,:][0-9])"
)
_VERSION_CUE: Final = re.compile(
    r"(?<!\w)(?:firmware|version|release|build|bios|kernel|driver|patch(?:ed)?|(?:up|down)grad(?:ed?|ing)|bumped"
    r"|pin(?:ned)?(?= to)|roll(?:ed|ing)? back|fixed|introduced|broken|resolved|shipped)"
    r"(?:[ :]{1,2}(?:in|to|from|below|above|is|version|firmware)){0,2}[ :]{1,2}$|[\"'@][\^~]$",
    re.I,
)
_VERSION_AFTER: Final = re.compile(r" (?:patch|release|version|update|build|firmware|image)(?!\w)")
_SHORT_END: Final = re.compile(r"\.[0-9x]\Z|^v")
"""The end of a version that is no date, because a date has a year of two digits."""

_BUILD: Final = re.compile(
    r"(?<!\w)(?:[Bb]uild [0-9]{3,6}(?:\.[0-9]{1,5})?"
    r"|(?i:ports?)(?: is| number)?(?: ?[:=] ?| )[0-9]{2,5}|(?<=-p )[0-9]{2,5})"
    r"(?![\w:/-]|\.[0-9])"
)
"""Numbers of builds and ports."""

_HOUR: Final = r"(?:[01]?[0-9]|2[0-4])"
_HOURS: Final = re.compile(
    rf"(?<![\w.:/-]){_HOUR}([.:])[0-5][0-9] ?(?:[-–]|to|until|(?<=between .{{6}})and) ?"
    rf"{_HOUR}\1[0-5][05](?![\w:/-]|[.,][0-9])"
    rf"|(?<![\w.:/-]){_HOUR}(?:[.:][0-5][0-9])? ?(?:[ap]\.?m\.?)? ?(?:[-–]|to|until) ?"
    rf"{_HOUR}(?:[.:][0-5][0-9])? ?[ap]\.?m(?!\w)"
)
_FROM_TO: Final = re.compile(r"[0-9] ?(?:[ap]\.?m\.? ?)?(?:[-–]|to|until|and) ?[0-9]")
"""What every range of hours holds."""

_CLOCK: Final = re.compile(
    rf"(?<![\w.:/-])(?:{_HOUR}|[3-9][0-9]):[0-5][0-9](?![\w:/-]|[.,][0-9])|(?<=(?<!\w)r[au]n )[0-9]{{1,3}}k(?!\w)"
)
"""A time of a clock or of a run, and how far somebody ran."""

_MOVE: Final = (
    r"(?:[KQRBN][a-h]?[1-8]?x?[a-h][1-8]|[a-h](?:x[a-h])?[1-8](?:=[QRBN])?|O-O(?:-O)?)(?![\w-])[+#]?[!?]{0,2}"
)
_NUMBERED_MOVE: Final = re.compile(rf"(?<![\w.])[0-9]{{1,3}}\.{{1,3}} ?{_MOVE}")
_MOVES: Final = re.compile(
    rf"(?<![\w.])[0-9]{{1,3}}\.{{1,3}}(?= ?{_MOVE})|(?<!\w){_MOVE}|(?<![\w-])(?:1-0|0-1)(?![\w-])"
)
_SCORE: Final = re.compile(
    r"(?<![\w.,:/-])(?:(?:0|[1-9][0-9]?)[-–](?:0|[1-9][0-9]?)|[1-9][0-9]{1,2}[-–][1-9][0-9]{1,2})(?![\w/-]|[.,:][0-9])"
)
_COUNTED: Final = re.compile(r"(?<![\w.,:/-])[0-9]{1,3}(?![\w/-]|[.,:][0-9])")
_CROWD: Final = re.compile(r"(?<!\w)(?:attendance|crowd|gate)(?: of| was|:)? [0-9]{1,3},[0-9]{3}(?!\w|,[0-9])", re.I)
_MODEL: Final = re.compile(
    r"(?<![\w.])[A-Z][A-Za-z]{2,15} [0-9]{1,3}[a-z]? (?:Pro|Max|Mini|Ultra|Plus|Lite|Air|SE|XL)"
    r"(?: (?:Max|Plus|Mini))?(?!\w)"
)
_VARIANTS: Final = frozenset({"pro", "max", "mini", "ultra", "plus", "lite", "air", "se", "xl"})
_ITEM: Final = re.compile(r"(?:\A|(?<=[.!?;:\n] )|(?<=\n))([0-9]{1,2})[.)](?= )")
"""The number of an item of a list."""

_HEADER: Final = re.compile(r"[a-z_]{2,20}(?:,[a-z_]{2,20}){2,12}(?=\n)")
_COLUMNS: Final = word_lists("rows")["columns"]
_CELL: Final = re.compile(
    r"(?<=[,\n])(?:[a-z]{2,12}|[A-Z]{1,3}|[0-9]{1,4}(?:\.[0-9]{1,2})?|[A-Z]{2,3}-[0-9]{2,4})(?=[,\n]|\Z)"
)
_GAP: Final = re.compile(r"[ ,]{0,2}|[ ](?:[x×/–-]|to|by|and|or)[ ]")
"""What stands between two ranges that are one."""

_RUN: Final = re.compile(r"\w+")
_DIGIT: Final = re.compile(r"\d")
_BEGINNING: Final = re.compile(r"(?:\A|[.!?:\n][\s(\"“]{0,2})\Z")
_LONGEST: Final = 200
"""Characters of a find above which it stays."""

_FEW_SCORES: Final = 3

CERTAIN: Final = frozenset(
    {"PASSWORD", "SECRET_KEY", "IBAN_CODE", "CREDIT_CARD", "EMAIL_ADDRESS", "IP_ADDRESS", "DATE_OF_BIRTH", "AGE"}
)
"""Labels of finds that are left out only as what documentation uses."""

Ranges = Sequence[tuple[int, int]]


class Wholes(NamedTuple):
    """Ranges of a text, in order and apart from each other.

    Attributes:
        documented: addresses and values that documentation uses. They are no passwords either.
        things: these and all other ranges that identify nobody.
        apart: the same ranges as `things`, before those that touch are one.
    """

    documented: Ranges
    things: Ranges
    apart: Ranges


@functools.lru_cache(maxsize=16)
def wholes_of(text: str) -> Wholes:
    """Returns the ranges of a text that identify nobody in any row."""
    things = [match.span() for match in _CITED.finditer(text)] if " v. " in text or " vs. " in text else []
    things += _spans(text)
    things += set_phrases(text)
    if _has_digit(text):
        things += [*_quantities(text), *_prices(text), *_standards(text), *_versions(text), *_moves(text)]
        things += [*_items(text), *(match.span() for match in _DILUTION.finditer(text))]
        things += (m.span() for m in _BUILD.finditer(text) if not _is_cued(text, m.start()))
    documented = list(documented_ranges(text))
    apart = [*_unannounced(text, things), *documented]
    return Wholes(_merged(text, documented), _merged(text, apart), apart)


@functools.lru_cache(maxsize=16)
def weak_wholes_of(text: str) -> Ranges:
    """Returns these ranges, and those that identify nobody in a row without another find."""
    weak = list(_cells(text)) if "," in text and "\n" in text else []
    if _has_digit(text):
        weak += [*_times(text), *_scores(text)]
        weak += entries(text)
        weak += (match.span() for match in _COUNT.finditer(text) if _is_thing(match[1]))
        if not _VARIANTS.isdisjoint(runs_of(text)):
            weak += (match.span() for match in _MODEL.finditer(text))
    return _merged(text, [*wholes_of(text).apart, *_unannounced(text, weak)])


def _has_digit(text: str) -> bool:
    return _DIGIT.search(text) is not None or (not text.isascii() and any(map(str.isdigit, set(text))))


def _unannounced(text: str, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the ranges that no word for a secret announces."""
    if not ranges or _SECRETS.isdisjoint(runs_of(text)):
        return ranges
    return [whole for whole in ranges if _ANNOUNCED.search(_before(text, whole[0])) is None]


def is_of_wholes(text: str, start: int, end: int, label: str) -> bool:
    """Returns true if a find consists of parts of ranges that identify nobody in any row."""
    wholes = wholes_of(text)
    return is_covered(text, start, end, wholes.documented if label in CERTAIN else wholes.things)


def is_covered(text: str, start: int, end: int, ranges: Ranges) -> bool:
    """Returns true if a find consists of parts of ranges, with plain words around them."""
    if not ranges or end - start > _LONGEST:
        return False
    at, is_touched = start, False
    first = max(0, bisect_left(ranges, (start + 1,)) - 1)
    for low, high in ranges[first : bisect_left(ranges, (end,))]:
        if high <= start:
            continue
        is_touched = True
        if not _is_plain(text, at, low):
            return False
        at = high
    return is_touched and _is_plain(text, at, end)


def _is_thing(word: str) -> bool:
    """Returns true for several things that are no years, data or houses, and for minutes and hours."""
    if word in ("minutes", "hours"):
        return True
    return is_word(word) and word not in UNITS and not word.endswith("bytes") and word.removesuffix("s") not in STREETS


def _is_plain(text: str, start: int, end: int) -> bool:
    """Returns true if characters hold nothing but marks, terms of programs, and words of the dictionary."""
    if start >= end:
        return True
    for run in _RUN.finditer(text, start, end):
        word = run[0]
        lower = word.lower()
        if lower in STREETS:
            return False
        if lower in _TERMS or (word.islower() and (lower in FUNCTION_WORDS or lower in NUMBER_WORDS)):
            continue
        is_plain = is_word(word) or (word.islower() and word in WORDS and word not in given_names())
        if not is_plain or not (word.islower() or _BEGINNING.search(text[max(0, run.start() - 3) : run.start()])):
            return False
    return True


def _merged(text: str, ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Returns ranges in order. Those that touch, or have only a mark or a small word between them, are one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and (start <= merged[-1][1] or _GAP.fullmatch(text, merged[-1][1], start) is not None):
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _before(text: str, start: int) -> str:
    return text[max(0, start - _NEAR) : start]


def _is_cued(text: str, start: int) -> bool:
    """Returns true if a cue of an identifier stands before a range: "passport no", "flat"."""
    return CUE_NEXT.search(_NUMBER_OF.sub("", _before(text, start))) is not None


def _quantities(text: str) -> Iterator[tuple[int, int]]:
    """Yields quantities without a cue. Units of one letter count if there is another quantity."""
    found = list(_QUANTITY.finditer(text))
    for match in found:
        if (len(found) > 1 or match[1] is None) and ("." in match[0] or not _is_cued(text, match.start())):
            yield match.span()


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yields two numbers and what they count. A number before them may be dictated."""
    for match in _SPAN.finditer(text) if _TO_NUMBER.search(text) is not None else ():
        last = _LAST_WORD.search(_before(text, match.start()))
        counted = match[1].lower()
        if (counted in _UNITS or (counted.endswith("s") and counted not in personal_names())) and not (
            last is not None and last[1].lower() in _DIGITS
        ):
            yield match.span()


def _prices(text: str) -> Iterator[tuple[int, int]]:
    """Yields prices below a thousand that are nobody's income, rent or debt, and no plan."""
    for match in _PRICE.finditer(text):
        if _INCOME.search(_before(text, match.start())) is None and _PLAN.match(text, match.end()) is None:
            yield match.span()


def _standards(text: str) -> Iterator[tuple[int, int]]:
    """Yields standards with their number. Bodies with a short name count if the row tells of standards."""
    if _BODIES.isdisjoint(runs_of(text)):
        return
    for match in _STANDARD.finditer(text):
        if not _is_cued(text, match.start()) and (
            match[1] not in _SHORT_BODIES or _OF_STANDARDS.search(text) is not None
        ):
            yield match.span()


def _versions(text: str) -> Iterator[tuple[int, int]]:
    """Yields versions that a word before them tells from dates. In a row of nobody one such word is enough."""
    found = list(_VERSION.finditer(text)) if "." in text else []
    cued = [
        match
        for match in found
        if _VERSION_CUE.search(_before(text, match.start())) or _VERSION_AFTER.match(text, match.end())
    ]
    counts_all = bool(cued) and row_of(text).is_of_nobody
    for match in found:
        if counts_all or match in cued or _SHORT_END.search(match[0]) is not None:
            yield match.span()


def _items(text: str) -> Iterator[tuple[int, int]]:
    """Yields the numbers 1, 2, 3 ... of a list in one row."""
    found = list(_ITEM.finditer(text))
    if len(found) > 1 and all(int(match[1]) == number for number, match in enumerate(found, start=1)):
        yield from (match.span() for match in found)


def _times(text: str) -> Iterator[tuple[int, int]]:
    """Yields opening hours, and in a row of nobody all times of a clock."""
    if _FROM_TO.search(text) is not None:
        yield from (match.span() for match in _HOURS.finditer(text))
    row = row_of(text)
    if ":" in text and row.is_of_nobody and not row.is_soft:
        for match in _CLOCK.finditer(text):
            yield match.span()


def _cells(text: str) -> Iterator[tuple[int, int]]:
    """Yields short numbers, words, sizes and codes in a table that has only columns of things."""
    header = _HEADER.match(text)
    if header is not None and all(column in _COLUMNS for column in header[0].split(",")):
        yield from (match.span() for match in _CELL.finditer(text, header.end()))


def _moves(text: str) -> Iterator[tuple[int, int]]:
    """Yields moves of chess if there are two with a number, and the result of a game."""
    first = _NUMBERED_MOVE.search(text)
    if first is not None and _NUMBERED_MOVE.search(text, first.end()) is not None:
        for match in _MOVES.finditer(text):
            yield match.span()


def _scores(text: str) -> Iterator[tuple[int, int]]:
    """Yields scores and numbers of spectators in a row of nobody that tells of a game, or is full of scores."""
    if _FROM_TO.search(text) is None:
        return
    found = [match.span() for match in _SCORE.finditer(text)]
    is_of_sport = not _SPORT.isdisjoint(runs_of(text))
    is_full = len(found) >= _FEW_SCORES and not facts_of(text).is_personal and _SECRETS.isdisjoint(runs_of(text))
    if is_full or (is_of_sport and row_of(text).is_of_nobody):
        yield from found
        if is_of_sport and found and row_of(text).is_of_nobody:
            yield from (match.span() for match in _CROWD.finditer(text))
            yield from (match.span() for match in _COUNTED.finditer(text))
