"""A policy for customer-service secrets by regular expression: name, address, phone, order and tracking number.

These are the five secrets of CustomerSim (Selective Differential Privacy for Language Modeling, section 4; used again
by Confidentially Redacted Training, section 4). The formats are those of US addresses and telephone numbers. They fit
general text and not only the templates of one simulator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.addresses import CAPITALISED, MILITARY, find_addresses
from pipelines.policies.detectors.finds import Find, find_all
from pipelines.policies.english.common_words import (
    AMBIGUOUS_WORDS,
    COMMON_WORDS,
    COURTESY_WORDS,
    FUNCTION_WORDS,
    NUMBER_WORDS,
)
from pipelines.policies.english.name_lists import personal_names
from pipelines.policies.english.spoken_numbers import find_spoken_numbers
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

# --- order, tracking, phone -------------------------------------------------------------------------------------

_ORDER: Final = re.compile(r"(?<![\d-])(?:\d{3}[- ]?\d{5}[- ]?\d{4}|\d{3}-\d{7}-\d{7})(?![\d-])")
_PHONE: Final = re.compile(
    r"(?<![\w+])(?:\+?\d{1,3}[-. ]?|00\d{1,2}[-. ]?)?(?:\(\d{3}\) ?|\d{3}[-. ]?)\d{3}[-. ]?\d{4}"
    r"(?:,? ?(?:x|ext\.?|extension) ?\d{1,6})?(?!\w)"
    r"|(?<!\w)\+\d[\d ().-]{6,18}\d(?!\w)",
    re.I,
)
_TOKEN_10: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{10}(?![A-Za-z0-9])")
_PIECE: Final = r"(?:[A-Za-z]{0,10}\d[A-Za-z0-9]*)"
_CODE_GAP: Final = r"[-–./_#():]{0,2} ?[-–./_#()]{0,2}"
_CODE: Final = re.compile(
    rf"(?<!\w)[#+(]{{0,2}}(?:[A-Za-z]{{2,5}}[-_/#])?{_PIECE}(?:{_CODE_GAP}(?:{_PIECE}|(?-i:[A-Z0-9]{{2,}}(?![a-z]))))*(?!\w)"
)
_JOINED: Final = re.compile(r"(?<![\w.@-])[A-Za-z0-9]{2,}(?:[-_/#][A-Za-z0-9]{2,})+(?![\w@])")
_MEASURE: Final = re.compile(
    r"\d{1,4}(?:st|nd|rd|th|am|pm|gb|mb|tb|kg|mg|ml|cm|mm|km|hrs?|mins?|days?|weeks?|years?)", re.I
)
_TRACKING_NAMED: Final = re.compile(
    r"\btracking\s+(?:number|no\.?|code|id|#)?\s*(?:is|:|,|which\s+is)*\s*#?((?=[A-Z0-9-]*\d)[A-Z0-9][A-Z0-9-]{4,34})",
    re.I,
)
_CODE_NAMED: Final = re.compile(
    r"\b(?i:order|booking|reservation|ref(?:erence)?|conf(?:irmation)?|code|case|ticket|serial|id|account|acct|mrn|number"
    r"|no)\b[\s.:#]*(?i:(?:number|no|code|id|is|was|says)[\s.:#]+){0,3}(\d{4,}|[A-Z]{5,12})(?!\w)"
)
_HASH: Final = re.compile(r"(?<!\w)#\d{4,}(?!\w)")

# --- address ----------------------------------------------------------------------------------------------------

_SUFFIX: Final = "(?:" + "|".join(sorted(word_lists("street_words")["us_suffixes"], key=len, reverse=True)) + r")\b\.?"
_PART: Final = r"[^\W_][\w.'’-]*"
_UNIT: Final = r"(?:,?\s*(?:(?:apartment|apt|suite|ste|unit|room|rm|floor|fl)\b|#)\.?\s*#?\s*\d+\w?\b)"
_DANGLING: Final = r"(?:,?\s*\b(?:apartment|apt|suite|ste|unit)\b\.?\s*$)"  # the sentence was cut before the number
_ZIP: Final = r"\d{5}(?:-\d{4})?\b"
_STATE_ZIP: Final = rf"\b[A-Z]{{2}}\.?,?\s+{_ZIP}"

# All words from a house number to a state and ZIP code belong to the address.
_FULL: Final = re.compile(rf"(?<![\w.-])\d{{1,6}}[A-Za-z]?,?\s+[^?!;:\n]{{2,110}}?{_STATE_ZIP}")
_STREET: Final = re.compile(
    rf"(?<![\w.-])\d{{1,6}}[A-Za-z]?,?\s+((?:{_PART}\s+){{1,4}}?){_SUFFIX}(?:{_UNIT}|{_DANGLING})?(?:,?\s*\(?(?:{_PART},?\s+){{1,4}}?{_STATE_ZIP})?",
    re.I,
)
_CITY: Final = re.compile(rf"(?:\b\d{{1,5}}\s+)?(?:\b[A-Z][\w.'’-]*,?\s+){{1,4}}{_STATE_ZIP}")
_SMALL: Final = re.compile(r"(?<!\w)(?:P\.?\s?O\.?\s?Box\s+#?\d+|(?:apartment|apt|suite|ste)\.?\s+#?\d+\w?)\b", re.I)
_ZIP_ALONE: Final = re.compile(rf"{_STATE_ZIP}|\b[Zz]ip(?:\s*code)?(?:\s+is|:)?\s+{_ZIP}|^\W*{_ZIP}\W*$")

# --- name -------------------------------------------------------------------------------------------------------

_INITIAL: Final = r"(?:[A-Z]\.)"
_GIVEN: Final = rf"(?:{CAPITALISED}|{_INITIAL})"
_TITLE: Final = r"(?:(?:Mr|Mrs|Ms|Miss|Mx|Dr|Prof)\b\.?\s+)"
_NEXT: Final = rf"(?:\s+(?:(?:de|van|von|der|den|da|del|la|bin)\s+)*{_GIVEN})"
_NAME_1: Final = rf"{_TITLE}?{_GIVEN}{_NEXT}{{0,3}}"
_NAME_2: Final = rf"{_TITLE}?{_GIVEN}{_NEXT}{{1,3}}"
_SPEAKER: Final = r"(?:[A-Z]{2,8}:\s*)?"

_NAMED: Final = re.compile(
    rf"\b(?i:(?:name['’]?s|names?\s+(?:is|are|was|on\s+it\s+is)|name\s*:|named|called|call\s+me|goes?\s+by|i\s+am"
    rf"|i['’]?m|this\s+is|it['’]?s|it\s+is|that['’]?s|that\s+is|that\s+would\s+be|under|for|by|from|with|here\s+is"
    rf"|speaking\s+(?:to|with)|dear|hi|hello|hey|thanks|thank\s+you|regards|sincerely|goodbye|bye|welcome)\b,?:?)\s+({_NAME_1})"
)
_TITLED: Final = re.compile(rf"\b{_TITLE}({_GIVEN}{_NEXT}{{0,3}})")
_AFTER_COMMA: Final = re.compile(rf"[,:-]\s*({_NAME_2})\s*(?=[.!?,]|$)")
_BARE: Final = re.compile(rf"(?:^\s*|[.!?]\s+){_SPEAKER}({_NAME_2})\s*(?=[.!?]|$)")
_LEADING: Final = re.compile(rf"^\s*{_SPEAKER}({_NAME_2})(?:\s*,|\s+(?:here|speaking|is\s+my|is\s+the)\b)")
_BARE_LOWER: Final = re.compile(
    rf"^\s*{_SPEAKER}([^\W\d_]+(?:['’-][^\W\d_]+)*(?:\s+[^\W\d_]+(?:['’-][^\W\d_]+)*){{1,2}})\s*[.!?]*\s*$"
)
_NAMED_LOWER: Final = re.compile(
    r"\b(?i:name['’]?s|name\s+is|name\s*:|named|call\s+me)\s+([^\W\d_]+(?:['’-][^\W\d_]+)*(?:\s+[^\W\d_]+){0,2})"
)
_PLAIN_WORD: Final = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"
_CUED: Final = re.compile(
    rf"\b(?i:(?:dr|mr|mrs|ms|miss|prof|attn|regards|sincerely|truly|faithfully|best|cheers)\b[.,:]*|(?:called|ask(?:ed)?"
    rf"(?:\s+for)?|tell|told|hi|hey|hello|dear|thanks|thank\s+you|speaking\s+(?:to|with)|customer\s+is|i['’]?m|i\s+am"
    rf"|this\s+is|card)\b[,:]?)\s+((?:{_PLAIN_WORD}\.?\s+){{0,2}}{_PLAIN_WORD})"
)
"""Cues of names in lower case: "dr kowalczyk", "tell thuy"."""

_INITIAL_NAME: Final = re.compile(rf"(?<![\w.])[^\W\d_]\.\s?({_PLAIN_WORD})")
_NO_NAME_PART: Final = (FUNCTION_WORDS | COURTESY_WORDS) - AMBIGUOUS_WORDS
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_POSSESSIVE: Final = re.compile(r"['’]s$")
_TITLES: Final = frozenset({"mr", "mrs", "ms", "mx", "dr", "prof", "sir", "madam"})
_BETWEEN_NAMES: Final = re.compile(r"\.?,?\s{1,2}|-")


class CustomerSimPolicy(NamedPolicy):
    """Masks NAME, ADDRESS, PHONE, ORDER and TRACKING. All finds are by pattern, so every score is 1."""

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns all finds. Finds of one kind do not overlap, and finds of two kinds may."""
        text = sentence.text
        exact = [*_numbers(text), *_addresses(text), *_names(text)]
        # A find of these general rules counts only outside the finds of an exact pattern.
        rough = [
            *_codes(text),
            *((a, b, "ADDRESS") for a, b in find_addresses(text)),
            *_cued_names(text),
            *_listed_names(text),
        ]
        finds = exact + [r for r in rough if not any(e[0] <= r[0] and r[1] <= e[1] for e in exact)]
        return sentence.spans(_merged(finds), self._name)


