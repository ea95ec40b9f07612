"""Decides which part of a field's value is masked, by the kinds of the field and the form of the value."""

from __future__ import annotations

import functools
import html
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipelines.policies.detectors.fields.keys import MARKS, NO_VALUE, THINGS, parts_of, plain
from pipelines.policies.detectors.fields.scan import Field, Row, bare_word, trimmed
from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.identifiers.beside import is_unknown
from pipelines.policies.detectors.identifiers.introduced import NAME_WORD
from pipelines.policies.detectors.identifiers.places import WORD_NAMES, is_listed
from pipelines.policies.english.code import CALL_BEHIND, STAND_IN, is_stand_in
from pipelines.policies.english.common_words import COMMON_WORDS, FUNCTION_WORDS
from pipelines.policies.english.name_lists import given_names, personal_names
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("fields")
_SCHEMES: Final = _LISTS["schemes"]
_PARTICLES: Final = _LISTS["particles"]
_ATTRIBUTES: Final = _LISTS["cookie_attributes"]
_DATE: Final = re.compile(
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2}))"
    r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|\d{1,2}[ -]?[A-Za-z]{3,9}[ -]?(?!1000)[12]\d{3}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}"
)
_MAIL: Final = re.compile(r"[^\s@,;]{1,64}@[^\s@,;]{1,64}\.[^\s@,;]{1,20}")
_LONG_NUMBER: Final = re.compile(r"\+?[\d(][\d ().-]{5,20}\d")
_NAME: Final = re.compile(r"[^\W\d_][^\W\d_.'’-]{0,40}(?:[ .,'’-]{1,3}[^\W\d_]{1,40}){0,5}[.,]?")
_STOP: Final = re.compile(r"<|[ ](?:[(/]|->|→)[ ]?|（")
"""What ends a name in its field."""

_MARK: Final = re.compile(f"[{MARKS}]")
_MISREAD: Final = re.compile(r"(?<=[^\W\d_])[01345](?=[^\W\d_])|\b[015](?=[a-z]{3})")
_FULL_NAME: Final = re.compile(rf"{NAME_WORD}(?:[ ]{NAME_WORD}){{1,2}}(?=[ ]?[,.;(|\n\t]|[ ]{{2}}|\s*\Z)")
_AGENT: Final = re.compile(r"[a-z]{3,20}(?:er|or|ee|ant|ent|ist|ian)")
_NO_AGENTS: Final = _LISTS["no_agents"]
_ACCOUNT: Final = re.compile(r"[\w.@+-]{2,64}")
_NUMBER: Final = re.compile(r"[+(#]?[^\W_][\w()./:#+-]{0,60}(?:[ ]-?[ ]?[(]?\d[\d()./-]{0,20}){0,6}")
_PLACE: Final = re.compile(r"[^\W_][^\n\t<>{}=\[\]]{0,120}")
_COOKIE: Final = re.compile(r"([\w.!#$%&'*+^`|~-]{1,64})=([^\s;,\"']{1,400})")
_SCHEME: Final = re.compile(r"([A-Za-z0-9-]{3,18})[ \t]{1,3}(?=\S)")
_CODE: Final = re.compile(r"[(\[{]|[A-Za-z_]\w{0,40}(?:\.[A-Za-z_]\w{0,40}){1,5}$")
_LITERAL: Final = re.compile(r"[$%]\{|\$\(|\{\{|[<%]|\$[A-Z_]{2,}$|\*+$|x{3,}$|\.{3}", re.I)
_PLAIN: Final = COMMON_WORDS | FUNCTION_WORDS
_PASSWORDS: Final = re.compile(r"pass|pwd|senha|clave|parol|kenn|losen|pin$|mdp", re.I)
_FEW: Final = 2
_MAX_HEADER: Final = 4_000
_MAX_PHRASE: Final = 24
_MAX_PASSWORD: Final = 5
_MOST_SMALL: Final = 3
_COUNTRY: Final = re.compile("[A-Z]{2}")
_ENDS: Final = ".!?,;:"


