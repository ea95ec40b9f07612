"""Guesses the language of a text by stop words of a few languages, to notice text in an unexpected language."""

from __future__ import annotations

import functools
import re
import runpy
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path
from typing import Final

LANGUAGES: Final = ("da", "de", "en", "es", "fr", "hu", "it", "nl", "pl", "pt", "ro", "sv", "tr")
"""Languages whose stop words are compared. All use Latin letters."""

OTHER_SCRIPT: Final = "other script"
"""Language of a text whose letters are mostly not Latin."""

WORD: Final = re.compile(r"[^\W\d_]+")
_SEVERAL_LETTERS: Final = re.compile(r"[^\W\d_]{2,}")
_MIN_WORDS: Final = 8
_MAX_WORDS: Final = 400
_MIN_SHARE: Final = 0.2
_MIN_STOP_WORDS: Final = 3
_GRAMMAR_SHARE: Final = 0.15


@functools.cache
def stop_words(language: str) -> frozenset[str]:
    """Returns spaCy's stop words of a language."""
    import spacy.lang

    # Runs only this file, because importing its package compiles all tokeniser exceptions, which takes seconds.
    file = Path(spacy.lang.__path__[0]) / language / "stop_words.py"
    return frozenset(runpy.run_path(str(file))["STOP_WORDS"])


@functools.cache
def languages_by_word() -> dict[str, tuple[str, ...]]:
    """Returns the languages of each stop word."""
    found: dict[str, tuple[str, ...]] = {}
    for language in LANGUAGES:
        for word in stop_words(language):
            found[word] = (*found.get(word, ()), language)
    return found


@functools.cache
def _stop_words_of(languages: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word for code in languages if code in LANGUAGES for word in stop_words(code))


def words_of(text: str, at_most: int = _MAX_WORDS) -> list[str]:
    """Returns a text's first words in lower case, without single letters, which are stop words of many languages."""
    return [match[0].casefold() for match in islice(_SEVERAL_LETTERS.finditer(text), at_most)]


def is_latin(words: Collection[str]) -> bool:
    """Checks if at least half of the words begin with a Latin letter."""
    return 2 * sum(word[0] < "\u0250" for word in words) >= len(words)


def counts_of(words: Iterable[str]) -> Counter[str]:
    """Counts the stop words of each language among the words."""
    known = languages_by_word()
    return Counter(language for word in words for language in known.get(word, ()))


def other_language(text: str, expected: Collection[str]) -> str | None:
    """Returns the language of a text that is clearly in none of the expected languages, else None.

    A text is clearly in another language if stop words of that language, which no expected one has, make up a fifth of
    its first words and at least three, and are more than twice as many as stop words of the expected ones. Short texts,
    names, numbers and mixtures are not judged.
    """
    if not set(expected) & set(LANGUAGES):
        return None
    words = words_of(text)
    if len(words) < _MIN_WORDS:
        return None
    if not is_latin(words):
        return OTHER_SCRIPT
    known = _stop_words_of(tuple(expected))
    foreign = [word for word in words if word not in known]
    counts = counts_of(foreign)
    likeliest, number = max(counts.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    is_plain = number >= max(_MIN_STOP_WORDS, _MIN_SHARE * len(words)) and number > 2 * (len(words) - len(foreign))
    return likeliest if is_plain else None


def language_of(text: str) -> str | None:
    """Returns the result of `other_language`, or English if a tenth are its stop words, else None."""
    other = other_language(text, ("en",))
    words = words_of(text)
    is_english = len(words) >= _MIN_WORDS and counts_of(words)["en"] >= _MIN_SHARE / 2 * len(words)
    return other or ("en" if is_english else None)


def has_grammar(texts: Iterable[str]) -> bool:
    """Checks if texts are sentences of some language, and not names, addresses or codes."""
    words = [word for text in islice(texts, _MAX_WORDS) for word in words_of(text, 50)]
    if not words:
        return False
    counts = counts_of(words)
    return not is_latin(words) or max(counts.values(), default=0) >= _GRAMMAR_SHARE * len(words)
