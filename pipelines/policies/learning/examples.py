"""Texts with labelled spans, from CoNLL files and from tables, and copies of them with noise."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.corpus.split import Splitter
from pipelines.errors import InputError
from pipelines.policies.detectors.keywords import label_of
from pipelines.policies.detectors.token_labels import USUAL, strip_prefix
from pipelines.policies.options import LABEL_PATTERN, OUTSIDE
from pipelines.policies.protocol import Sentence

Spans = tuple[tuple[int, int, str], ...]
"""Half-open runs of characters and their label, sorted, not overlapping."""

_NO_SPACE_AFTER: Final = frozenset("@#")
_MAX_CHARACTERS: Final = 10_000


@dataclass(frozen=True)
class Example:
    """A text and its sensitive spans."""

    text: str
    spans: Spans


def make_example(text: str, spans: Iterable[tuple[int, int, str]]) -> Example:
    """Returns an example with labels as policies write them. Of overlapping spans, it keeps the first and longer one.

    Raises:
        InputError: a label has no usable name.
    """
    kept: list[tuple[int, int, str]] = []
    for start, end, label in sorted(spans, key=lambda span: (span[0], -span[1], span[2])):
        name = USUAL.get(label_of(label), label_of(label))
        if LABEL_PATTERN.fullmatch(name) is None:
            raise InputError("a label has no letter to name it by; labels must be like PERSON")
        if start < end and (not kept or start >= kept[-1][1]):
            kept.append((start, end, name))
    return Example(text, tuple(kept))


def sentences_of(examples: Iterable[Example], language: str = "en") -> Iterator[tuple[Sentence, Spans]]:
    """Yields examples as policies see text: with tokens, and the spans ``(start_token, end_token, label)``."""
    splitter = Splitter(language=language)
    for example in examples:
        sentence = Sentence(example.text, *splitter.tokens(example.text))
        spans = ((sentence.widen(start, end), label) for start, end, label in example.spans)
        kept: list[tuple[int, int, str]] = []
        for tokens, label in spans:
            if tokens is not None and (not kept or tokens[0] >= kept[-1][1]):
                kept.append((*tokens, label))
        yield sentence, tuple(kept)


def read_conll(lines: Iterable[str], source: str) -> Iterator[Example]:
    """Yields the examples of a CoNLL file.

    A line holds a token and, last, its tag. An empty line separates texts. Spaces join the tokens, except that ``@``
    and ``#`` are joined directly to the next word.

    Raises:
        InputError: a line has no tag.
    """
    words: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r\n")
        if line.startswith("-DOCSTART-"):
            continue
        if line.strip():
            token, separator, tag = line.rpartition("\t") if "\t" in line else line.rpartition(" ")
            if not separator or not tag.strip():
                raise InputError(f"{source}, line {number}: a token and its tag, separated by a tab or a space")
            words += [(word, tag.strip()) for word in token.split()[:1]]  # a token of white space is none
        elif words:
            yield _joined(words)
            words = []
    if words:
        yield _joined(words)


def _joined(words: Sequence[tuple[str, str]]) -> Example:
    text = ""
    spans: list[tuple[int, int, str]] = []
    before = ""
    for word, tag in words:
        text += " " if text and before not in _NO_SPACE_AFTER else ""
        label = strip_prefix(tag)
        if label != OUTSIDE:
            continues = spans and spans[-1][2] == label and (tag[:2] in ("I-", "L-", "E-", "M-") or before == "@")
            start = spans.pop()[0] if continues else len(text)
            spans.append((start, len(text) + len(word), label))
        text, before = text + word, word
    return make_example(text, spans)


Noise = Callable[[random.Random, str], str]


def add_noise(example: Example, rng: random.Random, names: Callable[[random.Random], str] | None = None) -> Example:
    """Returns the example with one kind of noise, or none, and with other names in place of some persons.

    Args:
        example: original example, which stays unchanged.
        rng: generator of all choices.
        names: function that draws a person's name. None keeps the names.
    """
    noise = rng.choice(NOISES)
    text, spans, at = "", [], 0
    for start, end, label in example.spans:
        text += noise(rng, example.text[at:start])
        value = example.text[start:end]
        if names is not None and label == "PERSON" and rng.random() < 0.4 and not value.startswith("@"):
            value = names(rng)
        value = noise(rng, value).strip() or value
        spans.append((len(text), len(text) + len(value), label))
        text, at = text + value, end
    return Example(text + noise(rng, example.text[at:]), tuple(spans))


def _typos(rng: random.Random, text: str) -> str:
    def change(letter: re.Match[str]) -> str:
        kind = rng.random()
        return letter[0] if kind > 0.04 else "" if kind < 0.015 else letter[0] * 2

    return re.sub(r"(?<=[A-Za-z])[a-z]", change, text)


def _hashtags(rng: random.Random, text: str) -> str:
    return re.sub(r"(?<![\w@#])[A-Za-z]{4,}", lambda word: "#" * (rng.random() < 0.1) + word[0], text)


NOISES: Final[tuple[Noise, ...]] = (
    *[lambda _, text: text] * 2,
    *[lambda _, text: text.lower()] * 2,
    lambda _, text: text.upper(),
    lambda _, text: re.sub(r"(?<=\w)['’](?=\w)", "", text),  # no apostrophes
    _typos,
    _hashtags,
)


def check_examples(examples: Sequence[Example], least: int) -> list[Example]:
    """Returns the examples that are neither empty nor very long.

    Raises:
        InputError: there are too few such examples, or none has a span.
    """
    kept = [e for e in examples if e.text.strip() and len(e.text) <= _MAX_CHARACTERS]
    if len(kept) < least:
        raise InputError(f"training a detector needs at least {least} texts; there are {len(kept)}")
    if not any(example.spans for example in kept):
        raise InputError("no text has a labelled span, so there is nothing to learn")
    return kept