def _merged(finds: list[Find]) -> list[Find]:
    """Merges overlapping finds of one kind, because several patterns match parts of one address."""
    merged: list[Find] = []
    for start, end, label in sorted(finds, key=lambda find: (find[2], find[0], find[1])):
        if merged and merged[-1][2] == label and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]), label)
        else:
            merged.append((start, end, label))
    return merged


def _numbers(text: str) -> Iterator[Find]:
    yield from find_all(text, "ORDER", _ORDER, _HASH)
    yield from find_all(text, "PHONE", _PHONE)
    for match in _TOKEN_10.finditer(text):
        # Some tracking numbers are letters only, but an everyday word in capitals is no tracking number.
        token = match[0]
        if token.isupper() and token.isalpha() and token.lower() not in COMMON_WORDS:
            yield *match.span(), "TRACKING"
    yield from find_all(text, "TRACKING", _TRACKING_NAMED, group=1)
    for match in _CODE_NAMED.finditer(text):
        if match[1].lower() not in COMMON_WORDS:
            yield *match.span(1), "ORDER" if match[1].isdigit() else "TRACKING"
    yield from find_spoken_numbers(text)


def _codes(text: str) -> Iterator[Find]:
    """Yields runs of pieces with digits, in any grouping."""
    for match in _JOINED.finditer(text):
        pieces = re.split(r"[-_/#.]", match[0])
        if any(c.isdigit() for c in match[0]) and not any(piece.lower() in COMMON_WORDS for piece in pieces):
            yield match.start(), match.end(), "TRACKING"
    for match in _CODE.finditer(text):
        code = match[0]
        num_digits = sum(c.isdigit() for c in code)
        num_letters = sum(c.isalpha() for c in code)
        is_number = num_digits >= 6
        is_mixed = num_digits > 0 and num_letters > 0 and num_digits + num_letters >= 6
        if is_number or (is_mixed and not _MEASURE.fullmatch(code)):
            is_phone = num_letters == 0 and 10 <= num_digits <= 13 and not code.startswith("#")
            label = "PHONE" if is_phone else "TRACKING" if num_letters > num_digits / 4 else "ORDER"
            yield match.start(), match.end(), label


