"""A policy for street addresses in the forms of several countries, with abbreviations, lower case and line breaks.

Entity models find places and miss streets. This policy finds the core of an address (a house number with a street, a
post box, a military address) and then its continuation: flat, town, region, country, postcode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Range, any_of, merge_ranges
from pipelines.policies.detectors.first_pass import NUMERIC, count, holds, kind, kinds_of, last_runs, may_hold_capital
from pipelines.policies.english.common_words import COMMON_WORDS, FUNCTION_WORDS, NUMBER_WORDS
from pipelines.policies.english.nobody import row_of
from pipelines.policies.english.ordinary import without_ordinary
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

_LISTS: Final = word_lists("street_words")


# --- words ------------------------------------------------------------------------------------------------------

_STRONG: Final = _LISTS["strong"]
_WEAK: Final = _LISTS["weak"]
_FOREIGN: Final = _LISTS["foreign"]
_FOREIGN_SUFFIX: Final = _LISTS["foreign_suffix"]
_NOT_STREETS: Final = _LISTS["not_streets"]
_DAYS: Final = _LISTS["days"]
"""Words that are never alone with the number of a house. A street may have such a name: "Friday Street"."""

_SPOKEN: Final = _LISTS["spoken"]
_SPOKEN_TYPES: Final = frozenset(word for word in _STRONG if len(word) > 3) - {"circle", "route", "trail", "broadway"}
_CUE: Final = re.compile(
    r"\b(?:address(?:\s+(?:is|was|to|of\s+\w+\s+is))?|located\s+(?:at|on|in)|liv(?:e|es|ing)\s+(?:at|on|in)|moved\s+to"
    r"|resid(?:e|es|ed|ing)\s+(?:at|on|in)|offices?\s+(?:is|are)\s+(?:at|on|in)"
    r"|(?:ship|send|sent|deliver(?:ed)?|return|mail(?:ed)?|post(?:ed)?|come|go|drive)\b[^.!?\n]{0,30}?\bto"
    r"|meet\s+(?:me|you|us)|arrived|off|station\s+is|is|at|on|in|near|from|home|house|deliver|street)"
    r"\s*(?:at|on|in|:)?\s*[:\-]?\s*$",
    re.I,
)

# --- parts ------------------------------------------------------------------------------------------------------

_LETTERS: Final = r"[^\W\d_]"
_WORD: Final = rf"(?:{_LETTERS}+(?:['’/-]{_LETTERS}+)*\.?)"
CAPITALISED: Final = rf"(?:(?-i:[^\W\d_a-zß-ÿ]){_LETTERS}*(?:['’/-]{_LETTERS}+)*)"
"""A word that begins with a capital, even in a pattern that ignores case."""

_CAPITAL: Final = rf"(?:{CAPITALISED}\.?)"
_NUMBER: Final = r"\d{1,6}(?:[ -]?[A-Za-z]\b|[-/]\d{1,4}[A-Za-z]?\b|[ ]?(?:bis|ter|quater)\b)?"
_GAP: Final = r"[\s>?|*]+"
"""White space, line breaks, and the marks at the start of lines in quoted mail."""

_SEPARATOR: Final = r"[\s,;>?|*()\[\]]*"
_TYPE: Final = rf"{any_of(_STRONG)}\b\.?(?:\s+(?:n\.?e|n\.?w|s\.?e|s\.?w|north|south|east|west|[nsew])\b\.?)?"
_UNIT: Final = re.compile(
    r"(?<!\w)(?:(?:apartment|apt|suite|ste|unit|flat|room|rm|floor|fl|bldg|building|block|door|house|no)\b\.?\s*(?:#|no\.?)?\s*"
    r"(?:\d{1,5}\s?[a-z]?|[a-z]\d{0,4})\b|#\s?\d{1,5}\s?[a-z]?\b|(?:\d{1,3}(?:st|nd|rd|th)\s+(?:floor|cross|main|stage|phase))\b"
    r"|(?:h\.?\s?no|d\.?\s?no|plot\s+no)\b[.:]{0,2}\s*\d[\w/-]{0,15}|app\.\s*\d{1,4}\b)",
    re.I,
)
_DANGLING: Final = re.compile(r"(?<!\w)(?:apartment|apt|suite|ste|unit)\b\.?(?=\s*$)", re.I)
_TYPED: Final = re.compile(
    rf"(?<![\w.,-])(?:\d{{2,6}},?{_GAP})?({_NUMBER}),?{_GAP}((?:{_WORD}{_GAP}){{0,4}}?){_TYPE}(?!\w)", re.I
)
_SPELLED: Final = re.compile(
    rf"(?<![\w-])((?!oh){any_of(_SPOKEN)}(?:[ -]{any_of(_SPOKEN)}){{0,7}})[ ]((?:{_WORD}[ ]){{1,3}}?)"
    rf"{any_of(_SPOKEN_TYPES)}(?!\w)",
    re.I,
)
_SINGAPORE: Final = re.compile(
    rf"(?<!\w)(?:blk|block)\.?[ ]?\d{{1,4}}[a-z]?,?(?:[ ]{_CAPITAL},?){{1,5}}(?:[ ]\d{{1,3}}(?!\d),?)?"
    rf"(?:[ ]#\d{{1,3}}-\d{{1,5}}[a-z]?(?:,?[ ]{_CAPITAL})?(?:[ ](?:S[ ]?)?\(?\d{{6}}\)?)?"
    r"|,?[ ]Singapore[ ]\(?\d{6}\)?)",
    re.I,
)
"""A block with a flat ("#07-233"), or a postcode."""

_WEAKLY_TYPED: Final = re.compile(
    rf"(?<![\w.,-])(?:\d{{2,6}},?{_GAP})?({_NUMBER}),?{_GAP}((?:{_WORD}{_GAP}){{1,3}}?){any_of(_WEAK)}\b(?!\w)", re.I
)
_BETWEEN: Final = re.compile(
    rf"(?<![\w.,-])({_NUMBER}),?{_GAP}((?:{_WORD}{_GAP}){{1,5}}?)(\d{{1,5}}[A-Za-z]?)\b(?![\d%.]*\d)", re.I
)
_END_OF_SENTENCE: Final = re.compile(r"[a-z]{4}[.]\s")
_FOREIGN_TYPED: Final = re.compile(
    rf"(?<!\w)((?:{_WORD}{_GAP}){{0,2}}?{any_of(_FOREIGN)}(?!\w)(?:{_GAP}{_WORD}){{0,4}}?)"
    rf"(?:,?{_GAP}|(?<=\.))(\d{{1,5}}[A-Za-z]?)\b",
    re.I,
)
_FOREIGN_AFTER: Final = re.compile(
    rf"(?<![\w.,-])({_NUMBER}),?{_GAP}({any_of(_FOREIGN)}(?!\w)(?:{_GAP}(?:(?:de|du|des|la|le|les|da|do|dos|del|di)"
    rf"{_GAP})*{_CAPITAL}){{1,4}})",
    re.I,
)
_CORNER: Final = re.compile(
    rf"(?:the\s+)?(?:corner|junction|intersection)\s+of\s+(?:(?:{_WORD}|\d{{1,5}}(?:st|nd|rd|th)?){_GAP}){{1,5}}?"
    rf"(?:and|&)(?:(?:{_GAP}(?:{_CAPITAL}|\d{{1,5}}(?:[a-z]|st|nd|rd|th)?\b)){{1,4}}|{_GAP}{_WORD})",
    re.I,
)
_CROSSING: Final = re.compile(
    rf"(?<!\w)({_CAPITAL}\s+and(?:\s+{_CAPITAL}|\s+(?:do|u\.|de)){{1,3}}\s+\d{{1,5}}[A-Za-z]?)\b"
)
_SUFFIXED: Final = re.compile(
    rf"(?<!\w)((?:{_WORD}{_GAP}){{0,2}}?{_LETTERS}{{2,}}{any_of(_FOREIGN_SUFFIX)}\.?){_GAP}(\d{{1,5}}[A-Za-z]?)\b", re.I
)
_SUFFIX_BEFORE_NUMBER: Final = re.compile(rf"{any_of(_FOREIGN_SUFFIX)}\.?{_GAP}\d", re.I)
"""A part of every match of the pattern above."""

_NAMED_STREET: Final = re.compile(
    rf"(?<!\w)((?:{_CAPITAL}[ ]+){{1,3}}?)(?:Street|Road|Avenue|Boulevard|Lane|Drive|Ave|Blvd|Rd|Streets|Terrace"
    r"|Parkway|Highway|Crescent|Square)\b\.?"
)
_CUED: Final = re.compile(rf"((?:{_NUMBER},?{_GAP})?)((?:{_CAPITAL}(?:{_GAP}|(?=,|\d))){{1,5}})(\d{{1,5}}[A-Za-z]?\b)?")
_LINE: Final = re.compile(
    rf"^[\s>?|*]*({_CAPITAL}(?:[ ]{_WORD}){{0,4}}[ ]\d{{1,4}}[A-Za-z]?|{_NUMBER}[ ]{_CAPITAL}(?:[ ]{_WORD}){{0,4}}"
    rf"|{_CAPITAL}(?:[ ]\(?{_WORD}\)?){{0,3}}[ ]\d{{4,6}}|\d{{5}}(?:-\d{{4}})?)[\s.,?]*$",
    re.M,
)
_BOX: Final = re.compile(
    r"(?<!\w)(?:\d{1,6}\s+)?(?:p\.?\s?o\.?\s?box|post(?:al)?\s?box|postbox|gpo\s+box)\s*#?\s*\d+\b", re.I
)
_RURAL: Final = re.compile(
    r"(?<!\w)(?:(?:rural|star|highway contract)[ ]route|(?:r\.?[ ]?r|rte?|h\.?c|r\.?f\.?d|r\.?d)\b\.?)[ ]?(?:no\.?|#)?"
    r"[ ]?\d{1,4},?[ ](?:p\.?o\.?[ ])?(?:box|bx|lot)\.?[ ]?#?\d{1,6}[a-z]?\b"
    r"|(?<!\w)rural[ ]route[ ](?:no\.?[ ]?|#)?\d{1,4}\b|(?<!\w)(?-i:RR|R\.R\.)[ ]?#?\d{1,3}\b",
    re.I,
)
_MILITARY_TAIL: Final = rf"(?:{_SEPARATOR}[AFD]PO\b{_SEPARATOR}(?:A[AEP]\b)?{_SEPARATOR}(?:\d{{5}}(?:-\d{{4}})?)?)"
MILITARY: Final = re.compile(
    rf"(?<!\w)(?:(?:PSC|CMR|Unit)\s+\d+,?\s+Box\s+\d+{_MILITARY_TAIL}?|US(?:S|NS|NV|CGC)\s+{_WORD}(?:\s+{_WORD}){{0,2}}?"
    rf"{_MILITARY_TAIL}|US(?:NS|NV|CGC)\s+{_WORD}|[AFD]PO,?\s+A[AEP],?\s+\d{{5}}(?:-\d{{4}})?)",
    re.I,
)
_STATES: Final = _LISTS["states"]
_POSTCODES: Final = re.compile(
    rf"(?<!\w)(?:{any_of(_STATES)}\.?,?\s+\d{{5}}(?:-\d{{4}})?\b|(?-i:[A-Z]{{1,2}}\d[A-Z\d]?\s?\d[A-Z]{{2}}\b)"
    r"|(?-i:[A-Z]\d[A-Z]\s?\d[A-Z]\d\b)|zip(?:\s*code)?(?:\s+is|\s*:)?\s+\d{5}(?:-\d{4})?\b)",
    re.I,
)
_LOWER_POSTCODES: Final = re.compile(
    rf"(?<![\w.,/-])(?:[abceghj-nprstvxy]\d[abceghj-nprstv-z][ -]?\d[abceghj-nprstv-z]\d"
    rf"|{any_of(_LISTS['uk_areas'])}\d(?:\d|[a-z])?[ ]?\d(?!st\b|nd\b|rd\b|th\b|hr\b|gb\b|lb\b|ft\b|yd\b)"
    rf"[abd-hjlnp-uw-z]{{2}})(?![\w-])"
)
"""Postcodes of Canada and the United Kingdom in small letters, with the letters that they may have."""

_CITY_STATE_ZIP: Final = re.compile(
    rf"(?<!\w)(?:{_CAPITAL}[ ]?){{1,3}},\s*(?-i:{any_of(_STATES)})\.?\s+\d{{5}}(?:-\d{{4}})?\b"
)

# Parts that may follow a core, each after separators: a flat, a postcode, a place of a few capitalised words.
_TAIL_POSTCODE: Final = re.compile(
    r"(?-i:[A-Z]{1,3})?[ -]?\d{4,6}(?:-\d{3,4})?\b|[A-Z]{1,2}\d[A-Z\d]?\s?\d[A-Z]{2}\b|\d{3}\s\d{2}\b", re.I
)
_TAIL_PLACE: Final = re.compile(
    rf"\(?(?:{_CAPITAL}|\d{{2}}(?=\s*\n))(?:(?:[ ]|\s*,\s*(?=[A-Z]{{2}}\b))(?:(?:de|do|da|del|della|di|la|le|les|of|and"
    rf"|the|na|nad|am|an|im|upon|sur|en|op|aan|den)[ ])*\(?(?:{_CAPITAL}|nan\b)\)?){{0,4}}"
)
_TAIL_WORD: Final = re.compile(rf"[ ]?{_WORD}(?!\w)")
_TAIL_GAP: Final = re.compile(r"(?:\.(?=\s*(?:\n|(?i:apt|suite|ste|unit|flat))))?[\s,;>?|*]*")
_MAX_TAIL_PARTS: Final = 7
_NUMBER_BEFORE: Final = re.compile(r"(?<![\w.,/-])\d{1,6}[A-Za-z]?,?[\s>?|*]+$")
_DIGIT: Final = re.compile("[0-9]")
_PLAIN_WORDS: Final = COMMON_WORDS | NUMBER_WORDS
_STOP_TAIL: Final = _LISTS["stop_tail"]
_PARTICLES: Final = _LISTS["particles"]
"""Function words of English that are parts of street names in other languages."""


# Words that a match of some patterns needs (`first_pass`).
_STRONG_WORD: Final = kind(last_runs(_STRONG))
_WEAK_WORD: Final = kind(last_runs(_WEAK))
_FOREIGN_WORD: Final = kind(last_runs(_FOREIGN))
_SUFFIXES: Final = tuple(last_runs(_FOREIGN_SUFFIX))
_SUFFIXED_WORD: Final = kind(lambda word: word.endswith(_SUFFIXES))
_STREET_WORD: Final = kind(_LISTS["named"])
_CORNER_WORD: Final = kind(frozenset({"corner", "junction", "intersection"}))
_UNIT_WORD: Final = kind(_LISTS["units"])
_BLOCK_WORD: Final = kind(lambda word: word.startswith(("blk", "block")))
_SPOKEN_WORD: Final = kind(_SPOKEN)
_BOX_WORD: Final = kind(lambda word: "box" in word)
_RURAL_WORD: Final = kind(lambda word: "box" in word or word.startswith(("bx", "lot", "rr")) or word in ("r", "rural"))
_MILITARY_WORD: Final = kind(
    lambda word: "box" in word or word.endswith(("apo", "fpo", "dpo")) or word in ("usns", "usnv", "uscgc")
)
_POSTCODE_WORD: Final = kind(lambda word: re.search(r"\A\d{5}\Z|\d[a-z]{2}\Z|\d[a-z]\d\Z", word) is not None)


class AddressesPolicy(NamedPolicy):
    """Masks street addresses, post boxes and postcodes. All finds are by pattern, so every score is 1."""

    def __init__(self, options: PolicyOptions) -> None:
        super().__init__(options)
        self._dates_and_numbers = options.dates_and_numbers

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns all addresses, without those that `dates_and_numbers` leaves out. Overlapping finds are merged."""
        if not _may_hold_address(sentence.text):
            return []
        found = sentence.spans(((a, b, "ADDRESS") for a, b in find_addresses(sentence.text)), self._name)
        return without_ordinary(found, sentence, self._dates_and_numbers)


