"""Words around a name that is addressed, and names that are everyday words, for the policy ``speakers``.

A nickname may be an everyday word ("Mark", "Sunny"). It is masked only if its sentence shows that it is a name.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from pipelines.corpus.languages import LANGUAGES, stop_words
from pipelines.corpus.speakers import ROLE
from pipelines.policies.english.common_words import (
    AMBIGUOUS_WORDS,
    BASE_VERBS,
    COMMON_WORDS,
    COURTESY_WORDS,
    FUNCTION_WORDS,
    NUMBER_WORDS,
    VERB_FORMS,
)
from pipelines.policies.english.contexts import LISTS
from pipelines.policies.english.word_lists import word_lists

TITLES: Final = frozenset(
    {
        *("mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "sir", "madam", "dame", "herr"),
        *("frau", "fraulein", "monsieur", "madame", "mme", "mlle", "senor", "senora"),
        *("senorita", "signor", "signora", "jr", "sr", "phd", "md", "esq"),
    }
)
"""Words of a name that are no name, without accents."""

PARTICLES: Final = frozenset(
    {
        *("van", "von", "der", "den", "del", "della", "des", "dos", "das", "las", "los", "bin", "ibn"),
        *("ben", "abu", "mac", "san", "santa", "saint", "st", "the", "and", "und"),
    }
)
"""Words inside a name that are too frequent alone."""

NAMES_THAT_ARE_WORDS: Final = frozenset(
    {
        *("mark", "grace", "rose", "joy", "frank", "rob", "sue", "jack", "pat", "drew", "ray", "gene"),
        *("carol", "robin", "dean", "crystal", "miles", "chase", "hunter", "angel", "king", "queen"),
        *("wolf", "fox", "lord", "max", "april", "june", "august", "faith", "charity", "dawn", "eve"),
        *("holly", "ivy", "jade", "lily", "olive", "pearl", "ruby", "violet", "daisy", "iris", "ginger"),
        *("amber", "autumn", "skip", "chip", "cliff", "dale", "don", "earl", "ernest", "heath", "jay"),
        *("lance", "lane", "mason", "norm", "penny", "peg", "rusty", "sandy", "sonny", "trip", "ward"),
        *("wade", "warren", "west", "chuck", "art", "bill", "will", "may", "hope", "nick", "josh"),
        *("jimmy", "duke", "prince", "baron", "bishop", "carter", "cooper", "page", "reed", "stone"),
        *("lake", "river", "rain", "skye", "sky", "storm", "star", "sunny", "lucky", "lady", "melody"),
        *("harmony", "honey", "candy", "coco", "bear", "tiger", "jolly", "buddy", "chef", "captain"),
        *("doc",),
    }
)
"""Given names, family names and nicknames that are everyday words."""

_GREETINGS: Final = (
    "hey|heya|hi|hiya|hello|hallo|hola|salut|bonjour|ciao|yo|dear|morning|evening|afternoon|night|gn|gm|welcome|wb"
    "|thanks|thank (?:you|u)|thankyou|thx|thnx|thanx|tysm|ty|cheers|danke|merci|gracias|grazie|obrigado|obrigada"
    "|sorry|congrats|congratulations|happy birthday|bye|goodbye|cya|see (?:you|ya)|later|well done|good job|nice one"
    "|love you|miss you|ask|asked|tell|told|ping|cc|dm|msg|lieber|liebe|cher|chère|querido|querida|caro|cara"
)
GREETED: Final = re.compile(
    rf"(?:^|[^\w])(?:{_GREETINGS})(?: (?:so much|very much|a lot|again|everyone|there|back))?[\s,!.~*_]*$",
    re.IGNORECASE,
)
"""The end of text before a name that is greeted, thanked or told something."""

ASKED: Final = re.compile(
    r"\s+(?:can|could|are|do|did|have|please|pls|plz|where|what|why|when|how|you|u|r|would|wake|stop|come|wait|look)\b",
    re.IGNORECASE,
)
"""Text after a name that begins a message and is asked something."""

_NEXT: Final = re.compile(r"\s+([^\W\d_]+)")
_DOING: Final = frozenset(
    {
        *("is", "was", "has", "had", "will", "would", "can", "could", "did", "does", "and", "or"),
    }
)
MONTHS: Final = frozenset(
    {
        *("april", "may", "june", "august", "summer", "autumn", "winter", "dawn"),
    }
)
OF_TIME: Final = re.compile(
    r"(?:\b(?:in|on|at|since|until|till|by|of|last|next|this|early|late|mid|every|from|to|before|after|during)|[0-9.])\s+$",
    re.IGNORECASE,
)
"""Text before a month or a season that is meant as one."""


@functools.cache
def everyday_words() -> frozenset[str]:
    """Returns English words that may be meant as words, in lower case."""
    ranked = frozenset().union(*(LISTS[name] for name in ("rank_0", "rank_1", "rank_2", "rank_3", "rank_4", "chat")))
    listed = word_lists("common_words")
    more = listed["names"] | listed["choices"] | NAMES_THAT_ARE_WORDS | PARTICLES
    return COMMON_WORDS | NUMBER_WORDS | ranked | more


@functools.cache
def rare_words() -> frozenset[str]:
    """Returns further English words, which are a part of a name as often as a word, in lower case."""
    return LISTS["rare"] | LISTS["surnames"]


@functools.cache
def grammar_words(language: str) -> frozenset[str]:
    """Returns words that are hardly ever a name, in lower case: grammar, courtesy, and stop words of a language."""
    more = stop_words(language) if language != "en" and language in LANGUAGES else frozenset[str]()
    return (FUNCTION_WORDS | COURTESY_WORDS | more) - AMBIGUOUS_WORDS


def does_something(behind: str) -> bool:
    """Returns true if text begins with a verb that may follow the name of a person."""
    match = _NEXT.match(behind)
    word = match[1].lower() if match else ""
    return word in _DOING or (word in VERB_FORMS and word not in BASE_VERBS)


def is_role(word: str) -> bool:
    """Returns true if a word is a role or a title."""
    return word in TITLES or ROLE.fullmatch(word) is not None