def judge(text: str, field: Field) -> Iterator[Find]:
    """Yields the finds in the value of a field."""
    kinds, value = field.kinds, text[field.start : field.end]
    if "version" in kinds or not value or (field.style == "= " and CALL_BEHIND.match(text, field.end)):
        return
    if "cookie" in kinds:
        yield from _cookies(text, field)
    elif "header" in kinds:
        yield from _header(text, field)
    elif "phrase" in kinds:
        yield from _phrase(text, field)
    elif "secret" in kinds:
        yield from _secret(text, field)
    elif (date := _date(text, field)) is not None:
        yield date
    elif "number" in kinds and (number := _number(text, field)) is not None:
        yield number
    elif kinds & {"person", "user", "perhaps"}:
        persons = list(_person(text, field))
        yield from persons or _full_name(text, field)
    elif "place" in kinds:
        yield from _place(text, field)
    elif not kinds:
        yield from _full_name(text, field)


def judge_row(text: str, row: Row) -> Iterator[Find]:
    """Yields the cells of a record without names that are a date, a number or words, if one of them identifies."""
    cells = [(start, end, text[start:end]) for start, end in row.cells if start < end]
    identifies = False
    for start, end, value in cells:
        if _DATE.fullmatch(value) is not None:
            yield start, end, "DATE"
            identifies = True
        elif _MAIL.fullmatch(value) is not None:
            yield start, end, "EMAIL_ADDRESS"
            identifies = True
        elif _LONG_NUMBER.fullmatch(value) is not None and "." not in value:
            yield start, end, "ID_NUMBER"
            identifies = True
    if any(_COUNTRY.fullmatch(value) for _, _, value in cells):
        lone = [value.istitle() and value.isalpha() and is_unknown(value.lower()) for _, _, value in cells]
        identifies = identifies or (True, True) in itertools.pairwise(lone)
    named = [c for c in cells if any(len(w) > 2 and w in _listed() for w in plain(c[2]).split())]
    if not identifies and not named:
        return
    for start, end, value in cells:
        words = value.split()
        if _NAME.fullmatch(value) is None or len(value) < 3 or len(words) > 4:
            continue
        is_capital = all(w[0].isupper() or plain(w) in _PARTICLES for w in words)
        in_small = bool(named) and value.islower() and not any(c[2] != c[2].lower() for c in cells)
        if (is_capital or in_small) and not all(plain(w) in _PLAIN or plain(w) in NO_VALUE for w in words):
            yield start, end, "PERSON"


@functools.cache
def _listed() -> frozenset[str]:
    return given_names() - _PLAIN


def is_value(value: str) -> bool:
    """Returns true if a secret may be this value: it is no placeholder, no name of a type and no word of a state."""
    written = value.strip(_ENDS)
    return (
        any(map(str.isalnum, written))
        and len(written) >= (3 if written.isascii() else 2)
        and plain(written) not in NO_VALUE
        and _LITERAL.match(value) is None
        and not is_stand_in(written)
    )


def _header(text: str, field: Field) -> Iterator[Find]:
    """Yields the credentials of an ``Authorization`` header, without the scheme."""
    if field.style != "quoted":  # credentials of base64 end in "=", which looks like the name of the next field
        field = field._replace(end=end_of_header(text, field, "\n"))
    value = text[field.start : field.end]
    scheme = _SCHEME.match(value)
    start = field.start + (scheme.end() if scheme is not None and scheme[1].lower() in _SCHEMES else 0)
    end = field.end
    if field.style != "quoted":
        word = bare_word(text, field._replace(start=start))
        end = word[1] if word[1] > start else end
    if scheme is not None and scheme[1].lower() == "digest":
        end = field.end
    if is_value(text[start:end]):
        yield start, end, "SECRET_KEY"


def end_of_header(text: str, field: Field, marks: str = '\n"') -> int:
    """Returns the end of the value of a header: the first of some marks, that of its string, or a bound."""
    stop = min(len(text), field.start + _MAX_HEADER)
    stop = min(stop, field.end) if field.style == "quoted" else stop
    return min([stop, *(at for mark in marks if (at := text.find(mark, field.start, stop)) >= 0)])


def _cookies(text: str, field: Field) -> Iterator[Find]:
    for cookie in _COOKIE.finditer(text, field.start, end_of_header(text, field)):
        if cookie[1].lower() not in _ATTRIBUTES and is_value(cookie[2]) and len(cookie[2]) > 3:
            yield *cookie.span(2), "SECRET_KEY"


def _phrase(text: str, field: Field) -> Iterator[Find]:
    start, end = field.start, field.end
    value = text[start:end].rstrip(_ENDS)
    words = value.split()
    if words and len(words) <= _MAX_PHRASE and is_value(value) and plain(words[0]) not in NO_VALUE:
        yield start, start + len(value), "PASSWORD"


