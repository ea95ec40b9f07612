"""Decides whether everyday words are used as such, or as the name of a person, a firm or a place.

English needs a word such as "the" or "my" before a singular count noun. A name needs none ("next turned me down", "i
bought it at target", "tell slim to wait"). The rules use closed classes of words and no model. A use that is not
certainly everyday counts as a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pipelines.policies.english.common_words import (
    AMBIGUOUS_WORDS,
    BASE_VERBS,
    COMMON_WORDS,
    COURTESY_WORDS,
    FUNCTION_WORDS,
    NOUNS,
    NUMBER_WORDS,
    VERB_FORMS,
)
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("everyday_use")

DETERMINERS: Final = _LISTS["determiners"]
_OPENING_CLAUSES: Final = _LISTS["opening_clauses"]
"""Determiners before which a name also occurs ("see what hope posted")."""

_DEGREES: Final = _LISTS["degrees"]
_PREPOSITIONS: Final = _LISTS["prepositions"]
_JOINING: Final = _LISTS["joining"]
_SUBJECTS: Final = _LISTS["subjects"]
_PRONOUNS: Final = _LISTS["pronouns"]
_OBJECTS: Final = _LISTS["objects"]
_QUESTIONS: Final = _LISTS["questions"]
_BEFORE_VERBS: Final = _LISTS["before_verbs"]
_BEING: Final = _LISTS["being"]
_IS: Final = _LISTS["is"]
_MODAL_FOLLOWERS: Final = BASE_VERBS | _LISTS["modal_followers"]
_FINITE: Final = _LISTS["finite"] | frozenset(
    form for form in VERB_FORMS if form.endswith(("ed", "s")) and form not in BASE_VERBS
)
"""Forms directly after a subject. They include plural nouns ("tests"), at the cost of a few public sentences."""

_DONE: Final = _LISTS["done"] | frozenset(form for form in VERB_FORMS if form.endswith("ed") and form not in BASE_VERBS)
"""Verb forms after which people write the determiner. They omit it in orders ("cancel order")."""

_ASKING: Final = _LISTS["asking"]
_TO_PEOPLE: Final = _LISTS["to_people"]
"""Verbs whose object is a person more often than a thing."""

_PEOPLE: Final = _LISTS["people"]
"""Words for people and greetings, before a person's name."""

_ADVERBIAL: Final = _LISTS["adverbial"]
"""Everyday words that are rarely names, and occur in nearly every position."""

_BEFORE_NAMES: Final = _LISTS["before_names"] | _TO_PEOPLE | _PEOPLE | COURTESY_WORDS
_MODAL_NAMES: Final = frozenset({"will", "may"})
_FIRMS_AND_PLACES: Final = _LISTS["firms_and_places"]
SUSPECTS: Final = (AMBIGUOUS_WORDS | _FIRMS_AND_PLACES) - _MODAL_NAMES - _ADVERBIAL
"""Everyday words that are also names. They count as names unless their neighbours show everyday use."""

_CONTENT: Final = COMMON_WORDS - FUNCTION_WORDS - COURTESY_WORDS - NUMBER_WORDS
_NEEDS_DETERMINER: Final = _CONTENT - _LISTS["needs_determiner"]
"""Words that follow a preposition only with a determiner, unless they are names."""

_IDIOMS: Final = frozenset(
    {"for free", "for new", "for real", "at last", "by far", "so far", "in general", "of late", "in full", "at large"}
)

_PLURAL_NOUNS: Final = frozenset(noun for noun in NOUNS if noun.endswith("s") and noun[:-1] in NOUNS) - SUSPECTS
_VERBAL: Final = VERB_FORMS | {"hope", "love", "cross"}
_COUNTED: Final = (_NEEDS_DETERMINER & NOUNS) - _PLURAL_NOUNS
"""Nouns that need "the", "my" or a similar word before them."""

_LICENSING_NOUNS: Final = _CONTENT - VERB_FORMS - SUSPECTS - _PEOPLE
_BARE: Final = _CONTENT - _FINITE
_WAYS: Final = _LISTS["ways"]
"""Last words in names of places, if no determiner is before them. "Day" does the same in names of feasts."""

