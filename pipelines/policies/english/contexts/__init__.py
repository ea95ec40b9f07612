"""Scores words of plain written English by how likely they are part of a secret: a linear model of words in context.

The features of a word are the word, its class (its list and its ending), and two or three words or classes on either
side. Weights are integers in a hashed table, so that scores are the same on every machine.
``benchmarks/calibrated_policy.py`` makes the lists and weights from public labelled text and WordNet, and from no
user's corpus. ``NOTICE.txt`` has the attribution.
"""

from __future__ import annotations

import functools
import tomllib
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Final, NamedTuple

import numpy as np

from pipelines.policies.english.common_words import (
    AMBIGUOUS_WORDS,
    COMMON_WORDS,
    COURTESY_WORDS,
    FUNCTION_WORDS,
    NOUNS,
    NUMBER_WORDS,
    VERB_FORMS,
)
from pipelines.policies.english.everyday_use import SUSPECTS

NUM_BUCKETS: Final = 1 << 20
UNITS_PER_NAT: Final = 16
"""The unit of weights and scores: one sixteenth of a nat of log odds."""

UNKNOWN: Final = "<u>"
_BEFORE, _BEHIND = "<s>", "</s>"
_ENDINGS: Final = (
    *("ing", "ed", "ly", "ion", "ity", "al", "ous", "ive", "ic", "ment", "ness", "able", "ful", "less", "est", "er"),
    *("or", "ary", "ant", "ent", "ies", "ions", "s"),
)


def _lists() -> Mapping[str, frozenset[str]]:
    text = resources.files(__package__).joinpath("words.toml").read_text("utf-8")
    return {name: frozenset(words.split()) for name, words in tomllib.loads(text).items()}


_TABLE: Final = _lists()
LISTS: Final = {name: words for name, words in _TABLE.items() if name not in ("phrases", "premises")}
"""Lower-case words of WikiText-2 or GPT-2's vocabulary, by how often WikiText-2 capitalises them inside a sentence
(``rank_0`` almost never, ``rank_4`` up to three times in five; ``rare``: too rare there to decide). ``chat`` has
spellings of chats. ``surnames`` has words that are also names, of families or in WordNet."""

PHRASES: Final = frozenset(tuple(phrase.split("_")) for phrase in _TABLE["phrases"])
"""Illnesses, crimes and names that consist of known words ("slipped disc", "salt lake city")."""

PREMISES: Final = _TABLE["premises"]
"""Known words for a building or a business, which may end its name ("sunny days nursery")."""

LONGEST_PHRASE: Final = max(map(len, PHRASES))

_LISTED: Final = {word: name for name, words in LISTS.items() for word in words}
KNOWN: Final = COMMON_WORDS | NUMBER_WORDS | {"u"} | frozenset(_LISTED)
"""Words that the model knows. All other words share one feature."""


class Words(NamedTuple):
    """The words of a sentence, as the model reads them.

    Attributes:
        words: words in lower case.
        begins: flag of each word that it is the first, or that a mark separates it from the word before.
        notes: labels that rules give to each word.
        is_bare: flag that there is no function word and no courtesy word among them.
    """

    words: Sequence[str]
    begins: Sequence[bool]
    notes: Sequence[Collection[str]]
    is_bare: bool


@functools.cache
def _classes(word: str) -> tuple[str, str]:
    """Returns the class of a word as a neighbour and as the scored word.

    As neighbours, function words, courtesy words and numbers are their own class.
    """
    for name, words in (("F", FUNCTION_WORDS), ("C", COURTESY_WORDS), ("D", NUMBER_WORDS)):
        if word in words:
            return word, name
    if word in AMBIGUOUS_WORDS or word in SUSPECTS:
        name = "ambiguous"
    elif word in COMMON_WORDS:
        name = "verb" if word in VERB_FORMS else "noun" if word in NOUNS else "other"
    else:
        name = _LISTED.get(word, "unknown")
    ending = next((e for e in _ENDINGS if word.endswith(e) and len(word) > len(e) + 2), "")
    return f"{name.partition('_')[0]}.{ending}", f"{name}.{ending}"


def features(seen: Words) -> Iterator[list[int]]:
    """Yields the buckets of each word's features, without repeats."""
    words = [word if word in KNOWN else UNKNOWN for word in seen.words]
    classes = [_classes(word) for word in seen.words]
    last = len(words) - 1

    def word_at(i: int) -> str:
        return _BEFORE if i < 0 else _BEHIND if i > last else words[i]

    def class_at(i: int) -> str:
        return _BEFORE if i < 0 else _BEHIND if i > last else classes[i][0]

    length = str(min(len(words), 8))
    for i, word in enumerate(words):
        mark = "|" if seen.begins[i] else ""
        mark_after = "|" if i < last and seen.begins[i + 1] else ""
        before, after, second, fourth = word_at(i - 1) + mark, word_at(i + 1), word_at(i - 2), word_at(i + 2)
        own = classes[i][1]
        a, b = class_at(i - 1) + mark, class_at(i + 1) + mark_after
        aa, bb, aaa = class_at(i - 2), class_at(i + 2), class_at(i - 3)
        named = {
            f"w {word}",
            f"p {before}",
            f"q {after}{mark_after}",
            f"pp {second}",
            f"qq {fourth}",
            f"pw {before} {word}",
            f"wq {word} {after}",
            f"ppp {second} {before}",
            f"qqq {after} {fourth}",
            f"ppw {second} {before} {word}",
            f"c {own}",
            f"ac {a} {own}",
            f"cb {own} {b}",
            f"acb {a} {own} {b}",
            f"aac {aa} {a} {own}",
            f"cbb {own} {b} {bb}",
            f"aacb {aa} {a} {own} {b}",
            f"aaac {aaa} {aa} {a} {own}",
            f"acbb {a} {own} {b} {bb}",
            f"pc {before} {own}",
            f"cq {own} {after}",
            f"ppc {second} {before} {own}",
            f"cqq {own} {after} {fourth}",
            f"end {word[-3:]}",
            f"lc {length} {own}",
            f"i {min(i, 2)} {own}",
            *(f"r {note}" for note in seen.notes[i]),
            *(f"rc {note} {own}" for note in seen.notes[i]),
        }
        if len(words) < 4:
            named.add(f"lw {length} {word}")
        if seen.is_bare:
            named |= {f"bare {length}", f"bc {own}"}
        yield sorted({zlib.crc32(name.encode()) % NUM_BUCKETS for name in named})


@functools.cache
def _weights() -> tuple[Any, int]:
    """Returns the weights, ``int64 (NUM_BUCKETS,)``, and the bias of every score."""
    with resources.files(__package__).joinpath("weights.npz").open("rb") as file, np.load(file) as stored:
        return stored["weights"].astype(np.int64), int(stored["bias"])


def scores(seen: Words) -> list[int]:
    """Returns the log odds that each word is part of a secret, in units of 1 / `UNITS_PER_NAT`."""
    weights, bias = _weights()
    return [bias + int(weights[buckets].sum()) for buckets in features(seen)]
