"""Finds names in scripts other than Latin, and names after words that announce one in other languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.first_pass import holds, kind, longest_runs
from pipelines.policies.english.common_words import COMMON_WORDS
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.english.world_names import world_names

_LISTS: Final = word_lists("places")


def _any(words: frozenset[str]) -> str:
    return "|".join(re.escape(word).replace("_", r"\ ") for word in sorted(words, key=len, reverse=True))


_LATIN: Final = frozenset(cue for cue in _LISTS["cues"] if ord(cue[0]) < 0x250)
_PHRASES: Final = frozenset(cue for cue in _LATIN if "_" in cue or "'" in cue or cue in ("chamo-me", "adım", "ismim"))
_CUE: Final = re.compile(
    rf"(?<!\w)(?:(?:{_any(_PHRASES)})[ ]?:?|(?:{_any(_LATIN - _PHRASES)})[ ]?:"
    rf"|(?:{_any(_LISTS['cues'] - _LATIN)})[ ]?[:：=-]?)[ ]{{1,2}}(?=\S)",
    re.I,
)
# Marks of vowels belong to a word in Indic scripts, Thai, Hebrew and Arabic.
_MARKS: Final = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0981-\u09cd\u0e31-\u0e4e\u200c"
_WORD: Final = re.compile(
    rf"[^\W\d_](?:[^\W\d_]|[{_MARKS}]){{0,40}}(?:['’.׳״-][^\W\d_](?:[^\W\d_]|[{_MARKS}]){{0,40}}){{0,3}}"
)
_CJK: Final = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_HAN_CUE: Final = re.compile(
    rf"(?:{_any(_LISTS['cues_han'])})(?:[ ]?[：:は=은는이])?[ ]?([{_CJK}]{{2,4}}|[{_CJK}]{{1,3}}[ ・·][{_CJK}]{{1,4}})"
)
_HAN_TITLE: Final = re.compile(rf"(?<!お客)([{_CJK}]{{2,4}})[ ]?(?:{_any(_LISTS['after_han'])})")
_NO_HAN: Final = ("お客", "皆", "王様", "神", "何", "奥", "客")
_MAX_WORDS: Final = 3
_STOPS: Final = _LISTS["stops"]
_SHORTEST: Final = 3
_PARTICLES: Final = frozenset({
    "da", "das", "de", "del", "della", "den", "der", "di", "do", "dos", "du", "la", "le", "ten", "ter", "van", "von",
    "y", "zu",
})  # fmt: skip


_OTHER: Final = r"\u0370-\u1cff\u3040-\ua4ff\ua840-\uab2f\uabc0-\ufaff\ufb1d-\ufeff"
_OTHER_LETTER: Final = rf"(?:[^\W\d_\x00-\u024f]|[{_MARKS}])"
_OTHER_WORD: Final = rf"(?=[{_OTHER}])[^\W\d_]{_OTHER_LETTER}{{0,30}}(?:['’-]{_OTHER_LETTER}{{1,30}})?"
_IN_ENGLISH: Final = re.compile(
    rf"(?<![\w\"'“‘«`{_MARKS}])({_OTHER_WORD}(?:[ ・·]{_OTHER_WORD}){{0,2}})"
    rf"(?![\w\"”»`{_MARKS}])(?![ ]{_OTHER_WORD})"
)
"""Up to three words in another script, without quotes around them."""

_ENGLISH_LETTER: Final = re.compile("[A-Za-z]")
_LETTER: Final = re.compile(rf"[{_OTHER}]")
_OF_LANGUAGE: Final = frozenset(
    {"mean", "means", "meaning", "word", "words", "translate", "translated", "translates", "translation", "pronounced"}
    | {"character", "characters", "letter", "letters", "kanji", "unicode", "suffix", "prefix", "phrase", "spelling"}
    | {"verb", "noun", "grammar", "button", "label", "menu", "tab", "icon", "tooltip", "string", "locale", "click"}
)
"""Words that tell of a language or a screen. Words in another script beside them name nobody."""

_REMARK_BEFORE: Final = re.compile(r"(?://|/\*|<!--|#[ ])[^\n]{0,200}\Z")
_NEAR: Final = 200

_CUE_WORD: Final = kind(longest_runs(frozenset(cue.replace("_", " ") for cue in _LISTS["cues"])))


def find_names_in_scripts(text: str) -> Iterator[Find]:
    """Yields names after cues of other languages, and listed names in other scripts."""
    for cue in _CUE.finditer(text) if holds(text, _CUE_WORD) else ():
        end = _end_of_name(text, cue.end())
        if end is not None:
            yield cue.end(), end, "PERSON"
    if text.isascii():
        return
    yield from _in_english(text)
    for match in _HAN_CUE.finditer(text):
        yield *match.span(1), "PERSON"
    for match in _HAN_TITLE.finditer(text):
        if not match[1].startswith(_NO_HAN):
            yield *match.span(1), "PERSON"
    yield from _listed(text)


def _in_english(text: str) -> Iterator[Find]:
    """Yields words in another script in a row that is mostly in English. They are nearly always a name."""
    num_other = len(_LETTER.findall(text))
    if not num_other or len(_ENGLISH_LETTER.findall(text)) < num_other:
        return
    if not _OF_LANGUAGE.isdisjoint(re.findall("[a-z]+", text.lower())):
        return
    for match in _IN_ENGLISH.finditer(text):
        is_remark = _REMARK_BEFORE.search(text, max(0, match.start() - _NEAR), match.start()) is not None
        if len(match[1]) > 1 and not is_remark:
            yield *match.span(1), "PERSON"


def _end_of_name(text: str, start: int) -> int | None:
    """Returns the end of an announced name: capitals, or in a script without capitals two words, or listed ones."""
    end = None
    at = start
    for number in range(_MAX_WORDS):
        word = _WORD.match(text, at)
        if word is None or word[0].lower() in _STOPS:
            break
        if is_cased(word[0]):
            lower = word[0].lower()
            if number and lower in _PARTICLES and (after := _after_particle(text, word.end())) is not None:
                return after
            is_alone = number == 0 and lower not in COMMON_WORDS and lower in world_names()
            if not word[0][0].isupper() and not is_alone:
                break
        elif number and word[0] not in world_names() and (number > 1 or word[0].startswith(("ו", "و"))):
            break
        end = word.end()
        if text[end : end + 1] != " ":
            break
        at = end + 1
    return end


def _after_particle(text: str, at: int) -> int | None:
    """Returns the end of a family name after "de", "van" and the like; None if no name follows."""
    for _ in range(2):
        word = _WORD.match(text, at + 1) if text[at : at + 1] == " " else None
        if word is None or word[0].lower() not in _PARTICLES:
            break
        at = word.end()
    is_name = word is not None and (word[0][0].isupper() or word[0].lower() in world_names())
    return word.end() if word is not None and is_name else None


def is_cased(word: str) -> bool:
    """Returns true if a word is of a script with capitals."""
    return word[0].lower() != word[0].upper()


def _is_other(word: str) -> bool:
    """Returns true for a word of another script than Latin."""
    return ord(word[0]) >= 0x250 and not unicodedata.name(word[0], "").startswith("LATIN")


def _listed(text: str) -> Iterator[Find]:
    """Yields listed names with a capital, and two and more listed names in a row."""
    run: list[re.Match[str]] = []
    for word in [*_WORD.finditer(text), None]:
        is_next = word is not None and run and text[run[-1].end() : word.start()] == " "
        if run and not is_next:
            if len(run) > 1 or (run[0][0][0].isupper() and run[0][0].lower() in world_names()):
                yield run[0].start(), run[-1].end(), "PERSON"
            run = []
        if word is None or not _is_other(word[0]):
            continue
        is_name = len(word[0]) >= _SHORTEST - (not is_cased(word[0])) and word[0].lower() in world_names()
        if is_name and (not is_cased(word[0]) or word[0][0].isupper()):
            run.append(word)
        elif run and is_cased(word[0]) and word[0][0].isupper():
            run.append(word)  # a family name of no list
        elif run:
            if len(run) > 1 or is_cased(run[0][0]):
                yield run[0].start(), run[-1].end(), "PERSON"
            run = []