def _may_hold_address(text: str) -> bool:
    has_digit = _DIGIT.search(text) is not None or (not text.isascii() and any(map(str.isdigit, text)))
    if has_digit or (holds(text, _SPOKEN_WORD) and holds(text, _STRONG_WORD) and _SPELLED.search(text) is not None):
        return True
    return holds(text, _STREET_WORD) and _NAMED_STREET.search(text) is not None


def find_addresses(text: str) -> list[Range]:
    """Returns the addresses of a text as characters, sorted, without overlaps."""
    parts = [(_start_with_number(text, start), _end_of_tail(text, end)) for start, end in set(_cores(text))]
    patterns = (_POSTCODES, _LOWER_POSTCODES, _CITY_STATE_ZIP) if holds(text, _POSTCODE_WORD) else ()
    parts += [match.span() for pattern in patterns for match in pattern.finditer(text)]
    return merge_ranges(parts)


def _cores(text: str) -> Iterator[Range]:
    kinds = kinds_of(text)
    needed = (
        (_BOX, _BOX_WORD),
        (_RURAL, _RURAL_WORD),
        (MILITARY, _MILITARY_WORD),
        (_FOREIGN_AFTER, _FOREIGN_WORD),
        (_CORNER, _CORNER_WORD),
        (_NAMED_STREET, _STREET_WORD),
        (_DANGLING, _UNIT_WORD),
        (_SINGAPORE, _BLOCK_WORD),
    )
    for pattern, word in needed:
        if kinds & word:
            yield from (match.span() for match in pattern.finditer(text))
    for match in _TYPED.finditer(text) if kinds & _STRONG_WORD else ():
        if _could_name_a_street(match[2], strong=True):
            yield match.span()
    for match in _SPELLED.finditer(text) if kinds & _SPOKEN_WORD and kinds & _STRONG_WORD else ():
        is_long = len(match[1].replace("-", " ").split()) > 1
        if (is_long or match[2].istitle()) and _could_name_a_street(match[2], strong=True):
            yield match.span()
    for match in _WEAKLY_TYPED.finditer(text) if kinds & _WEAK_WORD else ():
        if _could_name_a_street(match[2], strong=False):
            yield match.span()
    for match in _BETWEEN.finditer(text) if count(text, NUMERIC) > 1 else ():
        is_item = match[2][0].islower() and "," in text[match.end(1) : match.start(2)]
        if not is_item and _END_OF_SENTENCE.search(match[2]) is None and _is_name(match[2]):
            yield match.span()
    has_suffix = kinds & _SUFFIXED_WORD and _SUFFIX_BEFORE_NUMBER.search(text) is not None
    for pattern, is_tried in ((_FOREIGN_TYPED, kinds & _FOREIGN_WORD), (_SUFFIXED, has_suffix)):
        for match in pattern.finditer(text) if is_tried else ():
            start = _first_of_name(match[1], match.start(1))
            if start is not None:
                yield start, match.end()
    for match in _CROSSING.finditer(text) if "and" in text else ():
        if _CUE.search(text, max(0, match.start() - 80), match.start()):
            yield match.span()
    for match in _UNIT.finditer(text) if "#" in text or kinds & _UNIT_WORD else ():
        if match[0][0].isupper() or match[0].lower().startswith(("apt", "suite", "ste")):
            yield match.span()
    if kinds & NUMERIC and may_hold_capital(text):
        yield from _cued(text)
    if "\n" in text:
        yield from (match.span(1) for match in _LINE.finditer(text) if not _is_plain_line(text, match[1]))


