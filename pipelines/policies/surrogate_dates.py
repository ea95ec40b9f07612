"""Shifts dates by a number of weeks and keeps their format, in the words of seven languages."""

from __future__ import annotations

import calendar
import datetime
import functools
import importlib
import re
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r"\d+|[^\W\d_]+|[\W_]+")
_LOCALES: Final = ("de_DE", "es_ES", "fr_FR", "it_IT", "nl_NL", "pt_BR")
_FILLERS: Final = frozenset({
    "am", "da", "de", "del", "den", "der", "di", "do", "el", "em", "il", "im", "in", "le", "of", "on", "the", "van",
})  # fmt: skip
_ORDINAL: Final = ("th", "st", "nd", "rd")
_TITLED: Final = ("en", "de_DE")
_LONGEST: Final = 40
_MID: Final = 15
_CENTURY: Final = 50
"""Years of two digits from here on are those of the 20th century."""


class _Month(NamedTuple):
    number: int
    forms: tuple[str, ...]


@functools.cache
def _months() -> dict[str, _Month]:
    """Returns the months by name and by its first three letters, as written in their language."""
    found: dict[str, _Month] = {}
    lists = {"en": tuple(name.lower() for name in list(calendar.month_name)[1:])}
    for locale in _LOCALES:
        provider = importlib.import_module(f"faker.providers.date_time.{locale}").Provider
        lists[locale] = tuple(provider.MONTH_NAMES[f"{number:02}"].lower() for number in range(1, 13))
    for language, names in lists.items():
        written = tuple(name.capitalize() if language in _TITLED else name for name in names)
        for forms in (written, tuple(name[:3] for name in written)):
            for number, form in enumerate(forms, 1):
                found.setdefault(form, _Month(number, forms))
                if language == "en":
                    found.setdefault(form.lower(), _Month(number, forms))
    return found


@functools.cache
def _weekdays() -> frozenset[str]:
    found = {name.lower() for name in calendar.day_name}
    for locale in _LOCALES:
        provider = importlib.import_module(f"faker.providers.date_time.{locale}").Provider
        found |= {name.lower() for name in provider.DAY_NAMES.values()}
    return frozenset(found | {name[:3] for name in found})


def shifted(date: str, weeks: int, *, day_first: bool = False) -> str | None:
    """Returns a date that is some weeks later, in the same format; None if it cannot be read as a date.

    Whole weeks keep the day of the week. A year or a month alone counts as its middle.

    Args:
        date: text of the date.
        weeks: number of weeks, which may be negative.
        day_first: true if 3/5/2020 is in May.
    """
    tokens = _TOKEN.findall(date)
    if len(date) > _LONGEST or "".join(tokens) != date:
        return None
    numbers = [i for i, token in enumerate(tokens) if token.isdigit()]
    month: tuple[int, _Month] | None = None
    for i, token in enumerate(tokens):
        if not token.isalpha() or token.lower() in _FILLERS:
            continue
        if i and tokens[i - 1].isdigit() and token.lower() in _ORDINAL:
            continue
        found = _months().get(token) or _months().get(token.capitalize()) or _months().get(token.lower())
        if found is None and token.lower() in _weekdays():
            continue
        if found is None or month is not None:
            return None
        month = i, found
    if any(not set(token) <= set(" \t\n,./-") for token in tokens if not token.isalnum()):
        return None
    places = _places(tokens, numbers, month is not None, day_first)
    return None if places is None else _written(tokens, places, month, weeks)


def _places(tokens: list[str], numbers: list[int], has_month: bool, day_first: bool) -> dict[str, int] | None:
    """Returns the tokens of day, month and year; None if they are unclear."""
    sizes = [len(tokens[i]) for i in numbers]
    if not all(token.isascii() for token in (tokens[i] for i in numbers)):
        return None
    names: tuple[str, ...] | None
    if has_month:
        names = {1: ("day",), 2: ("day",), 4: ("year",)}.get(sizes[0]) if len(sizes) == 1 else None
        if len(sizes) == 2:
            names = ("year", "day") if sizes[0] == 4 else ("day", "year") if sizes[1] in (2, 4) else None
    elif len(sizes) == 3:
        first, second = int(tokens[numbers[0]]), int(tokens[numbers[1]])
        if sizes[0] == 4 and sizes[1] <= 2 and sizes[2] <= 2:
            names = ("year", "month", "day")
        elif sizes[0] > 2 or sizes[1] > 2 or sizes[2] not in (2, 4):
            names = None
        else:
            is_day = first > 12 or (second <= 12 and (day_first or "." in tokens[numbers[0] + 1]))
            names = ("day", "month", "year") if is_day else ("month", "day", "year")
    else:
        names = ("year",) if sizes == [4] else ("month", "year") if sizes in ([1, 4], [2, 4]) else None
    return dict(zip(names, numbers, strict=True)) if names is not None else None


def _written(tokens: list[str], places: dict[str, int], month: tuple[int, _Month] | None, weeks: int) -> str | None:
    value = {name: int(tokens[i]) for name, i in places.items()}
    is_short = "year" in places and len(tokens[places["year"]]) == 2
    if is_short:
        value["year"] += 1900 if value["year"] >= _CENTURY else 2000
    if month is not None:
        value["month"] = month[1].number
    try:
        date = datetime.date(value.get("year", 2001), value.get("month", 7), value.get("day", _MID))
        date += datetime.timedelta(weeks=weeks)
    except (ValueError, OverflowError):
        return None
    if not 1000 <= date.year <= 9999:
        return None
    is_padded = month is None and all(len(tokens[places[name]]) == 2 for name in ("day", "month") if name in places)
    out = list(tokens)
    for name, i in places.items():
        number = getattr(date, name)
        if name == "year":
            out[i] = f"{number % 100:02}" if is_short else str(number)
            continue
        out[i] = f"{number:02}" if is_padded or tokens[i].startswith("0") else str(number)
        if i + 1 < len(out) and out[i + 1].lower() in _ORDINAL:
            suffix = "th" if 10 < number < 20 or number % 10 > 3 else _ORDINAL[number % 10]
            out[i + 1] = suffix.upper() if out[i + 1].isupper() else suffix
    if month is not None:
        i, form = month[0], month[1].forms[date.month - 1]
        old = tokens[i]
        out[i] = form.upper() if old.isupper() else form.lower() if old.islower() else form.capitalize()
    return "".join(out)
