"""Tests of words by WordNet 3.0: plain English, sensitive, or the name of one thing.

Reads the files ``data.*``, ``index.*`` and ``*.exc`` of a folder, as Princeton and Debian's package ``wordnet-base``
give them. Fellbaum, *WordNet: An Electronic Lexical Database*, MIT Press 1998; the format is wndb(5WN).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

Key = tuple[str, int]
"""Part of speech (n, v, a, r) and offset of a synset."""

_FILES: Final = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_BODY: Final = 8
"""Number of the lexicographer's file "noun.body"."""

_PERSON: Final = 18
_COMMUNICATION: Final = 10
"""Numbers of "noun.person" and "noun.communication"."""

_OWNED: Final = frozenset({6, 14, 15, 17, _PERSON, 21})
"""Numbers of nouns of artefacts, groups, locations, objects, persons and possessions, which may be somebody's."""

_INSULT: Final = re.compile(r"\b(?:slur|offensive|obscene|vulgar|disparaging|derogatory)\b")

SENSITIVE: Final = {
    "illness": "impairment of normal physiological function",
    "pathology": "any deviation from a healthy",
    "symptom": "(medicine) any sensation or change in bodily function",
    "injury": "any physical damage to the body",
    "disorder": "a physical condition in which",
    "disability": "the condition of being unable to perform",
    "addiction": "being abnormally tolerant to",
    "pregnancy": "the state of being pregnant",
    "patient": "a person who requires medical care",
    "surgery": "a medical procedure involving an incision",
    "drug": "a substance that is used as a medicine or narcotic",
    "sexual_activity": "activities associated with sexual",
    "religion": "a strong belief in a supernatural",
    "church": "one of the groups of Christians",
    "crime": "(criminal law) an act punishable by law",
    "assault": "a threatened or attempted physical attack",
    "criminal": "someone who has committed a crime",
    "imprisonment": "the act of confining someone in a prison",
}
"""Nouns with the beginning of the gloss of a meaning; this meaning and all meanings below it are sensitive."""

PREMISES: Final = {
    "building": "a structure that has a roof and walls",
    "establishment": "a public or private structure",
    "school": "an educational institution;",
    "company": "an institution created to conduct business",
}
"""Nouns, likewise, that may end the name of a firm or a house."""

_ENDINGS: Final = (
    *(("n", "s", ""), ("n", "ses", "s"), ("n", "xes", "x"), ("n", "zes", "z"), ("n", "ches", "ch")),
    *(("n", "shes", "sh"), ("n", "men", "man"), ("n", "ies", "y"), ("v", "s", ""), ("v", "ies", "y")),
    *(("v", "es", "e"), ("v", "es", ""), ("v", "ed", "e"), ("v", "ed", ""), ("v", "ing", "e"), ("v", "ing", "")),
    *(("a", "er", ""), ("a", "est", ""), ("a", "er", "e"), ("a", "est", "e")),
)
"""Endings that morphy(7WN) detaches, and their replacements."""


MEDICAL: Final = {
    "illness": SENSITIVE["illness"],
    "pathology": SENSITIVE["pathology"],
    "symptom": SENSITIVE["symptom"],
    "injury": SENSITIVE["injury"],
    "drug": SENSITIVE["drug"],
    "medical_procedure": "a procedure employed by medical",
    "medical_science": "the science of dealing with the maintenance of health",
    "body_part": "any part of an organism",
    "bacteria": "(microbiology) single-celled",
}
"""Nouns of medicine, and the beginnings of their glosses."""


class Synset(NamedTuple):
    """A meaning: its words as they are written, the number of its file, its pointers, and the gloss."""

    words: list[str]
    file: int
    pointers: list[tuple[str, Key]]
    gloss: str