def _addresses(text: str) -> Iterator[Find]:
    yield from find_all(text, "ADDRESS", _FULL, _CITY, MILITARY, _SMALL, _ZIP_ALONE)
    for match in _STREET.finditer(text):
        # Not "2 hours on the road": the name of a street has no function word and no everyday word in lower case.
        words = match[1].split()
        if not any(word in COMMON_WORDS or word.lower() in FUNCTION_WORDS for word in words):
            yield match.start(), match.end(), "ADDRESS"


def _names(text: str) -> Iterator[Find]:
    for pattern in (_NAMED, _TITLED, _AFTER_COMMA, _BARE, _LEADING):
        for match in pattern.finditer(text):
            name = _capitalised_name(match[1], match.start(1), opens_sentence=pattern in (_BARE, _LEADING))
            if name is not None:
                yield (*name, "NAME")
    bare = _BARE_LOWER.match(text)
    if bare is not None and not any(_is_everyday(word) for word in bare[1].split()):
        yield bare.start(1), bare.end(1), "NAME"
    for match in _NAMED_LOWER.finditer(text):
        start = end = match.start(1)
        for word in _WORD.finditer(text, match.start(1), match.end(1)):
            if word[0].lower() in FUNCTION_WORDS:
                break
            end = word.end()
        if end > start:
            yield start, end, "NAME"