def _secret(text: str, field: Field) -> Iterator[Find]:
    start, end = field.start, field.end
    value = text[start:end]
    label = "PASSWORD" if _PASSWORDS.search(field.key) or not field.key else "SECRET_KEY"
    if field.style in ("quoted", "cell", "element"):
        scheme = _SCHEME.match(value)
        if scheme is not None and scheme[1].lower() in _SCHEMES:
            start += scheme.end()
        words = value.split()
        is_sentence = (
            field.style == "element" and len(words) > 1 and any(plain(w.strip(_ENDS)) in FUNCTION_WORDS for w in words)
        )
        if is_value(text[start:end]) and not is_sentence and not (field.style == "cell" and len(words) > _MAX_PASSWORD):
            yield start, end, label
        return
    first, stop = bare_word(text, field)
    word = text[first:stop].rstrip(_ENDS)
    if not is_value(word) or word == field.key or text[stop : stop + 3].strip().startswith("="):
        return  # an argument of its own name, or a type before a value
    if field.style != ":" and _CODE.search(text[start : stop + 1]):
        return
    rest = text[stop:end].strip()
    if plain(word) in _SCHEMES and rest:
        if is_value(rest.split()[0]):
            yield first + text[first:end].index(rest), min(end, stop + 1 + len(rest)), label
        return
    formed = any(map(str.isdigit, word)) or (any(map(str.isupper, word[1:])) and any(map(str.islower, word)))
    if field.style == "=" or formed or not rest or rest[0] in "'\"":
        is_code = field.style == "= " and not formed and ("_" in word or field.key == word)
        if not is_code:
            yield first, first + len(word), label
        return
    words = text[start:end].rstrip(_ENDS).split()
    if len(words) <= _MAX_PASSWORD and not any(plain(w.strip(_ENDS)) in FUNCTION_WORDS for w in words):
        yield start, start + len(text[start:end].rstrip(_ENDS)), label
    elif rest[0] in ",;&|)" or word != text[first:stop]:
        yield first, first + len(word), label


def _date(text: str, field: Field) -> Find | None:
    """Returns the date that is a field's whole value, under any name."""
    start, end = field.start, field.end
    if field.style in ("=", ":"):
        found = _DATE.match(text, start, end)
        if found is None or text[found.end() : found.end() + 1].isalnum():
            return None
        return start, found.end(), "DATE"
    return (start, end, "DATE") if _DATE.fullmatch(text, start, end) else None


def _number(text: str, field: Field) -> Find | None:
    found = _NUMBER.match(text, field.start, field.end)
    if found is None:
        return None
    number = found[0].rstrip(_ENDS)
    num_digits = sum(map(str.isdigit, number))
    if field.style in ("quoted", "cell", "element"):
        if len(text[field.start : field.end]) > 60:
            return None
        number = text[field.start : field.end]
        num_digits = sum(map(str.isdigit, number))
    if not num_digits or (
        num_digits < 5
        and "place" not in field.kinds
        and field.key.lower() in ("id", "ref", "reference", "order", "case", "uid")
    ):
        return None
    return field.start, field.start + len(number), "ID_NUMBER"


