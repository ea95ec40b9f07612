"""Plug-in policies that are not stable, and small worlds in which they make secrets unstable."""

import itertools
import random

from from_split import corpus
from support.plugins import Named

from pipelines.mask import MASK
from pipelines.policies.judging.stabilise import PLACEHOLDER
from pipelines.policies.protocol import Span
from pipelines.settings.redact import RedactConfig

TABLE = {}
"""What `Neighbours` masks: (word before, word) -> label; "*" stands for any word."""


class Neighbours(Named):
    """A plug-in that reads its neighbours: whether a word is masked depends on the one before it."""

    def find(self, sentence):
        words = ["", *sentence.tokens()]
        pairs = itertools.pairwise(words)
        return [
            Span(i, i + 1, TABLE.get(pair) or TABLE["*", pair[1]], self.name)
            for i, pair in enumerate(pairs)
            if pair in TABLE or ("*", pair[1]) in TABLE
        ]


class Together(Named):
    """A plug-in that masks the word "tail" as long as "Ann" or "Bob" can be read."""

    def find(self, sentence):
        words = sentence.tokens()
        names = {"Ann", "Bob"}
        wanted = names | ({"tail"} if names & set(words) else set())
        return [Span(i, i + 1, "NAME", self.name) for i, word in enumerate(words) if word in wanted]


class FailsOnMasks(Named):
    """A plug-in that masks "Ann", and crashes on a sentence with a mask of somebody else's."""

    def find(self, sentence):
        if MASK in sentence.text:
            raise RuntimeError("no")
        return [Span(i, i + 1, "NAME", self.name) for i, word in enumerate(sentence.tokens()) if word == "Ann"]


def plugin(kind, **more):
    """Settings with one of the plug-ins; every policy reads the original once."""
    return RedactConfig(policies=(f"{__name__}:{kind.__name__}",), stabilise=False, check_language=False, **more)


WORDS = ("Ann", "b", "Ann7x", "D4.", "tail")


def world_of(seed):
    """A few sentences with secrets, some of them a part of a token, and copies; a table of neighbours; and settings.

    Two words are masked wherever they stand, the others behind most words, but seldom behind a mask or a placeholder:
    of tables drawn at random hardly any would make a secret unstable.
    """
    rng = random.Random(seed)
    always = rng.sample(WORDS, 2)
    words = [rng.choices(WORDS, k=rng.randint(2, 4)) for _ in range(3)]
    lines = [[(word, rng.random() < (0.8 if word in always else 0.3)) for word in line] for line in words]
    if rng.random() < 0.3:
        lines[2] = lines[rng.randrange(2)]
    table = {("*", word) for word in always}
    for word in sorted({*WORDS, "D4", ".", f"{MASK}7x", "7x"}.difference(always)):
        table |= {(before, word) for before in ("", *WORDS, "D4", ".") if rng.random() < 0.8}
        table |= {(before, word) for before in (MASK, PLACEHOLDER) if rng.random() < 0.1}
    marked = [" ".join(_marked(word, rng) if is_secret else word for word, is_secret in line) for line in lines]
    return table, corpus(marked[:2], marked[2:]), rng.random() < 0.5, rng.choice(("mask_later", "mask_all"))


def _marked(word, rng):
    """The word as a secret, or the first half of one that is one token."""
    return f"[Ann]{{NAME}}{word[3:]}" if word == "Ann7x" and rng.random() < 0.7 else f"[{word}]{{NAME}}"