def _cued_names(text: str) -> Iterator[Find]:
    """Yields unknown words after a cue of a name, in any case, with everyday words among them that are also names."""
    for match in _CUED.finditer(text):
        end = match.start(1)
        is_known = True
        for word in _WORD.finditer(text, match.start(1), match.end(1)):
            plain = word[0].lower()
            if (_is_everyday(plain) and plain not in AMBIGUOUS_WORDS) or (not is_known and plain in FUNCTION_WORDS):
                break
            is_known = is_known and _is_everyday(plain)
            end = word.end()
        if not is_known:
            yield match.start(1), end, "NAME"
    for match in _INITIAL_NAME.finditer(text):
        if not _is_everyday(match[1]) or match[1].lower() in AMBIGUOUS_WORDS:
            yield match.start(), match.end(), "NAME"


def _listed_names(text: str) -> Iterator[Find]:
    """Yields runs of words with a known name that is no everyday word: "smith, john", "J. SMITH", "john quaxley"."""
    names = personal_names()
    words = list(_WORD.finditer(text))
    at = 0
    while at < len(words):
        if not _is_part(text, words[at], names):
            at += 1
            continue
        last = at
        while (
            last + 1 < len(words)
            and _BETWEEN_NAMES.fullmatch(text, words[last].end(), words[last + 1].start())
            and _is_part(text, words[last + 1], names)
        ):
            last += 1
        run = [word[0] for word in words[at : last + 1]]
        has_initial = len(run) > 1 and any(len(word) == 1 for word in run) and any(word[1:].islower() for word in run)
        if has_initial or any(word.lower() in names and not _is_everyday(word) for word in run):
            yield words[at].start(), words[last].end(), "NAME"
        at = last + 1


def _is_part(text: str, word: re.Match[str], names: frozenset[str]) -> bool:
    """Returns true if a word can be part of a name: an unknown word, an initial, or a capitalised name."""
    written = word[0]
    if len(written) == 1:
        return written.isupper() and text[word.end() : word.end() + 1] == "."
    if _POSSESSIVE.sub("", written).lower() in _TITLES:
        return False
    return not _is_everyday(written) or (written[0].isupper() and written.lower() in names)


def _is_everyday(word: str) -> bool:
    plain = _POSSESSIVE.sub("", word).lower()
    return plain in COMMON_WORDS or plain in NUMBER_WORDS or word.lower() in FUNCTION_WORDS


def _capitalised_name(words: str, at: int, *, opens_sentence: bool) -> tuple[int, int] | None:
    """Returns the characters of the name among some capitalised words. None if they are no name.

    Words with an unusual word are a name. Several everyday words in title case (Major Wood, Customer Support) are a
    name inside a sentence. At its start, they are one only if one of the words is also a known name.
    """
    parts = list(_WORD.finditer(words))
    while parts and parts[0][0].lower() in _NO_NAME_PART:
        parts.pop(0)
    while parts and parts[-1][0] == "I":
        parts.pop()
    lower = [part[0].lower() for part in parts]
    if all(_is_everyday(word) for word in lower):
        titled = len(parts) > 1 and all(part[0].istitle() for part in parts) and _NO_NAME_PART.isdisjoint(lower)
        if not titled or (opens_sentence and AMBIGUOUS_WORDS.isdisjoint(lower)):
            return None
    return at + parts[0].start(), at + parts[-1].end()