class WordNet:
    """A folder of the database."""

    def __init__(self, folder: Path) -> None:
        self._synsets: dict[Key, Synset] = {}
        self._meanings: dict[tuple[str, str], list[Key]] = {}
        self._bases: dict[str, set[tuple[str, str]]] = defaultdict(set)
        below: dict[Key, list[Key]] = defaultdict(list)
        for part, name in _FILES.items():
            for line in _lines(folder / f"data.{name}"):
                head, _, gloss = line.partition(" | ")
                columns = head.split()
                num_words = int(columns[3], 16)
                words = [re.sub(r"\(.*\)", "", word) for word in columns[4 : 4 + 2 * num_words : 2]]
                at = 5 + 2 * num_words
                fields = [columns[i : i + 3] for i in range(at, at + 4 * int(columns[at - 1]), 4)]
                pointers = [(symbol, (to.replace("s", "a"), int(offset))) for symbol, offset, to in fields]
                self._synsets[part, int(columns[0])] = Synset(words, int(columns[1]), pointers, gloss)
            for line in _lines(folder / f"index.{name}"):
                columns = line.split()
                self._meanings[part, columns[0]] = [(part, int(o)) for o in columns[-int(columns[2]) :]]
            for line in _lines(folder / f"{name}.exc"):
                form, *bases = line.split()
                self._bases[form] |= {(part, base) for base in bases}
        for key, synset in self._synsets.items():
            for symbol, above in synset.pointers:
                if symbol in ("@", "@i"):
                    below[above].append(key)
        self._sensitive = self._under(SENSITIVE, below)
        self._medical = self._under(MEDICAL, below)
        self._premises = self._under(PREMISES, below)
        self._related = {word for key in self._sensitive for word in self._adjectives_of(key)}

    def _under(self, nouns: dict[str, str], below: dict[Key, list[Key]]) -> set[Key]:
        found: set[Key] = set()
        waiting = []
        for noun, gloss in nouns.items():
            roots = [k for k in self._meanings["n", noun] if self._synsets[k].gloss.startswith(gloss)]
            if len(roots) != 1:
                raise ValueError(
                    f"WordNet has {len(roots)} meanings of '{noun}' with that gloss; it is another release"
                )
            waiting += roots
        while waiting:
            key = waiting.pop()
            if key not in found:
                found.add(key)
                waiting += below[key]
        return found

    def _adjectives_of(self, key: Key) -> Iterator[str]:
        """Yields adjectives that are made of the nouns of a meaning ("arthritic")."""
        stems = {word[:4] for word in self._synsets[key].words}
        for symbol, other in self._synsets[key].pointers:
            if symbol == "+" and other[0] == "a":
                yield from (word for word in self._synsets[other].words if word[:4] in stems)

    def _base_forms(self, word: str) -> set[tuple[str, str]]:
        found = {(part, word) for part in _FILES} | self._bases.get(word, set())
        for part, ending, put in _ENDINGS:
            if word.endswith(ending) and len(word) > len(ending) + 1:
                found.add((part, word[: -len(ending)] + put))
        return {form for form in found if form in self._meanings}

    def is_plain(self, word: str) -> bool:
        """Tells if a word, or the word that it is a form of, is listed in small letters."""
        return any(
            form[1] in self._synsets[key].words for form in self._base_forms(word) for key in self._meanings[form]
        )

    def is_sensitive(self, word: str, *, meanings: int) -> bool:
        """Tells if one of so many first meanings of a word or of its base forms is sensitive."""
        forms = self._base_forms(word)
        return any(base in self._related for _, base in forms) or any(
            key in self._sensitive for form in forms for key in self._meanings[form][:meanings]
        )

    def is_premises(self, word: str, *, meanings: int) -> bool:
        """Tells if one of so many first meanings of a singular noun is a building or a business."""
        return any(key in self._premises for key in self._meanings.get(("n", word), [])[:meanings])

    def is_delicate(self, word: str) -> bool:
        """Tells if any meaning of a word is sensitive, a part of a body or pertains to one, or is an insult."""
        meanings = {key for form in self._base_forms(word) for key in self._meanings[form]}
        meanings |= {to for key in meanings for symbol, to in self._synsets[key].pointers if symbol == "\\"}
        return self.is_sensitive(word, meanings=len(meanings)) or any(
            self._synsets[key].file == _BODY or key in self._sensitive or _INSULT.search(self._synsets[key].gloss)
            for key in meanings
        )

    def names(self) -> set[str]:
        """Returns names of persons, places and single things, in small letters, with "_" between words."""
        return {
            word.lower()
            for synset in self._synsets.values()
            if any(symbol == "@i" for symbol, _ in synset.pointers)
            for word in synset.words
        }

    def medical(self) -> set[str]:
        """Returns single words of medicine."""
        return {word for key in self._medical for word in self._synsets[key].words if "_" not in word}

    def persons(self) -> set[str]:
        """Returns names of single persons, in small letters, with "_" between words."""
        return {
            word.lower()
            for synset in self._synsets.values()
            if synset.file == _PERSON and any(symbol == "@i" for symbol, _ in synset.pointers)
            for word in synset.words
        }

    def nobodys(self) -> set[str]:
        """Returns nouns with a capital that are nobody's: events, illnesses, plants, terms of a field. No works."""
        nouns: dict[bool, set[str]] = {False: set(), True: set()}
        for (part, _), synset in self._synsets.items():
            if part == "n":
                is_single = any(symbol == "@i" for symbol, _ in synset.pointers)
                is_owned = synset.file in _OWNED or (synset.file == _COMMUNICATION and is_single)
                nouns[is_owned].update(word for word in synset.words if word != word.lower())
        return nouns[False] - nouns[True]

    def sensitive_phrases(self) -> set[str]:
        """Returns sensitive nouns of several words, in small letters, with "_" between words."""
        return {word.lower() for key in self._sensitive for word in self._synsets[key].words if "_" in word}


def _lines(file: Path) -> Iterator[str]:
    """Yields the lines of a file without the licence, which is indented."""
    return (line for line in file.read_text("utf-8").splitlines() if line and not line.startswith("  "))
