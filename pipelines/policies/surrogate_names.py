"""Surrogates of names, word by word, so that all mentions of one person in a document name another person.

Each word of a name has a surrogate of its own. So "Anne Keller", "ANNE", "anne" and "Mrs Keller" stay one person,
though each row is written without a look at other rows. Titles stay, and so does upper and lower case.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pipelines.policies.english.common_words import COMMON_WORDS, FUNCTION_WORDS, NUMBER_WORDS
from pipelines.policies.english.name_lists import LOCALES, given_names, names_of
from pipelines.policies.english.word_lists import word_lists


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ENGLISH: Final = ("en_GB", "en_NZ", "en_US")
_NEUTRAL: Final = _words(
    "Ashton Aubrey Avery Bailey Blair Brett Cameron Carey Casey Charlie Corey Dakota Darcy Devin Elliot Ellis Emerson "
    "Emery Finley Frankie Harley Hayden Hollis Jaden Jamie Jesse Jody Jordan Jules Kelsey Kendall Kerry Leslie "
    "Lindsay Lyric Mackenzie Marion Marley Merle Micah Monroe Morgan Nicky Oakley Paxton Peyton Presley Quinn Raleigh "
    "Remy Riley Ripley Robbie Rory Rowan Sasha Shannon Shelby Sidney Skyler Sloan Stacey Sutton Tatum Taylor Teagan "
    "Toby Tracy Tristan Whitney Yael"
)
"""First names in use for all genders that are no ordinary words."""

_GIVEN: Final = re.compile("[A-Z][a-z]{3,9}")
_FAMILY: Final = re.compile(
    "(?:Mc[a-z]{2,7}|[A-Z][a-z]{1,7}(?:son|sen|ez|ley|[^t]ton|well|ham|ford|ett|ington|ahan|erty|ney|ado|ero|wright|kins"
    "|more|illo|illa|oza|ales|ster|ards|iams|inson|dge|nell))"
)
"""Family names in forms that ordinary words seldom have."""

_MOST_WORDS: Final = 6
_WORD: Final = r"[^\W\d_]+(?:['’](?!s(?!\w))[^\W\d_]+)*"
_NAME: Final = re.compile(rf"{_WORD}(?:['’]s)?(?:[ \t\n.,-]{{1,3}}{_WORD}(?:['’]s)?)*\.?")
_WORDS: Final = re.compile(rf"(?<!['’]){_WORD}")
_TITLES: Final = frozenset(
    _words(
        "mr mrs ms miss mx dr prof sir madam herr herrn frau fräulein monsieur madame mademoiselle mme mlle señor "
        "señora señorita sr sra srta doña senhor senhora signor signora signore signorina sig dott dottor dhr "
        "mevrouw mevr meneer heer"
    )
)
_PARTICLES: Final = frozenset(_words("da das de del della den der di do dos du la le ten ter van vom von y zu zum zur"))


class NamePart(NamedTuple):
    """A part of a name that has a surrogate.

    Attributes:
        start, end: half-open characters of the part in the name, initials and "van der" included.
        word: its main word in small letters.
        kind: list that its surrogate is drawn from (`names`).
        before, after: text around the surrogate's main word, with other initials.
    """

    start: int
    end: int
    word: str
    kind: str
    before: str = ""
    after: str = ""


def parts_of(name: str, *, gendered: bool) -> list[NamePart] | None:
    """Returns the parts of a person's name without its titles; None if it does not look like a name.

    Args:
        name: masked text.
        gendered: true if listed first names of one gender have surrogates of that gender.
    """
    words = list(_WORDS.finditer(name))
    while words and words[0][0].lower() in _TITLES:
        words.pop(0)
    if not words or len(words) > _MOST_WORDS or _NAME.fullmatch(name) is None:
        return None
    main = [i for i, word in enumerate(words) if len(word[0]) > 1 and not _is_particle(word[0])]
    if not main:
        return None
    parts = []
    for number, i in enumerate(main):
        first = 0 if number == 0 else main[number - 1] + 1
        last = len(words) - 1 if number == len(main) - 1 else i
        word = words[i][0].lower()
        parts.append(
            NamePart(
                words[first].start(),
                words[last].end(),
                word,
                kind_of(word, gendered=gendered),
                name[words[first].start() : words[i].start()],
                name[words[i].end() : words[last].end()],
            )
        )
    return parts


def _is_particle(word: str) -> bool:
    return word.islower() and word in _PARTICLES


def around(text: str, letters: Iterator[str]) -> str:
    """Returns the text beside a main word with other letters for initials, and "de" for words such as "van der"."""

    def other(match: re.Match[str]) -> str:
        if len(match[0]) > 1:
            return "de"
        return next(letters).upper() if match[0].isupper() else next(letters).lower()

    return re.sub(r"de(?:\s+de)+(?!\w)", "de", re.sub(_WORD, other, text))


@functools.cache
def _words_of(gender: str) -> frozenset[str]:
    return frozenset(
        part
        for locale in LOCALES.split()
        for name in names_of(locale, f"first_names_{gender}")
        for part in name.lower().split()
    )


def kind_of(word: str, *, gendered: bool) -> str:
    """Returns the list of `names` for a word in small letters: family, neutral, female or male."""
    if word not in given_names():
        return "family"
    is_female, is_male = word in _words_of("female"), word in _words_of("male")
    if not gendered or is_female == is_male:
        return "neutral"
    return "female" if is_female else "male"


@functools.cache
def names(kind: str) -> tuple[str, ...]:
    """Returns the surrogates of a kind: single names that are no ordinary words, in no other kind."""
    plain = COMMON_WORDS | FUNCTION_WORDS | NUMBER_WORDS | word_lists("identifiers")["words_too"]
    plain |= {name.lower() for name in _NEUTRAL}
    if kind == "neutral":
        return _NEUTRAL
    plain |= given_names() if kind == "family" else _words_of("male" if kind == "female" else "female")
    attribute = "last_names" if kind == "family" else f"first_names_{kind}"
    listed = {name for locale in _ENGLISH for name in names_of(locale, attribute) if name.lower() not in plain}
    form = _FAMILY if kind == "family" else _GIVEN
    return tuple(sorted(name for name in listed if form.fullmatch(name) is not None))


def in_case_of(surrogate: str, original: str) -> str:
    """Returns a surrogate in upper or lower case if the original is."""
    if len(original) > 1 and original.isupper():
        return surrogate.upper()
    return surrogate.lower() if original.islower() else surrogate
