"""Strings that are everyday English and hold no name, by lists of words alone.

Entity models take "email address", "good bye" or "isn't" for a person now and then. Such a string is no secret wherever
it stands, so it is not searched for. No model is asked: the answer is the same for a string in every corpus.

A password may be made of such words. Under a label of credentials a string is searched for, whatever its words, if two
of them or more say something; a single one, or one among words of grammar ("it is blue"), stands in too many sentences.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final

from pipelines.gate.strings import words_of
from pipelines.policies.english.common_words import (
    AMBIGUOUS_WORDS,
    COMMON_WORDS,
    COURTESY_WORDS,
    FUNCTION_WORDS,
    NUMBER_WORDS,
)
from pipelines.policies.english.name_lists import personal_names
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.labels import COMMON, CREDENTIAL

_DICTATED: Final = frozenset({"dash", "dot", "hyphen", "underscore"})
"""Words by which a code or an address is dictated ("blue dot sky")."""

_SELDOM_NAMES: Final = frozenset(
    {
        *(
            "age",
            "basic",
            "brand",
            "car",
            "company",
            "date",
            "day",
            "edit",
            "floor",
            "foot",
            "job",
            "lie",
            "line",
            "lot",
        ),
        *("low", "lower", "pages", "parent", "read", "reader", "real", "room", "said", "sales", "side", "street"),
        *("topic", "tours", "water", "way", "weeks"),
    }
)
"""Everyday words that lists of names hold for other countries, or for a few people. Beside other everyday words they
are taken for what they say ("good day", "street address")."""


_OF_CUSTOMERS: Final = frozenset(
    {
        *("alert", "assignment", "auto", "bank", "banking", "billing", "birth", "carry", "dear", "drop", "economy"),
        *("expiration", "expiry", "flyer", "fraud", "fries", "identity", "loyalty", "madam", "maiden", "overdraft"),
        *("pepperoni", "pizza", "promo", "routing", "score", "serial", "sim", "sir", "tech", "theft", "transit"),
        *("valued", "wire"),
    }
)
"""What customers and agents talk about, beside `COMMON_WORDS`. No list of names holds one. They count here alone: no
policy takes a sentence for public because of them."""

_CREDENTIALS: Final = frozenset({CREDENTIAL, *(label for label, kind in COMMON.items() if kind == CREDENTIAL)})


def _normal_forms(words: Iterable[str]) -> frozenset[tuple[str, ...]]:
    written = (form for word in words for form in (word, word.replace("'", " ' ")))  # "isn't", and cut in two
    return frozenset(found for form in written if (found := tuple(words_of(form))))


_SINGLE: Final = _normal_forms(COMMON_WORDS | NUMBER_WORDS | word_lists("common_words")["choices"] | _OF_CUSTOMERS)
_EVERYDAY: Final = _SINGLE - _normal_forms(_DICTATED)
_LONGEST: Final = max(map(len, _EVERYDAY))
_NUMBERS: Final = _normal_forms(NUMBER_WORDS)
_GRAMMAR: Final = frozenset(word for form in _normal_forms(FUNCTION_WORDS | COURTESY_WORDS) for word in form)


@functools.cache
def name_words() -> frozenset[str]:
    """Words that may be a name, in the form in which text is compared.

    Words of grammar and of courtesy never count, although lists of names hold "the", "my" and "good"; nor do a few
    everyday words that were looked at one by one.
    """
    listed = {word for name in personal_names() for word in words_of(name) if len(word) > 1}
    return frozenset(listed | AMBIGUOUS_WORDS) - _GRAMMAR - _SELDOM_NAMES


def is_everyday(words: Sequence[str], label: str = "") -> bool:
    """Tells if a string is an everyday word, or several, none of them a name and at most one a number word.

    A single word may be one that is also a name: "hope" is a name in one sentence and none in the next.

    Args:
        words: words of the string, as `pipelines.gate.strings.words_of` gives them without case.
        label: label under which the string was masked; several are joined by ``+``.
    """
    if tuple(words) in _SINGLE:
        return True
    if not _CREDENTIALS.isdisjoint(label.split("+")) and sum(word not in _GRAMMAR for word in words) > 1:
        return False
    if not name_words().isdisjoint(words):
        return False
    fewest: list[int | None] = [0]  # number words in the first so many words, read as everyday words
    for end in range(1, len(words) + 1):
        found = []
        for start in range(max(0, end - _LONGEST), end):
            before, form = fewest[start], tuple(words[start:end])
            if before is not None and form in _EVERYDAY:
                found.append(before + (form in _NUMBERS))
        fewest.append(min(found, default=None))
    num_numbers = fewest[-1]
    return num_numbers is not None and num_numbers <= 1
