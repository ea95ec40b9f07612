"""A closed list of everyday English words, written for `ConservativePolicy`.

The policy treats all other words as possible secrets. So the list omits names of people, places, firms, days and
months. It also omits words of health, faith, origin, politics, crime and sex, and number words, which the policy counts
separately. Rules make the inflected forms. A form that is not a word does no harm, because nobody writes it.
"""

from __future__ import annotations

from typing import Final

from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("common_words")


def _doubles(verb: str) -> bool:
    """Returns true if a short verb doubles its last letter: stop, stopping."""
    return 3 <= len(verb) <= 4 and verb[-1] not in "aeiouwxy" and verb[-2] in "aeiou" and verb[-3] not in "aeiou"


def _inflect_verb(verb: str) -> set[str]:
    if verb.endswith("e"):
        return {verb, verb + "s", verb + "d", verb[:-1] + "ing"}
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return {verb, verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing"}
    plural = verb + ("es" if verb.endswith(("s", "x", "z", "ch", "sh")) else "s")
    stems = {verb, verb + verb[-1]} if _doubles(verb) or verb in _LISTS["doubling"] else {verb}
    return {verb, plural} | {stem + ending for stem in stems for ending in ("ed", "ing")}


def _inflect_noun(noun: str) -> set[str]:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return {noun, noun[:-1] + "ies"}
    return {noun, noun + ("es" if noun.endswith(("s", "x", "z", "ch", "sh")) else "s")}


FUNCTION_WORDS: Final = _LISTS["function"]
"""Closed-class words. A sentence without any of them, or of the courtesy words, is no ordinary sentence."""

COURTESY_WORDS: Final = _LISTS["courtesy"]
"""Greetings, thanks, assent. They can form an ordinary sentence alone."""

NUMBER_WORDS: Final = _LISTS["numbers"]
"""Number words, and words for dictating a number. A single one is harmless, and a row of them is a number."""

SMALL_NUMBERS: Final = _LISTS["small_numbers"]
"""Number words that are harmless alone."""

UNITS: Final = _LISTS["units"]
"""Words that turn any number into a count, a duration or an age."""

AMBIGUOUS_WORDS: Final = _LISTS["ambiguous"]
"""Everyday words that are also names."""

BASE_VERBS: Final = _LISTS["verbs"]
"""Regular verbs in the infinitive."""

VERB_FORMS: Final = frozenset(form for verb in BASE_VERBS for form in _inflect_verb(verb)) | _LISTS["irregular"]
"""Every form of a verb, and a few irregular nouns."""

PARTICIPLES: Final = frozenset(
    form for form in VERB_FORMS if form.endswith(("ed", "wn", "en")) and form not in BASE_VERBS
)
"""Regular past forms of verbs, and participles such as "shown" and "given"."""

NOUNS: Final = frozenset(form for noun in _LISTS["nouns"] for form in _inflect_noun(noun))
"""Nouns in singular and plural."""

COMMON_WORDS: Final = (
    (FUNCTION_WORDS | COURTESY_WORDS | AMBIGUOUS_WORDS | VERB_FORMS | _LISTS["other"] | NOUNS)
    - _LISTS["names"]
    - _LISTS["choices"]
)
"""Every word of public sentences in lower case, except number words."""