def _person(text: str, field: Field) -> Iterator[Find]:
    start, end = field.start, field.end
    cut = _STOP.search(text, start, end)
    start, end = trimmed(text, start, cut.start() if cut is not None else end)
    value = _as_letters(text[start:end])
    is_sure = "person" in field.kinds
    is_marked = field.style in ("quoted", "cell", "element", "=")
    words = [w for w in re.split(r"[\s,]+", value) if w]
    if (
        not words
        or len(words) > 5
        or plain(value.strip(_ENDS)) in NO_VALUE
        or _LITERAL.match(value)
        or STAND_IN.match(value)
    ):
        return
    is_name = _NAME.fullmatch(value) is not None and plain(words[0]) not in NO_VALUE
    if is_name and len(value.strip(_ENDS)) > 1:
        everyday = all(plain(w.strip(".,")) in _PLAIN for w in words)
        lower = [w.strip(".,").lower() for w in words]
        listed = any((len(w) > 2 and w in personal_names()) or is_listed(w) for w in lower)
        capital = all(w[0].isupper() or not w[0].islower() or w in _PARTICLES for w in words)
        has_function = any(w in FUNCTION_WORDS for w in words)
        if is_sure:
            good = (
                (is_marked or capital or listed) and not (everyday and not (is_marked and capital)) and not has_function
            )
        else:
            several = capital and len(words) > 1
            good = (
                not everyday
                and not has_function
                and (
                    several
                    or (capital and "role" in field.kinds and is_unknown(words[0].strip(_ENDS).lower()))
                    or (capital and (listed or (is_marked and "name" not in plain(field.key)[-4:])))
                    or (listed and words[0].lower() in given_names() and (is_marked or len(words) > 1))
                    or (is_marked and len(words) == _FEW and all(map(is_unknown, lower)))
                    or _is_small_name(value, words, field)
                )
            )
        if good:
            num_marks = len(value) - len(value.rstrip("," if value[-2:-1].isupper() else ".,"))
            yield start, end - num_marks, "PERSON"
            return
    first, stop = (start, end) if is_marked and field.style != "=" else bare_word(text, field._replace(end=end))
    word = text[first:stop].rstrip(_ENDS)
    if (
        ("user" in field.kinds or ("role" in field.kinds and is_unknown(word)))
        and _ACCOUNT.fullmatch(word)
        and any(map(str.isalpha, word))
        and plain(word) not in NO_VALUE
        and plain(word) not in _PLAIN
        and (is_marked or stop == end)
        and not (field.style == "=" and _CODE.search(text[first : stop + 1]) and "@" not in word)
    ):
        yield first, first + len(word), "USERNAME"


def _is_small_name(value: str, words: Sequence[str], field: Field) -> bool:
    """Returns true for two or three words in small letters, of which one is in no dictionary.

    In a field that is only called a name, each word must be unknown, or a name.
    """
    may_be_name = [is_unknown(word) or word in WORD_NAMES or is_listed(word) for word in words]
    return (
        value.islower()
        and 1 < len(words) <= _MOST_SMALL
        and field.style in ("quoted", "cell")
        and all(map(str.isalpha, words))
        and any(map(is_unknown, words))
        and (all(may_be_name) or not field.key.lower().endswith("name"))
    )


def _as_letters(value: str) -> str:
    """Returns a value of the same number of words, with letters for marks of vowels, entities and misread digits."""
    if "&" in value:
        value = html.unescape(value).replace("–", "-")
    if not value.isascii():
        value = _MARK.sub("", value)
    return _MISREAD.sub("o", value) if any(map(str.isdigit, value)) else value


def _full_name(text: str, field: Field) -> Iterator[Find]:
    """Yields a name of two or three words at the start of a value, of which one is in no dictionary.

    In a field of no list that is not called by what somebody does, another word must be a listed name.
    """
    written = text[field.start : field.end]
    if field.style == "element" and "&" in written and "&" not in (plain_text := _as_letters(written)):
        if any(_full_name(plain_text, field._replace(start=0, end=len(plain_text)))):
            yield field.start, field.end, "PERSON"
        return
    stop = len(text) if field.style == ":" else field.end
    found = _FULL_NAME.match(text, field.start, stop) if text[field.start].isupper() else None
    if found is None or field.key[-4:].lower() == "name" or (field.style != ":" and found.end() < field.end):
        return
    words = found[0].lower().split()
    pieces = [words[0], *words[-1].split("-")]
    if (
        all(is_unknown(word) or is_listed(word) or word in WORD_NAMES for word in words)
        and (field.kinds or _is_agent(field.key) or any(is_listed(word) or word in WORD_NAMES for word in pieces))
        and any(map(is_unknown, words))
    ):
        yield *found.span(), "PERSON"


def _is_agent(key: str) -> bool:
    """Returns true for the word for somebody who does something ("Taxpayer", "Lessee"), and for no machine or firm."""
    word = next(reversed(parts_of(key)), "")
    return _AGENT.fullmatch(word) is not None and word not in _NO_AGENTS and word not in THINGS


def _place(text: str, field: Field) -> Iterator[Find]:
    found = _PLACE.match(text, field.start, field.end)
    value = found[0].rstrip(_ENDS + " ") if found is not None else ""
    words = value.replace(",", " ").split()
    if not words or len(words) > 12 or plain(value) in NO_VALUE or not any(map(str.isalpha, value)):
        return
    is_marked = field.style in ("quoted", "cell", "element", "=")
    if plain(words[0]) in FUNCTION_WORDS or all(plain(w) in _PLAIN for w in words):
        return
    if is_marked or not words[0][0].islower() or words[0].endswith("."):  # "ul. Polna 4"
        yield field.start, field.start + len(value), "ADDRESS"
