"""Finds values that words announce: user names, passwords and codes after "username is", "password:", "order no."."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.first_pass import holds, kind
from pipelines.policies.english.code import CALL_BEHIND
from pipelines.policies.english.common_words import (
    COMMON_WORDS,
    COURTESY_WORDS,
    FUNCTION_WORDS,
    NUMBER_WORDS,
    PARTICIPLES,
)
from pipelines.policies.english.known_words import is_word
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("identifiers")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_NOUN: Final = (
    r"(?:names?|ids?|numbers?|no|num|nr|nbr|codes?|handle|reference|ref|account|pin|key|word|phrase|tag)\b\.?"
)
_LINK: Final = re.compile(
    rf"(?:['’]?s\b)?(?P<noun>(?:[ \t_.-]{{0,2}}{_NOUN}){{0,3}})"
    r"(?P<place>(?:[ \t](?:for|on|of|at|to)[ \t](?:(?:my|the|your|our|this|that|his|her|their)[ \t])?"
    r"[A-Za-z]{2,15}){0,2})"
    r"(?P<link>(?:[ \t]{0,3}(?:(?:is|was|are|were|says?|reads?|ist|lautet"
    r"|being|be|as|in|now|still|currently|just)\b|['’]s\b"
    r"|[:=#>|–-]{1,3})){0,4})"
    r"[ \t]{0,3}(?P<open>[\"'“”‘’`*]{0,2})[ \t]?",
    re.I,
)
_VALUE: Final = re.compile(r"[^\s\"“”`<>()\[\]{},;|]{1,80}")
_QUOTED: Final = re.compile(r"([^\"“”`\n]{1,80})[\"”`]")
_PHRASE: Final = re.compile(r"[^\s,;:.!?()]{1,40}(?:[ ][^\s,;:.!?()]{1,40}){0,4}(?=[ ]*(?:[.!?,;)\n]|\Z))")
"""Several words to the end of a clause."""

_WHOLE: Final = re.compile(r"(?=[^\s\w]{0,80}[^\W_])[^\s]{1,80}")
_ENDS: Final = ".!?:'’*"
_MORE_DIGITS: Final = re.compile(r"(?:[ /.-]{1,2}[A-Za-z]{0,4}\d[A-Za-z0-9]*(?![^\W_]))+")
_YEAR: Final = re.compile(r"(?:1[5-9]|20)\d\d[.,]?")
_DIGIT_WORD: Final = (
    "(?:"
    + "|".join(sorted(NUMBER_WORDS - {"dot", "dash", "hyphen", "underscore"}, key=len, reverse=True))
    + "|oh|zeros?)"
)
_SPOKEN: Final = re.compile(rf"{_DIGIT_WORD}(?:[ ,-]{{1,2}}{_DIGIT_WORD}){{1,8}}(?!\w)", re.I)
_FOLLOW: Final = re.compile(
    r"\b(?:follow|add|find|dm|message|tag) ([^\s,;:()]{3,64}) on (?:the )?"
    rf"(?:{'|'.join(sorted(_LISTS['cue_site']))})\b",
    re.I,
)
_AFTERWARDS: Final = re.compile(
    r"(?<!\S)([^\s,;:()]{2,64}) (?:is|was|as|for|=) (?:(?:the|my|a|your|our|his|her) )(?:new |old )?"
    r"(user ?name|login|pass ?word|pass ?code|pin|handle|user ?id)\b"
    r"|\b(?:log(?:ged)?|sign(?:ed)?)[ -]?(?:in|on|up|into \w{1,20}|in to \w{1,20})"
    r" (?:with|as|using|under) (?:the |my )?"
    r"([^\s,;:()]{2,64})"
    r"|\buse ([^\s,;:()]{2,64}) (?:to|for) (?:log|sign|logging|signing)[ -]?(?:in|on)?\b",
    re.I,
)
_FOLLOW_WORD: Final = kind(frozenset({"follow", "add", "find", "dm", "message", "tag"}))
_AFTERWARDS_WORD: Final = kind(lambda word: word.startswith(("user", "login", "pass", "pin", "handle", "log", "sign")))
_ORDINAL: Final = (
    r"(?:(?:twenty|thirty)[ -])?(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth)"
    r"|(?:ten|eleven|twelf|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twentie|thirtie)th"
)
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_YEAR_WORDS: Final = rf"(?:nineteen|twenty|two thousand(?: and)?)(?:[ -](?:oh[ -])?{_DIGIT_WORD}){{1,2}}"
_DAY_OF: Final = rf"(?:the )?(?:\d{{1,2}}(?:st|nd|rd|th)?|{_ORDINAL})"
_WRITTEN: Final = re.compile(
    rf"(?<![\w.])(?:{_DAY_OF} (?:of )?{_MONTH},? (?:['’]\d\d|{_YEAR_WORDS})|{_DAY_OF} of {_MONTH},? (?:19|20)\d\d"
    rf"|{_MONTH} {_DAY_OF},? (?:['’]\d\d|{_YEAR_WORDS}))(?!\w)",
    re.I,
)
"""A day with its year, in words or with an apostrophe: "2nd of Feb '19"."""

_MONTH_WORD: Final = kind(re.compile(_MONTH).fullmatch)
_BIRTH: Final = re.compile(
    r"(?:is|was|on|[:=–-]){0,2}[ \t:]{0,3}(?:on )?(\d{1,4}(?:[-/. ]{1,2}|(?:st|nd|rd|th)?(?: of)? )"
    r"(?:\d{1,2}|[A-Za-z]{3,9})[-/., ]{1,3}['’]?\d{2,4}"
    r"|[A-Za-z]{3,9}\.? \d{1,2}(?:st|nd|rd|th)?,? ['’]?\d{2,4}|\d{6,8})(?!\w)",
    re.I,
)
_LONG: Final = 6
_RECORD: Final = 5
"""Characters of a booking in capitals, with one digit or more."""

_NO_VALUE: Final = FUNCTION_WORDS | COURTESY_WORDS | word_lists("triggers")["of_a_credential"] | _LISTS["no_value"]
_PLAIN: Final = COMMON_WORDS | NUMBER_WORDS | _LISTS["no_value"] | _LISTS["things"]
_CUES: Final = {
    word: kind
    for kind in ("user", "site", "password", "pin", "code", "number", "birth")
    for word in _LISTS[f"cue_{kind}"]
}

CUES: Final = frozenset(_CUES) | {"log", "logged", "logging", "sign", "signed", "signing"}
"""Words in lower case. A text without any of them announces nothing."""


def find_announced(text: str) -> Iterator[Find]:
    """Yields the value after a cue, if its form or the words between them are those of a value."""
    end_of_last = 0
    for cue in _WORD.finditer(text):
        kind = _CUES.get(cue[0].lower())
        if kind is None or cue.start() < end_of_last:
            continue
        if kind == "birth":
            date = _BIRTH.match(text, cue.end() + (text[cue.end() : cue.end() + 1] == " "))
            if date is not None:
                yield date.start(1), date.end(1), "DATE_OF_BIRTH"
            continue
        link = _LINK.match(text, cue.end())
        if link is None or (link.end() == cue.end()):
            continue
        value = _value(text, cue, link, kind)
        if value is not None:
            end_of_last = value[1]
            yield value
    for match in _FOLLOW.finditer(text) if holds(text, _FOLLOW_WORD) else ():
        if match[1].lower() not in _PLAIN and match[1].lower() not in _NO_VALUE:
            yield match.start(1), match.end(1), "USERNAME"
    for match in _AFTERWARDS.finditer(text) if holds(text, _AFTERWARDS_WORD) else ():
        group = next(number for number in (1, 3, 4) if match[number] is not None)
        written = match[group].strip("\"'“”‘’`").lower()
        kind = (
            "USERNAME" if group == 3 or (match[2] or "").lower().startswith(("user", "login", "handle")) else "PASSWORD"
        )
        if written not in _PLAIN and written not in _NO_VALUE:
            yield *match.span(group), kind


_ABOVE_89: Final = r"(?:9\d|1[01]\d)"
_ABOVE_89_WORDS: Final = rf"(?:ninety|(?:a|one) hundred(?: and)?)(?:[ -]{_DIGIT_WORD})?"
_AGE: Final = re.compile(
    rf"(?<![\w.,/-]){_ABOVE_89}(?:[ -]?(?:y/?o|y\.o\.?|yo[mf])(?!\w)|[ -]?(?:years?|yrs?)[ -](?:old|young|of age)(?!\w)"
    rf"|[ ]?[FM](?=[ ](?:with|w/|c/o|s/p|p/w|pw|who|presents|presenting|admitted)))"
    rf"|(?<!\w)(?:aged?|turn(?:ed|s|ing)?|(?:s?he|nan|gran|mum|mom|dad)(?:['’]s| is| was)) ({_ABOVE_89_WORDS})"
    r"(?=(?: years)?(?: young| old| now| and| last| this| next|[ ]?[.,!?;]|\Z))"
    rf"|(?<!\w)({_ABOVE_89_WORDS})(?=,? and still )"
    r"|(?<!\w)at ((?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)"
    rf"(?:[ -]{_DIGIT_WORD})?)(?=,? (?:he|she)(?!\w))",
    re.I,
)
"""An age above 89, which US rules on health data (HIPAA) count as a secret, and an age in words of a subject."""

_AGE_WORD: Final = kind(re.compile(rf"{_ABOVE_89}[a-z]{{0,3}}|hundred|[a-z]{{3,5}}ty").fullmatch)


def find_dates_and_ages(text: str) -> Iterator[Find]:
    """Yields days with a year in words or with an apostrophe, and ages above 89."""
    if holds(text, _MONTH_WORD):
        yield from ((*match.span(), "DATE_OF_BIRTH") for match in _WRITTEN.finditer(text))
    for match in _AGE.finditer(text) if holds(text, _AGE_WORD) else ():
        yield *match.span(match.lastindex or 0), "AGE"


def _value(text: str, cue: re.Match[str], link: re.Match[str], kind: str) -> Find | None:
    """Returns the value after a cue and the words that link them, if there is one."""
    marks = any(c in ":=#>|" for c in link["link"])
    says = bool(link["link"].strip())
    if kind not in ("user", "site") and (spoken := _SPOKEN.match(text, link.end())) is not None:
        return spoken.start(), spoken.end(), "PASSWORD" if kind in ("pin", "password") else "CODE"
    quoted = _QUOTED.match(text, link.end()) if link["open"] and link["open"] in '"“`' else None
    if kind in ("password", "pin"):
        is_short = cue[0].lower() in ("pass", "key", "phrase", "pw") and not link["noun"]
        return _password(text, link, quoted, pin=kind == "pin", marks=marks, says=says, short=is_short)
    value = _VALUE.match(text, link.end())
    written = value[0].rstrip(_ENDS) if value is not None else ""
    if value is None or not any(map(str.isalnum, written)):
        return None
    start, end = value.start(), value.start() + len(written)
    if kind in ("user", "site"):
        if "=" in link["link"] and CALL_BEHIND.match(text, end):
            return None
        if not _is_user(text, cue, link, written, weak=kind == "site", marks=marks, says=says):
            return None
        return start, quoted.end(1) if quoted else end, "USERNAME"
    named = bool(link["noun"].strip(" \t_.-")) or kind == "code"
    if not _is_code(written, named=named, marks=marks, says=says, number=kind == "number"):
        return None
    more = _MORE_DIGITS.match(text, end)
    return start, more.end() if more is not None and any(map(str.isdigit, written)) else end, "CODE"


def _password(
    text: str, link: re.Match[str], quoted: re.Match[str] | None, *, pin: bool, marks: bool, says: bool, short: bool
) -> Find | None:
    """Returns a password with any characters, or of several words up to the end of a clause."""
    if quoted is not None:
        return link.end(), quoted.end(1), "PASSWORD"
    whole = _WHOLE.match(text, link.start("open")) or _WHOLE.match(text, link.end())
    if whole is None:
        return None
    written = whole[0].rstrip(".,;:?\"'”’")
    if not _is_password(written.rstrip("!)"), pin=pin, marks=marks, says=says, short=short):
        return None
    end = whole.start() + len(written)
    phrase = _PHRASE.match(text, whole.start()) if (marks or says) and not pin else None
    if phrase is not None and FUNCTION_WORDS.isdisjoint(phrase[0].lower().split()):
        end = max(end, phrase.end())
    return whole.start(), end, "PASSWORD"


def _is_formed(value: str) -> bool:
    """Returns true if a word has a form that words of a language lack: inner digits, marks or capitals."""
    inner = value[1:-1]
    return (
        (any(map(str.isdigit, value)) and any(map(str.isalpha, value)))
        or any(c in "_.@!$%&*+#~^" for c in inner)
        or (any(map(str.isupper, value[1:])) and any(map(str.islower, value)))
    )


def _is_user(
    text: str, cue: re.Match[str], link: re.Match[str], value: str, *, weak: bool, marks: bool, says: bool
) -> bool:
    plain = value.lower()
    if plain in _NO_VALUE or len(value) < 2 or plain in _CUES:
        return False
    if _is_formed(value) and (
        not weak or marks or says or text[max(0, cue.start() - 3) : cue.start()].lower() == "on "
    ):
        return True
    if weak:
        owned = text[max(0, cue.start() - 4) : cue.start()].lower().endswith(("my ", "his ", "her "))
        return plain not in _PLAIN and (marks or (says and (owned or bool(link["noun"].strip()))))
    return marks or (plain not in _PLAIN and (says or bool(link["noun"]) or not is_word(plain)))


def _is_password(value: str, *, pin: bool, marks: bool, says: bool, short: bool) -> bool:
    plain = value.lower()
    if plain.endswith(("error", "exception")):
        return False
    if pin:
        return any(map(str.isdigit, value)) and len(value) >= 3 and (marks or says or len(value) in (4, 6))
    if marks and not short:
        return plain not in FUNCTION_WORDS and plain not in _LISTS["no_value"]
    if plain in _NO_VALUE or plain in _CUES:
        return False
    if short:
        return marks or _is_formed(value)
    is_state = plain in _LISTS["states"] or value in PARTICIPLES  # "passwords are refused"
    return _is_formed(value) or (says and not is_state) or (value.isdigit() and len(value) >= 4)


def _is_code(value: str, *, named: bool, marks: bool, says: bool, number: bool) -> bool:
    num_digits = sum(map(str.isdigit, value))
    if num_digits:
        if _YEAR.fullmatch(value) and not (named and (marks or says)):
            return False
        if value.isdigit():
            return num_digits >= (4 if not (named or marks) else 3 if not (named and marks) else 1)
        is_record = value.isupper() and value.isalnum() and len(value) >= _RECORD and (named or says)
        return is_record or (num_digits >= 2 and (named or marks or says or len(value) >= _LONG))
    if (
        (number and not named)
        or not value.isalpha()
        or not 4 <= len(value) <= 14
        or value.lower() in _PLAIN
        or value.lower() in _NO_VALUE
        or (value.endswith("ed") and is_word(value))
    ):
        return False
    return (marks or says) and (value.isupper() or (named and not number))