def _is_plain_line(text: str, line: str) -> bool:
    """Returns true for a line with an everyday word, and for a command in capitals in code: "EXPOSE 9000"."""
    return _has_plain_word(line) or (line.isupper() and row_of(text).is_code)


def _cued(text: str) -> Iterator[Range]:
    """Yields a number with capitalised words that are no street alone, after words that announce an address."""
    for match in _CUED.finditer(text):
        if not (match[1] or match[3]) or _has_plain_word(match[2]):
            continue
        if _CUE.search(text, max(0, match.start() - 80), match.start()):
            yield match.start(), match.start() + len(match[0].rstrip())


def _first_of_name(words: str, at: int) -> int | None:
    """Returns the start of a street's name, after the last plain word before the number. None if there is no name."""
    parts = list(re.finditer(r"\S+", words))
    first = len(parts)
    while first > 0 and not _has_plain_word(parts[first - 1][0]):
        first -= 1
    return at + parts[first].start() if first < len(parts) else None


def _lower_words(words: str) -> list[str]:
    return [word.strip(".,>?|*'’-").lower() for word in words.split()]


def _could_name_a_street(words: str, *, strong: bool) -> bool:
    """Returns true if words between a house number and a street's type can name it. Not "2 hours on the road"."""
    lower = [word for word in _lower_words(words) if word]
    if any(word in _NOT_STREETS or word in FUNCTION_WORDS for word in lower):
        return False
    if strong:
        return True
    return words[:1].isupper() or not all(word in COMMON_WORDS or word in NUMBER_WORDS for word in lower)