_LOOKED_AT: Final = _CONTENT | SUSPECTS | _MODAL_NAMES
_ENDS_PART: Final = _JOINING | _PREPOSITIONS | {""}
_GOES_ON: Final = _ENDS_PART | _SUBJECTS


def name_like(words: Sequence[str], begins: Sequence[bool]) -> list[int]:
    """Returns the positions of everyday words that are used like names.

    Args:
        words: words of one sentence, in lower case.
        begins: flag of each word that it begins a sentence or a part of a sentence.
    """
    positions: list[int] = []
    last = len(words) - 1
    for i, word in enumerate(words):
        if word not in _LOOKED_AT:
            continue
        before = "" if begins[i] else words[i - 1]
        after = words[i + 1] if i < last and not begins[i + 1] else ""
        opens = not before or before in _JOINING
        # "did hope get home": the subject follows the verb of a question
        is_asked = before in _ASKING and (begins[i - 1] or words[i - 2] in _QUESTIONS)
        if word in _MODAL_NAMES:
            is_name = not _is_modal(before, after)
        elif word in SUSPECTS:
            is_name = is_asked or not _is_everyday(word, before, after)
        elif word in _ADVERBIAL:
            is_name = not _is_adverb(before, after)
        elif before in _PREPOSITIONS:
            is_name = word in _NEEDS_DETERMINER and not _is_object(word, before)
        elif before in _TO_PEOPLE:
            is_name = word not in _PLURAL_NOUNS and (word in NOUNS or word not in VERB_FORMS) and after in _GOES_ON
        else:
            is_name = word in _COUNTED and (is_asked or (before in _DONE and after in _ENDS_PART))
        is_place = (word == "day" and before in NOUNS) or (word in _WAYS and before in _CONTENT)
        if is_name or is_place or (opens and _is_bare_subject(words, begins, i)):
            positions.append(i)
    return positions


def _is_modal(before: str, after: str) -> bool:
    """Returns true if "will" or "may" is a verb: before another verb, or inverted in a question."""
    if after in _MODAL_FOLLOWERS:
        return before not in _PREPOSITIONS
    if after in _SUBJECTS:
        return not before or before in _QUESTIONS
    return not after and before in _PRONOUNS


def _is_adverb(before: str, after: str) -> bool:
    """Returns true if a word such as "long" or "best" is not in the position of a name."""
    if before in _DEGREES or before in DETERMINERS - _OPENING_CLAUSES:
        return True
    begins_alone = not before and (not after or after.endswith("ing"))
    return not (begins_alone or before in _BEFORE_NAMES or after in SUSPECTS or after in _FINITE)


def _is_everyday(word: str, before: str, after: str) -> bool:
    """Returns true if the neighbours of a word that is also a name show everyday use."""
    if not before:  # an order or a wish: "hope you", "block the card"
        return after in _SUBJECTS or after in _OBJECTS or after in {"if", "to"}
    if before in DETERMINERS:
        return before not in _OPENING_CLAUSES or after not in _FINITE
    if before in _DEGREES or before in _LICENSING_NOUNS:
        return True
    if word in _VERBAL and before in _BEFORE_VERBS:
        return True
    if word in AMBIGUOUS_WORDS:
        return word not in NOUNS and before in _BEING
    if before == "to":
        return word in BASE_VERBS
    return word not in NOUNS and (before in _BEING or before in _IS)


def _is_object(word: str, before: str) -> bool:
    """Returns true if grammar allows a bare word after a preposition: "to know", "by paying", "with bags"."""
    if before == "to":
        return word in VERB_FORMS
    return word in _PLURAL_NOUNS or word.endswith(("ing", "ly")) or f"{before} {word}" in _IDIOMS


def _is_bare_subject(words: Sequence[str], begins: Sequence[bool], at: int) -> bool:
    """Returns true if one to three words that need a determiner are the subject of the verb after them."""
    end = at
    while end < len(words) and end < at + 3 and words[end] in _BARE and (end == at or not begins[end]):
        end += 1
    return at < end < len(words) and not begins[end] and words[end] in _FINITE
