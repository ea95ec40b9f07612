"""Finds that no careful reader would mask: code, doses, versions, standards, citations, and words of everyday use.

A find is left out by its own text and the words next to it. The setting ``redact.dates_and_numbers`` decides about
dates and numbers: with ``identifying`` they stay unless they identify somebody by their form or have a cue.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterable
from typing import Final

from pipelines.policies.english.code import (
    ATTRIBUTE,
    has_listed_name,
    is_attribute,
    is_identifier_of_code,
    is_no_site,
)
from pipelines.policies.english.cues import CUE_BEFORE, CUE_NEXT, identifies
from pipelines.policies.english.doses import DOSE, MEASURE, is_number_of_a_thing
from pipelines.policies.english.everyday_numbers import is_everyday, is_size_or_operand
from pipelines.policies.english.known_words import Row as Facts
from pipelines.policies.english.known_words import (
    continues_placeholder,
    facts_of,
    is_alone,
    is_known,
    is_made_of_words,
    is_plain,
    is_title,
)
from pipelines.policies.english.name_lists import names_somebody, personal_names
from pipelines.policies.english.nobody import Row, is_log_time, is_of_nobody, row_of
from pipelines.policies.english.rows_of_code import is_quoted
from pipelines.policies.english.wholes import CERTAIN, is_covered, is_of_wholes, weak_wholes_of
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.protocol import PLACEHOLDER, Sentence, Span

_LISTS: Final = word_lists("ordinary")
_NUMBERS: Final = frozenset({"CARDINAL", "DATE", "DATE_TIME", "MONEY", "ORDINAL", "PERCENT", "QUANTITY", "TIME"})
_MACHINE: Final = frozenset({"ID_NUMBER", "PHONE_NUMBER", "ADDRESS", "URL", "CODE", "US_DRIVER_LICENSE"})
"""Labels of patterns. Only what is certainly a time stamp, a call of code or a score is left out of them."""

_TOLD_APART: Final = _MACHINE | CERTAIN | {"USERNAME", "EVENT"}
_NUMBER: Final = "CARDINAL"
_OTHER: Final = "PERSON"
"""Labels that stand for all labels that are judged as they are."""

_LIKE: Final = {
    **dict.fromkeys(_NUMBERS - {"DATE"}, _NUMBER),
    "DATE_TIME": "DATE",
    **dict.fromkeys(("ORGANIZATION", "GPE", "LOC", "LOCATION", "PRODUCT", "WORK_OF_ART", "FAC", "EVENT", "LAW"), "ORG"),
    "NORP": "NRP",
}
"""Labels of which the rules for words that everybody knows judge alike, so that their answers are remembered once."""

_MAX_KNOWN: Final = 16_384
"""The number of finds whose answers are remembered. Policies find the same again, also in the next reading."""

_WHEN: Final = re.compile(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?<!\w)(?:may|march)|january|february|april|june|july|august"
    r"|october|ember(?!\w)|[0-9]:[0-9]|[0-9] ?[ap]\.?m(?!\w)|noon|midnight"
    r"|o['’]clock|quarter to|half past",
    re.I,
)
"""Days and times that stay masked beside another find: they tell when a person was somewhere."""

_HAS_PLACEHOLDER: Final = re.compile(rf"(?<!\w){PLACEHOLDER}(?!\w)")
_NEAR: Final = 40
"""Characters before and after a find in which its cues stand."""

_LONGEST: Final = 200
"""Characters of a find above which it stays."""

_MIXED: Final = re.compile(r"[^\W\d_]\d|\d[^\W\d_]")
_WORD: Final = re.compile(r"[^\W\d_]+")
_HAS_ID: Final = re.compile(r"\d\.\d{1,3}\.\d|\d{4}|\d[-/]\d|\d[ ]\d|@")
_CODE: Final = re.compile(r"\w[(\[]\S|&&|\w~\d|[=<>{}\\^|;*+]|::|->|\w\(\)")
_NOT_CODE: Final = re.compile(r"[\"'“”‘’`#]|\d\[|[^\W\d_][a-z]\]|=[0-9A-F]{2}|(?<![^\W\d_])[A-Z][a-z]|[A-Z]{2}\^[A-Z]")
_ANNOUNCED: Final = re.compile(
    r"(?:pass\w*|secret|pin|words?|phrase|names?|named|called|answer|user|login)\W{1,3}(?:is )?$", re.I
)
_ANNOUNCING: Final = ("pass", "secret", "pin", "word", "phrase", "name", "called", "answer", "user", "login")
"""A text without such letters has no match of the pattern above."""

_SHORT_NUMBER: Final = 3
_PART_OF_WORD: Final = 2
"""Letters of the end of a word that a model reads as a word."""

_SHORT_CODE: Final = re.compile(r"[-/]?[A-Za-z][0-9]{1,2}|[1-4]D")
_MONTH_OF_YEAR: Final = re.compile(r"[A-Z][a-z]{2,8} (?:19|20)[0-9]{2}")
_AFTER_CODE: Final = re.compile(rf"(?:\d\w*|{PLACEHOLDER})[ -]$")
_BEFORE_CODE: Final = re.compile(rf"\.?[ -](?:\w*\d|{PLACEHOLDER})")
_AMOUNT: Final = re.compile(r"[A-Z]{3} ?[0-9]{1,3}(?:[.,][0-9]{3})*(?:[.,][0-9]{2})?")
_FLAG: Final = re.compile(r"(?:-[A-Za-z]{1,2}|--[a-z][a-z-]{0,20})(?: [0-9]{1,5}(?::[0-9]{1,5})?)?")
_EXCEPTION: Final = re.compile(r"[A-Z]\w{0,60}(?:Error|Exception|Warning|Interrupt)")
_ASSIGNED: Final = re.compile(r" ?=(?!=) ?[\w\"'\[({-]|\(|\[|: ?(?:[0-9.]+|true|false|null|none)(?!\w)", re.I)
_STEM: Final = re.compile(
    r"[a-z]{3,12}(?:mab|tinib|pril|sartan|statin|azole|cillin|cycline|mycin|olol|oxetine|prazole|tidine|gliptin"
    r"|gliflozin"
    r"|parin|xaban|caine|setron|triptan|zepam|zolam|dronate|profen|floxacin)",
    re.I,
)
"""Stems of the names of drugs (WHO, international nonproprietary names)."""

_CALL: Final = re.compile(
    r"(?:[A-Za-z_]\w*(?:\.(?!com|org|net|edu|gov|io)[A-Za-z_]\w*)+|\w+\(\w+\.\w+)\(.*"
    r"|[a-z]\w*\((?!www)[a-z]\w*(?:\.(?!com|org|net|edu|gov|io)[a-z]\w*){2,4}",
    re.S,
)
_NUMBERED: Final = re.compile(
    rf"(?:{'|'.join(sorted(_LISTS['numbered'] | _LISTS['technical']))})[ -]?#?[0-9]{{1,5}}(?:\.[0-9]{{1,4}}){{0,2}}",
    re.I,
)
_STANDARD: Final = re.compile(r"(?<!\w)(?:iso|rfc|pep|ieee|python|http|din|ansi) ?$", re.I)
_PORT: Final = re.compile(r"(?:(?<![^\W_])ports?[ =:]|(?<!\S)-p |EXPOSE )$", re.I)
_PORTS: Final = re.compile(r"[0-9]{2,5}(?::[0-9]{2,5})?")
_LABORATORY: Final = (
    frozenset().union(*(_LISTS[name] for name in ("technical", "numbered", "abbreviations", "scores")))
) | {"index", "scale"}
_DECIMAL: Final = re.compile(r"[0-9]{1,2}\.[0-9]{2}")
_LICENCE: Final = re.compile(r"licen[cs]e|driver|\bDL\b", re.I)
_SHORTEST_LICENCE: Final = 4  # digits of a driver's licence that no word announces
_SPINE: Final = re.compile(r"(?<![\w-])(?:[CTLS][0-9]{1,2}|John)-[CTLS]?[0-9]{1,2}(?![\w-])")
"""Parts of the spine: "L4-L5"."""

_DISC: Final = re.compile(r"[CTLS][0-9]{1,2}/[CTLS]?[0-9]{1,2}")
"""A disc of the spine: "L4/5". Before a street, "L4/5" is a floor and a number."""

_STAMP: Final = re.compile(r"1[0-9]{9}(?:[0-9]{3})?(?:\.[0-9]{1,9})?(?: -?[0-9]{1,4}\.[0-9]{1,6}){0,8}")
_SHORTEST_STAMP: Final = 10
_KEY: Final = re.compile(r"^[A-Za-z_]{1,16}[=:]")
_TIME_CUE: Final = re.compile(r"(?:time|stamp|epoch|unix|ts|[-_]at|expires|exp|iat|nbf)[\"']?\W{0,3}$", re.I)
_VITAL_SIGNS: Final = re.compile(r"(?<!\w)(?:BP|HR|GCS|Apgar|Glasgow [0-9]|SpO2)(?!\w)")
_EPONYM: Final = re.compile(r"['’]s?(?!\w)")
_BEFORE_DIGIT: Final = re.compile(r" \d")
_AT_A_TIME: Final = re.compile(r"(?<!\w)(?:at|by|from|in|until|after|around|per|every) $", re.I)
_SEMANTIC: Final = re.compile(r"v?[0-9]{1,3}\.[0-9]{1,3}\.[0-9]")
"""A version of three numbers. A date would end in two or four digits."""

_NO_ADDRESS: Final = re.compile(r"::[\w-]*[g-z_(>]|[g-z_]\w*::", re.I)
"""A name in code with the mark of a short IPv6 address."""

_SCORE: Final = re.compile(r" (?:score |of )?[0-9]{1,2}(?![0-9])")
_PERCENT: Final = re.compile(r"[0-9]{1,3}(?:[.,][0-9]{1,3})? ?(?:%|percent|per cent)", re.I)


def without_ordinary(
    spans: Iterable[Span], sentence: Sentence, dates_and_numbers: str, *, by_model: bool = False
) -> list[Span]:
    """Returns the finds that a careful reader would mask.

    Args:
        spans: finds of a policy.
        sentence: text that the policy read.
        dates_and_numbers: ``all``, which leaves out none, ``careful`` or ``identifying``.
        by_model: true for finds of a model, which takes words with a capital for names.
    """
    found = list(spans)
    if not found or dates_and_numbers == "all":
        return found
    text = sentence.text
    kept: list[Span] = []
    # Weak finds stay beside another find. So none is looked at more closely if one stays in any case.
    is_kept = PLACEHOLDER in text and _HAS_PLACEHOLDER.search(text) is not None
    for span in found:
        start, end = _without_placeholders(span, sentence)
        if is_of_wholes(text, start, end, span.label):
            continue
        find, before, after = text[start:end], text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
        if (
            by_model
            and find[0].islower()
            and text[start - 1 : start].isalpha()
            and len(find.strip(".")) <= _PART_OF_WORD
        ):
            continue
        if by_model and span.label not in _NUMBERS and continues_placeholder(find, before, after, text):
            continue
        is_number = span.label in _NUMBERS or (by_model and _is_number(find))
        label = span.label if span.label in _TOLD_APART else _NUMBER if is_number else _OTHER
        if is_ordinary(find, label, before, after, dates_and_numbers):
            if dates_and_numbers == "careful" and span.label in _NUMBERS and _WHEN.search(find):
                kept.append(span)
            continue
        if is_identifier_of_code(text, start, end, span.label):
            continue
        kept.append(span)
        judged_as = _NUMBER if is_number and span.label not in _NUMBERS else span.label
        is_kept = is_kept or not _is_weak_in(text, start, end, judged_as, by_model=by_model)
    return kept if is_kept else []


def _is_number(find: str) -> bool:
    """Returns true for a short number, which is no name."""
    return len(find) <= _SHORT_NUMBER and find.lstrip("-").isdecimal()


def _is_weak_in(text: str, start: int, end: int, label: str, *, by_model: bool) -> bool:
    """Returns true for a find in a row that stays only beside another find."""
    if (label not in CERTAIN and is_covered(text, start, end, weak_wholes_of(text))) or is_title(text, start, end):
        return True
    row = row_of(text)
    quoted = row.is_code and is_quoted(text, start, end)
    find = html.unescape(text[start:end]) if "&" in text else text[start:end]
    before, after = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    label = _LIKE.get(label, label)
    return _is_weak(find, label, before, after, facts_of(text), row, by_model=by_model, quoted=quoted)


@functools.lru_cache(maxsize=_MAX_KNOWN)
def _is_weak(
    find: str, label: str, before: str, after: str, facts: Facts, row: Row, *, by_model: bool, quoted: bool
) -> bool:
    """Returns true for a find that stays only beside another find."""
    return (
        is_known(find, label, before, after, facts)
        or (by_model and is_made_of_words(find, label, before, after, facts))
        or is_log_time(find, before, row)
        or (
            is_of_nobody(find, label, before, after, row, quoted=quoted)
            and (
                label not in _NUMBERS
                or _MONTH_OF_YEAR.fullmatch(find) is not None
                or is_ordinary(find, _NUMBER, before, after, "identifying")
            )
        )
    )


def _without_placeholders(span: Span, sentence: Sentence) -> tuple[int, int]:
    """Returns the characters of a find without the placeholders at its ends, or all of them if that is all."""

    def is_placeholder(token: int) -> bool:
        return sentence.text[sentence.starts[token] : sentence.ends[token]] == PLACEHOLDER

    first, last = span.start_token, span.end_token
    while first < last and is_placeholder(first):
        first += 1
    while last > first and is_placeholder(last - 1):
        last -= 1
    if first == last:
        first, last = span.start_token, span.end_token
    return sentence.starts[first], sentence.ends[last - 1]


@functools.lru_cache(maxsize=_MAX_KNOWN)
def is_ordinary(find: str, label: str, before: str, after: str, dates_and_numbers: str = "careful") -> bool:
    """Returns true if no careful reader would mask a find.

    Args:
        find: text of the find.
        label: label of the find.
        before, after: text next to it.
        dates_and_numbers: ``careful`` or ``identifying``.
    """
    if label == "IP_ADDRESS" and (_NO_ADDRESS.search(find.partition("%")[0]) or not any(map(str.isalnum, find))):
        return True
    if label == "EMAIL_ADDRESS" and re.fullmatch(r"[\w/-]{1,60}@[\^~]?\d{1,3}\.\d{1,3}\.\d{1,3}", find):
        return True
    if len(find) > _LONGEST or label in CERTAIN:
        return False
    if find == PLACEHOLDER and label == _OTHER:  # what all rules below say of it
        return False
    has_digit = any(map(str.isdigit, find))
    if has_digit and _is_time_stamp(find, before, dates_and_numbers):
        return True
    if is_size_or_operand(find, before) and not (CUE_BEFORE.search(before) or _is_announced(before)):
        return True
    if label in ("US_DRIVER_LICENSE", "ADDRESS") and _SPINE.search(before[-4:] + find + after[:4]):
        return True
    if label in ("ADDRESS", _OTHER) and has_digit and _DISC.fullmatch(find):
        return True
    if label in _MACHINE:
        return _is_machine_made(find, label, before, after)
    if not any(map(str.isalnum, find)):
        return True
    if has_digit and (_SEMANTIC.fullmatch(find) or (_NUMBERED.fullmatch(find) and not _is_announced(before))):
        return True
    if _EXCEPTION.fullmatch(find) or _FLAG.fullmatch(find) or (has_digit and _is_short_code(find, before, after)):
        return not _is_announced(before)
    if (label != "USERNAME" and _is_code(find)) or is_number_of_a_thing(find, before, after, dates_and_numbers):
        return True
    words = _WORD.findall(find)
    lower = find.lower()
    if label not in _NUMBERS:
        if label == "USERNAME" and lower in _LISTS["addresses"]:
            return True
        if _is_announced(before):
            return False
        if len(words) > 1 and words[-1].lower() in _LISTS["named_after"]:
            return True
        if (
            len(find.split()) == 1
            and (lower in _LISTS["technical"] or lower in _LISTS["drugs"] or lower in _LISTS["abbreviations"])
            and (find.isupper() or not (lower in personal_names() or lower in _LISTS["abbreviations"]))
            and not is_alone(before, after)
        ):
            return True
        if lower.removesuffix("'s").removesuffix("’s") in _LISTS["eponyms"] and (
            _EPONYM.match(after) or "s" in lower[-1:]
        ):
            return True
        if lower in _LISTS["scores"] and _SCORE.match(after):
            return True
        if (
            label == "USERNAME"
            and "_" in find
            and (_ASSIGNED.match(after) or before.endswith("#define "))
            and (find.isupper() or not has_listed_name(find))
        ):
            return True
        if find in _LISTS["measures"] and _BEFORE_DIGIT.match(after) and _AT_A_TIME.search(before):
            return True
        if _STEM.fullmatch(find) and not has_listed_name(find):
            return True
        if (has_digit or label == "EVENT") and is_everyday(find, before, after) and not identifies(find, before, after):
            return True
        if len(find) == 1 or before.rstrip().endswith(PLACEHOLDER):
            return False
        if (has_digit or "@" in find) and (_MIXED.search(find) or _HAS_ID.search(find)):
            return False
        return bool(words) and find.islower() and all(map(is_plain, words))
    if lower in _LISTS["technical"]:
        return True
    if ATTRIBUTE.fullmatch(find) and not has_listed_name(find):
        return True
    if _PERCENT.fullmatch(find):
        return True
    if dates_and_numbers == "careful" and not is_everyday(find, before, after):
        return False
    return not identifies(find, before, after)


def _is_announced(before: str) -> bool:
    lower = before.lower()
    return (any(word in lower for word in _ANNOUNCING) or not before.isascii()) and _ANNOUNCED.search(
        before
    ) is not None


def _is_short_code(find: str, before: str, after: str) -> bool:
    """Returns true for a letter and one or two digits, such as "A4", that are no part of a longer code."""
    return _SHORT_CODE.fullmatch(find) is not None and not (_AFTER_CODE.search(before) or _BEFORE_CODE.match(after))


def _is_machine_made(find: str, label: str, before: str, after: str) -> bool:
    if label == "CODE":
        return (_NUMBERED.fullmatch(find) or DOSE.fullmatch(find)) is not None
    if label == "URL":
        return _CALL.fullmatch(find) is not None or is_no_site(find) or is_attribute(find, before, after)
    if label == "US_DRIVER_LICENSE":
        return sum(map(str.isdigit, find)) < _SHORTEST_LICENCE and not (
            CUE_NEXT.search(before) or _LICENCE.search(before)
        )
    if label == "PHONE_NUMBER":
        return _DECIMAL.fullmatch(find) is not None
    if label == "ID_NUMBER":
        return _PORT.search(before) is not None and _PORTS.fullmatch(find) is not None
    if label == "ADDRESS":
        if (
            _is_short_code(find, before, after)
            or (DOSE.fullmatch(find) or MEASURE.fullmatch(find)) is not None
            or _is_lab_line(find)
            or _AMOUNT.fullmatch(find)
            or _NUMBERED.fullmatch(find)
            or _STANDARD.search(before)
        ):
            return True
        return _VITAL_SIGNS.search(before[-12:] + find) is not None and re.search(r"\d{5}", find) is None
    return False


def _is_lab_line(find: str) -> bool:
    """Returns true for laboratory values without their first name: "24, BUN 14, Cr"."""
    words = _WORD.findall(find)
    return bool(words) and all(w.lower() in _LABORATORY for w in words) and not re.search(r"\d{4}", find)


def _is_time_stamp(find: str, before: str, dates_and_numbers: str) -> bool:
    """Returns true for seconds since 1970: with a fraction or a cue, or in any place with ``identifying``."""
    if len(find) < _SHORTEST_STAMP or _STAMP.fullmatch(_KEY.sub("", find)) is None or CUE_BEFORE.search(before):
        return False
    return dates_and_numbers == "identifying" or "." in find or _TIME_CUE.search(before) is not None


def _is_code(find: str) -> bool:
    """Returns true for a constant, and code without a string, a capitalised word, a long number or an address."""
    if "_" in find and find.isupper() and find[-1].isalpha():
        return not names_somebody(find)
    if _CODE.search(find) is None or _HAS_ID.search(find) or _NOT_CODE.search(find):
        return False
    return not has_listed_name(find)