def _is_name(words: str) -> bool:
    """Returns true if words between two numbers can name a street: no units, dates or function words, and no prose."""
    lower = [word for word in _lower_words(words) if word]
    if not lower or any(word in _NOT_STREETS or word in FUNCTION_WORDS for word in lower):
        return False
    return any(word not in COMMON_WORDS and word not in NUMBER_WORDS and len(word) > 1 for word in lower)


def _has_plain_word(words: str) -> bool:
    """Returns true if any of the words is never part of a street's name, or is an everyday word in lower case."""
    for word in words.split():
        lower = word.strip(".,>?|*'’-()").lower()
        if lower in _NOT_STREETS or lower in _DAYS or (lower in FUNCTION_WORDS and lower not in _PARTICLES):
            return True
        if word.islower() and lower in COMMON_WORDS and lower not in _PARTICLES:
            return True
    return False


def _after_place(text: str, at: int) -> int:
    """Returns the end of a town in lower case: up to four unusual words. Returns ``at`` without such words."""
    for _ in range(4):
        word = _TAIL_WORD.match(text, at)
        if word is None or _lower_words(word[0])[0] in _PLAIN_WORDS:
            break
        at = word.end()
    return at


def _start_with_number(text: str, start: int) -> int:
    """Returns the start of an address, including a number directly before its core."""
    before = _NUMBER_BEFORE.search(text, max(0, start - 12), start)
    return before.start() if before is not None else start


def _end_of_tail(text: str, end: int) -> int:
    """Returns the end of an address that continues after its core."""
    for _ in range(_MAX_TAIL_PARTS):
        gap = _TAIL_GAP.match(text, end)
        at = gap.end() if gap is not None else end
        if at == end and end < len(text) and text[end : end + 1].isalnum():
            return end
        has_break = any(c in ",\n" for c in text[end:at])
        part = _UNIT.match(text, at) or _DANGLING.match(text, at) or _TAIL_POSTCODE.match(text, at)
        if part is None:
            part = _TAIL_PLACE.match(text, at)
            first = part[0].strip("() ").split()[0].lower() if part is not None and part[0].strip("() ") else ""
            if part is not None and (first in _STOP_TAIL or text[part.end() : part.end() + 1] == ":"):
                part = None
        after = at + len(part[0].rstrip()) if part is not None else _after_place(text, at) if has_break else at
        if after == at:
            return end
        end = after
    return end
