"""Finds codes and long numbers by their form: mixed letters and digits, phone and card numbers, plates.

Every pattern reads a text from left to right without backtracking, because the characters that it repeats and those
that may follow are disjoint. The checks of a match are bounded. So the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.first_pass import NUMERIC, count, holds, kind, may_hold_capital
from pipelines.policies.english.common_words import COMMON_WORDS, UNITS
from pipelines.policies.english.known_words import is_word
from pipelines.policies.english.name_lists import PROGRAMS, names_somebody
from pipelines.policies.english.spoken_numbers import MIN_ITEMS, find_spoken_numbers, is_item
from pipelines.policies.english.technical import FIELDS
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("identifiers")
_MEASURES: Final = _LISTS["measures"] | UNITS
_COUNTED: Final = _LISTS["counted"] | UNITS
_NO_PREFIX: Final = _LISTS["no_prefix"] | COMMON_WORDS | _LISTS["measures"]

# --- letters with digits ------------------------------------------------------------------------------------------

_CHUNK: Final = re.compile(r"(?<![^\W_])[^\W_]+(?:[-–_/#][^\W_]+)*")
_PART: Final = re.compile(r"\d+|[^\W\d_]+")
_LETTERS: Final = re.compile("[A-Z]{6,12}")
_HARD: Final = re.compile("[^AEIOUY]{5}|[^AEIOUY]{4}.?[^AEIOUY]")
"""Groups of consonants that words do not have, and booking codes of airlines do."""

_SPACED: Final = re.compile(r"(?<![^\W_])(?:[A-Za-z0-9][ -]){3,}[A-Za-z0-9](?![^\W_])")
_SEED: Final = re.compile(
    r"(?<![^\W_])(?:[A-Z2-7]{4}[ -]){3,15}[A-Z2-7]{4}(?![^\W_])"
    r"|(?<![^\W_])(?:[a-z2-7]{4}[ -]){3,15}[a-z2-7]{4}(?![^\W_])"
)
"""A key of one-time codes in groups, in base32."""

_GROUPED: Final = re.compile(
    r"(?<![\w'’.])(?:[A-Za-z]{1,4}[ ]\d{1,15}|\d{1,15}[ ][A-Za-z]{1,4})"
    r"(?:[ ](?:[A-Za-z]{1,4}|\d{1,15})(?![\w'’]))*(?![\w'’]|[.,:/-]\d)"
)
_BARE: Final = re.compile(r"\s*[#(]?([^\W_]+(?:[ -][^\W_]+)*)[).!?]?\s*")
_YEAR: Final = re.compile(r"1[5-9]\d\d|20\d\d")
_SPAN_OF_TIME: Final = re.compile(r"\d{1,4}(?:s|st|nd|rd|th|am|pm|bc|ad)", re.I)
_ENOUGH_LETTERS: Final = 4
_ENOUGH: Final = 6
"""Minimum number of letters and digits of a code without a cue."""

_PIECE: Final = re.compile(r"\S+")
_CONSONANTS: Final = re.compile("[b-df-hj-np-tv-z]+", re.I)
_LONG_PART: Final = 3
_MAX_BARE: Final = 40
_MAX_PIECES: Final = 5


_SINGLE: Final = kind(lambda word: len(word) == 1)
_MIN_SPACED: Final = 4
_ITEM: Final = kind(is_item)
_SEED_PART: Final = kind(lambda word: len(word) == 4)


def find_codes(text: str) -> Iterator[Find]:
    """Yields codes with a digit, and codes that are spelled in single letters."""
    has_digit = holds(text, NUMERIC)
    for match in _CHUNK.finditer(text) if has_digit or "_" in text else ():
        chunk = match[0]
        if ("_" in chunk or any(map(str.isdigit, chunk))) and (label := _kind_of_chunk(chunk)):
            yield match.start(), match.end(), label
    for match in _SPACED.finditer(text) if count(text, _SINGLE) >= _MIN_SPACED else ():
        pieces = re.split("[ -]", match[0])
        num_digits = sum(map(str.isdigit, pieces))
        if num_digits == len(pieces):
            is_even = len(set(match[0][1::2])) == 1
            if num_digits >= _ENOUGH and is_even and not _counts_up(pieces):
                yield match.start(), match.end(), "CODE"
        elif len({piece.lower() for piece in pieces} - {"a", "i", "x"}) >= _ENOUGH_LETTERS - bool(num_digits):
            yield match.start(), match.end(), "CODE"
    for match in _SEED.finditer(text) if has_digit and count(text, _SEED_PART) >= _MIN_SPACED else ():
        if sum(not part.isalpha() and not part.isdigit() for part in re.split("[ -]", match[0])) > 1:
            yield match.start(), match.end(), "CODE"
    for match in _GROUPED.finditer(text) if has_digit else ():
        yield from _grouped(match)
    bare = _BARE.fullmatch(text) if len(text) <= _MAX_BARE else None
    if bare is not None and _is_bare_code(re.split("[ -]", bare[1])):
        yield bare.start(1), bare.end(1), "CODE"
    for start, end, _ in find_spoken_numbers(text) if count(text, _ITEM) >= MIN_ITEMS else ():
        pieces = _PART.findall(text[start:end])
        if "." not in text[start:end] or any(len(piece) > 1 or piece.isdigit() for piece in pieces):  # but "D.I.C.E."
            yield start, end, "CODE"


def find_letter_codes(text: str, words: Sequence[re.Match[str]]) -> Iterator[Find]:
    """Yields unpronounceable words in capitals, in a text that is not all in capitals."""
    for word in words:
        written = word[0]
        if written.isupper() and _LETTERS.fullmatch(written) and _HARD.search(written) and not text.isupper():
            yield word.start(), word.end(), "CODE"


def _is_bare_code(pieces: list[str]) -> bool:
    """Returns true if the pieces of a whole line are a code: groups with digits, and groups of a few letters."""
    if len(pieces) > _MAX_PIECES or (len(pieces) == 1 and _YEAR.fullmatch(pieces[0])):
        return False
    numbers = [piece for piece in pieces if any(map(str.isdigit, piece)) and not _is_measure(piece)]
    others = [piece for piece in pieces if piece not in numbers]
    return any(len(piece) >= 3 for piece in numbers) and all(
        piece.isdigit() or (len(piece) <= 3 and piece.lower() not in _NO_PREFIX) for piece in others
    )


def _counts_up(pieces: list[str]) -> bool:
    """Returns true if each digit is one more than the digit before it: 1 2 3 4 5."""
    return all(int(b) - int(a) == 1 for a, b in pairwise(pieces))


def _is_measure(run: str) -> bool:
    """Returns true for digits and units in turn: 10km, 5ft11in, 1h30m, 4x100m, 1990s, 21st."""
    parts = _PART.findall(run)
    if not parts[0].isdigit() or len(parts) == 1:
        return False
    return _SPAN_OF_TIME.fullmatch(run) is not None or all(
        part.isdigit() or part.lower() in _MEASURES or part.lower() == "x" for part in parts
    )


def _kind_of_chunk(chunk: str) -> str | None:
    """Returns the label of a run with letters and digits. None for designations, measures and years."""
    num_digits = sum(map(str.isdigit, chunk))
    num_letters = sum(map(str.isalpha, chunk))
    if not num_letters:
        return None  # numbers
    pieces = re.split(r"[-–_/#]", chunk)
    if "_" in chunk:
        words = [piece.lower() for piece in pieces if piece]
        is_prose = all(word in COMMON_WORDS for word in words) or "".join(words) in FIELDS
        is_of_program = not PROGRAMS.isdisjoint(words) and all(word in PROGRAMS or is_word(word) for word in words)
        is_constant = num_digits < _LONG_PART and chunk.isupper() and not names_somebody(chunk)
        return None if is_prose or is_of_program or is_constant else "USERNAME"
    if len(pieces) == 1:
        return _kind_of_run(chunk, num_digits, num_letters)
    words = [piece for piece in pieces if piece.isalpha()]
    if any(len(word) > 2 and word.lower() in COMMON_WORDS for word in words):
        return None
    mixed = [piece for piece in pieces if not piece.isdigit() and not piece.isalpha() and not _is_measure(piece)]
    is_mixed = any(len(piece) >= _ENOUGH_LETTERS and _kind_of_run_loosely(piece) for piece in mixed)
    numbers = [piece for piece in pieces if piece.isdigit() and not _YEAR.fullmatch(piece)]
    enough = num_digits + num_letters >= _ENOUGH
    if enough and (is_mixed or sum(map(len, numbers)) >= _ENOUGH_LETTERS):
        return "CODE"
    is_named = any(len(word) > 3 or word.lower() in _LISTS["months"] for word in words)  # 15-May-2003
    return "CODE" if len(pieces) > 2 and enough and num_digits >= 3 and not is_named else None


def _kind_of_run_loosely(run: str) -> bool:
    return sum(map(str.isdigit, run)) >= 2 and not _is_measure(run)


def _kind_of_run(run: str, num_digits: int, num_letters: int) -> str | None:
    parts = _PART.findall(run)
    if _is_measure(run) or run.lower() in _LISTS["designations"]:
        return None
    if len(parts) == 2 and parts[1].isdigit():  # letters, then digits
        word = parts[0].lower()
        if word in _LISTS["designated"] or num_digits == 1:
            return None
        if len(word) >= _ENOUGH_LETTERS and not (parts[0].isupper() and num_digits > 2):
            return "USERNAME"  # skater99, JSmith84
        return "CODE" if num_digits + num_letters >= _ENOUGH else None
    if len(parts) == 2:  # digits, then letters
        word = parts[1].lower()
        is_glued = num_digits >= _PHONE  # a number and the word after it
        is_code = num_digits + num_letters >= _ENOUGH and word not in COMMON_WORDS and num_digits > 2
        return "CODE" if is_code or is_glued else None
    if len(parts) == 3 and num_digits == 1:  # letters around one digit: words with a digit for a letter, mp3player
        if num_letters < _ENOUGH:
            return None
        return "CODE" if run.isupper() else "USERNAME"
    return "CODE" if num_digits + num_letters >= _ENOUGH - 1 else None


def _grouped(match: re.Match[str]) -> Iterator[Find]:
    """Yields groups of letters and digits in turn: "fab 276586786", "u 67 h 68". Plain words separate them."""
    run: list[re.Match[str]] = []
    for piece in [*_PIECE.finditer(match[0]), None]:
        if piece is not None and (piece[0].isdigit() or len(piece[0]) == 1 or piece[0].lower() not in COMMON_WORDS):
            run.append(piece)
            continue
        if _is_grouped_code([part[0] for part in run]):
            yield match.start() + run[0].start(), match.start() + run[-1].end(), "CODE"
        run = []


def _is_grouped_code(pieces: list[str]) -> bool:
    numbers = [piece for piece in pieces if piece.isdigit()]
    words = [piece for piece in pieces if not piece.isdigit()]
    if not numbers or not words:
        return False
    is_long = len(numbers) == len(pieces) - 1 and all(len(number) > _LONG_PART for number in numbers[:-1])
    if not (len(numbers) > 2 and is_long and pieces[0].isupper() and pieces[0].isalpha()) and any(
        len(word) > 1 and word.lower() in _NO_PREFIX for word in words
    ):
        return False
    if len(pieces) > 2 and pieces[0].isupper() and pieces[0].isalpha() and len(numbers) == len(pieces) - 1:
        return len("".join(numbers)) >= _PHONE  # "VN 90 3318 2275"
    if len(pieces) > 2 and not any(_YEAR.fullmatch(number) for number in numbers):
        is_mixed = all(a.isdigit() != b.isdigit() for a, b in pairwise(pieces))
        is_counted = pieces[0].lower() in ("a", "i") and len(pieces) < _MAX_PIECES  # "a 1 star"
        return is_mixed and not is_counted and (len(pieces) > 3 or max(map(len, words)) > 1)
    letters, number = pieces[0], pieces[-1]
    if letters.isdigit() or letters.lower() in _NO_PREFIX or len(number) < 3 or _YEAR.fullmatch(number):
        return False  # "000 men", "page 131"
    return len(letters) <= 3 or _CONSONANTS.fullmatch(letters) is not None  # but "Hill 971"


# --- numbers --------------------------------------------------------------------------------------------------------

_NUMBER: Final = re.compile(
    r"[+(]{0,2}\d+(?:[ .()/–-]{1,3}\d+)*(?:[ ,]{0,2}(?:x|ext\.?|extension)[ .]{0,2}\d{1,6}(?!\w))?", re.I
)
_DATE: Final = re.compile(r"\d{1,2}[-./]\d{1,2}[-./](?:\d{4}|\d{2})|\d{4}[-./]\d{1,2}[-./]\d{1,2}")
_THOUSANDS: Final = re.compile(r"[1-9]\d{0,2}(?:[ .]\d{3})+")
_DECIMAL: Final = re.compile(r"\d{1,4}\.\d+")
_YEARS: Final = re.compile(r"(?:1\d|20)\d\d(?:[ /–-]{1,3}(?:(?:1\d|20)\d\d|\d\d))+")
_YEAR_IN_BRACKETS: Final = re.compile(r"\( ?(?:1\d|20)\d\d(?!\d)")
_NEXT_WORD: Final = re.compile(r"[ -]?([^\W\d_]+|%)")
_MONEY: Final = frozenset("$€£¥₹")
_LONG: Final = 5
_PHONE: Final = 7
_LAST_YEAR: Final = 2100


def find_numbers(text: str) -> Iterator[Find]:
    """Yields long numbers in any grouping: cards, telephones, accounts. Skips amounts, years, dates and scores."""
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        before = text[start - 1 : start]
        if before and (before in _MONEY or before.isalnum() or (before in ".,_" and match[0][0] != "+")):
            continue
        if end < len(text) and (text[end].isalpha() or text[end] == "_"):  # the last group belongs to a word
            end = start + len(match[0].rstrip("0123456789").rstrip(" .()/–-"))
        after = text[end : end + 2]
        if len(after) == 2 and after[0] == "," and after[1].isdigit():
            continue
        if end > start and (label := _kind_of_number(text, start, end)):
            yield start, end, label


def _kind_of_number(text: str, start: int, end: int) -> str | None:
    written = text[start:end]
    groups = re.findall(r"\d+", written)
    digits = "".join(groups)
    num_digits = len(digits)
    if num_digits < _LONG or _DATE.fullmatch(written):
        return "ID_NUMBER" if _is_short_number(text, end, written) else None
    if 13 <= num_digits <= 19 and passes_luhn(digits):
        return "CREDIT_CARD"
    if written[0] == "+":
        return "PHONE_NUMBER" if num_digits >= _PHONE else None
    if len(groups) == 1:
        following = _NEXT_WORD.match(text, end)
        if num_digits <= 6 and following is not None and following[1].lower() in _COUNTED:
            return None
        if set(digits[1:]) == {"0"} or (digits.endswith("000") and num_digits <= 6):
            return None
        return "ID_NUMBER" if num_digits not in (10, 11) else "PHONE_NUMBER"
    if num_digits < _PHONE or _YEARS.fullmatch(written) or _DECIMAL.fullmatch(written):
        return None
    if _THOUSANDS.fullmatch(written) or _YEAR_IN_BRACKETS.search(written):
        return None
    longest = max(map(len, groups))
    if longest < 3:
        is_telephone = (digits[0] == "0" or " " not in written) and num_digits >= 8 and min(map(len, groups)) == 2
        return "PHONE_NUMBER" if is_telephone else None
    if " " in written and _YEAR.fullmatch(groups[0]) and len(groups) == 2:
        return None
    if any(len(group) == 1 for group in groups) and longest < _ENOUGH_LETTERS and " " in written:
        return None
    return "PHONE_NUMBER" if num_digits <= 15 else "ID_NUMBER"


def _is_short_number(text: str, end: int, written: str) -> bool:
    """Returns true if four digits are neither a year, nor round, nor a count of something."""
    if len(written) != _LONG - 1 or not written.isdigit() or (written[0] != "0" and int(written) <= _LAST_YEAR):
        return False
    following = _NEXT_WORD.match(text, end)
    counts = following is not None and (following[1].lower() in _COUNTED or following[1].lower() in _MEASURES)
    return not written.endswith("00") and not counts and text[end : end + 1] not in (".", "/", "-", "–", ":")


def passes_luhn(digits: str) -> bool:
    """Computes the check of card numbers (ISO/IEC 7812-1, annex B)."""
    values = [int(digit) for digit in reversed(digits)]
    doubled = (value * 2 - 9 * (value > 4) for value in values[1::2])
    return (sum(values[::2]) + sum(doubled)) % 10 == 0 and any(values)


# --- plates ---------------------------------------------------------------------------------------------------------

_PLATE: Final = re.compile(
    r"(?<![\w-])(?:[A-Z]{2}\d{2} ?[A-Z]{3}|[A-ZÄÖÜ]{1,3}-[A-ZÄÖÜ]{1,2} ?\d{2,4}|[A-Z]{2}-\d{3}-[A-Z]{2}"
    r"|[A-Z]{2} ?\d{3} ?[A-Z]{2}"
    r"|\d{4} ?[B-DF-HJ-NP-TV-Z]{3}|[A-Z]{2} \d{2} [A-Z]{1,2} \d{4}|[A-Z]{3}-\d{3,4}|\d[A-Z]{3}\d{3}"
    r"|\d{1,3}-[A-Z]{3}-\d{1,3}"
    r"|[A-Z]{3} \d{3}[A-Z])(?![\w-])"
)


def find_plates(text: str) -> Iterator[Find]:
    """Yields licence plates in the forms of several countries. Without a cue, only capitals count."""
    for match in _PLATE.finditer(text) if may_hold_capital(text) else ():
        if not (match[0][:4].isdigit() and _YEAR.fullmatch(match[0][:4])):
            yield match.start(), match.end(), "LICENSE_PLATE"
