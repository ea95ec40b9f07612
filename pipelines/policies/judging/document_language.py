"""Guesses the languages that a document is read in, so that no model reads text of another language unnoticed.

The rule prefers several languages to one. Masking a document whole is the safe mistake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from pipelines.corpus.languages import OTHER_SCRIPT, counts_of, is_latin, languages_by_word
from pipelines.language import MODELS
from pipelines.policies.english.common_words import COMMON_WORDS, FUNCTION_WORDS, NUMBER_WORDS

_WORD: Final = re.compile(r"(?<![^\s\"'“„«¿¡(])(?:[ldjmntsc]['’]|qu['’])?([^\W\d_]{2,})(?![^\s\"'’”“».,;:!?)])", re.I)
"""A word of running text: not a part of code, a path or an address."""

_INTRODUCED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ich heiße", "ich heisse", "mein name"), "de"),
    **dict.fromkeys(("me llamo", "mi nombre es"), "es"),
    **dict.fromkeys(("je m'appelle", "je m’appelle", "mon nom est"), "fr"),
    **dict.fromkeys(("mi chiamo", "il mio nome"), "it"),
    **dict.fromkeys(("ik heet", "mijn naam"), "nl"),
    **dict.fromkeys(("chamo-me", "me chamo", "meu nome"), "pt"),
}
"""Words before a name that tell the language of a text with too few stop words."""

_CUE: Final = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, _INTRODUCED))})(?!\w)", re.I)
_MAX_WORDS: Final = 400
_MAX_CHARACTERS: Final = 10 * _MAX_WORDS
_PARTICLES: Final = re.compile(
    r"(?<!\w)([A-ZÀ-Þ][\w'’-]{0,30}\.?) (?:(?:da|de|del|den|der|di|dos|du|la|ten|ter|van|von) ){1,3}(?=[A-ZÀ-Þ])"
)
"""Words inside names ("Mr. van der Berg"). In running text other words tell the language too."""

_MIN_WORDS: Final = 8
_FOREIGN_SHARE: Final = 0.15
_PART_SHARE: Final = 0.1
_ENGLISH_SHARE: Final = 0.35
_MANY: Final = 3
_CLEAR_LETTERS: Final = 3
_ENGLISH: Final = COMMON_WORDS | FUNCTION_WORDS | NUMBER_WORDS


class Languages(NamedTuple):
    """The languages of a text.

    Attributes:
        known: known languages that the text may be in. Empty if a part of it is plainly in another one.
        other: likeliest code of the other language, or `OTHER_SCRIPT`; None without another one.
    """

    known: tuple[str, ...]
    other: str | None = None


def languages_in(text: str, known: Sequence[str]) -> Languages:
    """Returns the languages of a text.

    Stop words decide, and for English also everyday words. A mixture has several languages. A text without any such
    word counts as in the main language if it may be English, else as in all known languages.

    Args:
        text: text to judge by its first 400 words.
        known: codes of `LANGUAGES`, the main one first.
    """
    text = _PARTICLES.sub(r"\1 ", text[:_MAX_CHARACTERS])
    given = [match[1] for match in islice(_WORD.finditer(text), _MAX_WORDS)]
    cue = _CUE.search(text)
    told = _INTRODUCED[cue[0].lower()] if cue is not None else None
    if len(given) >= _MIN_WORDS and not is_latin(given):
        return Languages((), OTHER_SCRIPT)
    words = [word.casefold() for word in given]
    of = languages_by_word()
    count = counts_of(words)
    plain = [word for word in given if word.islower()]
    is_english = sum(word in _ENGLISH for word in plain) >= _ENGLISH_SHARE * len(plain)
    is_clear = not is_english and any(
        len(word) >= _CLEAR_LETTERS and word not in _ENGLISH and any(code in MODELS for code in of.get(word, ()))
        for word in words
    )
    is_weak = not is_clear and max(counts_of({*words}).values(), default=0) < 2
    may_be_english = told is None and (is_english or is_weak or count["en"] >= max(count.values()))
    possible = [code for code in known if code != "en" or may_be_english]
    foreign = [word for word in words if not any(code in possible for code in of.get(word, ()))]
    other, number = max(counts_of(foreign).items(), key=lambda item: (item[1], item[0]), default=(None, 0))
    strange = max(counts_of({*foreign}).values(), default=0)
    if told is not None and told not in known:
        return Languages((), told)
    if strange > 1 and number >= max(_MANY, _FOREIGN_SHARE * len(words)):
        return Languages((), other)
    if len(foreign) == len(words):
        if strange >= 2 - is_clear:
            return Languages((), other)
        return Languages(tuple(known[:1] if is_english and known[0] == "en" else possible or known))
    main = told or max(possible, key=lambda code: count[code])
    others = [word for word in words if main not in of.get(word, ())]  # a word of both speaks for the main one
    among = counts_of(others)
    least = max(2, _PART_SHARE * len(words))
    return Languages(
        tuple(c for c in possible if c == main or among[c] >= least or (c == "en" and is_weak and not count["en"]))
    )
