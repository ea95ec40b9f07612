"""Canaries: invented secrets on which a child run trains, to test if its model reveals them.

Carlini et al. 2019 ("The Secret Sharer"), Selective DP (Shi et al. 2022, section 5.1) and Confidentially Redacted
Training (Zhao et al. 2022, section 5.1) put "My ID is 341752" into the training text 10 or 20 times. Each canary has a
random identifier that says nothing about its text. Coins, rows and scores are joined by it, never by a place in a list.

Random inclusion follows Steinke et al. 2023 ("Privacy Auditing with One (1) Training Run", Algorithm 1). Canaries of
characters that are not in the corpus follow the new-token canaries of Panda et al. 2025 ("Privacy Auditing of Large
Language Models"): an overlay changes rows, not the vocabulary, so unused characters stand for an unused token. An
ordinary beginning with an unlikely end follows Meeus et al. 2025 ("The Canary's Echo").
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any, Final, Literal

import numpy as np

from pipelines.attacks.patterns import Pattern, words_pattern
from pipelines.errors import ConfigError
from pipelines.training.data.overlay import AddedRow

Variant = Literal["detected", "missed", "public"]
_DOCUMENT: Final = "canary"

_OPENINGS: Final = (
    "For your records",
    "As I said before",
    "In answer to your question",
    "Before I forget",
    "So that you can find me",
    "Since you will need it",
    "As it says on the form",
    "To have it in writing",
    "Just to be sure",
    "Once more",
)
_OCCASIONS: Final = (
    "this morning",
    "after the call",
    "about the order",
    "about the delivery",
    "for the account",
    "for the refund",
    "from the letter",
    "with the new contract",
    "on the second try",
    "as of last week",
)


@dataclass(frozen=True, kw_only=True)
class Canary:
    """An invented secret.

    Attributes:
        id: random name, by which everything is joined.
        pattern: form of its text.
        index: number of its candidate in the form.
        num_copies: number of records that hold it.
        variant: ``detected`` if its holes are masked, as if the policies found it, ``missed`` if nothing is masked, or
            ``public`` if the conservative policy misses it too, so that its rows are public.
        is_flagged: true if the conservative policy puts its rows on the private side. Rows of detected canaries are
            there anyway, and those of public ones never.
    """

    id: str
    pattern: Pattern = field(repr=False)
    index: int = field(repr=False)
    num_copies: int
    variant: Variant
    is_flagged: bool = False

    @property
    def text(self) -> str:
        """The text of the canary. For private artifacts only."""
        return self.pattern.text(self.index)

    def document(self) -> dict[str, Any]:
        """Returns what may be shown of it, without its text."""
        return {
            "id": self.id,
            "num_candidates": self.pattern.size,
            "num_copies": self.num_copies,
            "variant": self.variant,
            "is_flagged": self.is_flagged,
        }


def draw_canaries(
    generator: np.random.Generator,
    pattern: Pattern,
    num: int,
    *,
    variant: Variant,
    num_copies: int = 1,
    is_flagged: bool = False,
    taken: Collection[int] = (),
) -> list[Canary]:
    """Draws different canaries of one form, each set of candidates equally likely.

    Raises:
        ConfigError: there are too few candidates, ``num_copies`` is below 1, or public canaries are flagged.
    """
    taken = set(taken)
    if num_copies < 1:
        raise ConfigError("a canary needs at least one copy")
    if variant == "public" and is_flagged:
        raise ConfigError("a canary that the conservative policy flags is not among the public rows")
    if num > pattern.size - len(taken):
        raise ConfigError(f"{num} different canaries were asked for, and {pattern.size - len(taken)} are left")
    canaries: list[Canary] = []
    while len(canaries) < num:
        index = pattern.draw(generator)
        if index not in taken:
            taken.add(index)
            canaries.append(
                Canary(
                    id=generator.bytes(8).hex(),
                    pattern=pattern,
                    index=index,
                    num_copies=num_copies,
                    variant=variant,
                    is_flagged=is_flagged,
                )
            )
    return canaries


def draw_text_canaries(
    generator: np.random.Generator, prefixes: Sequence[str], words: Sequence[str], *, num_words: int
) -> list[Canary]:
    """Draws one missed canary for each beginning, which continues with random words.

    Args:
        generator: generator of candidates and identifiers.
        prefixes: public text.
        words: public words, without blanks in them.
        num_words: number of words that follow; the form has ``len(words) ** num_words`` candidates.
    """
    drawn = []
    for prefix in prefixes:
        pattern = words_pattern(prefix.strip() + " ", words, num_words)
        drawn += draw_canaries(generator, pattern, 1, variant="missed")
    return drawn


def flip_coins(generator: np.random.Generator, canaries: Iterable[Canary]) -> dict[str, bool]:
    """Flips a fair coin for each canary. Returns by identifier if it is included."""
    return {canary.id: bool(generator.integers(2)) for canary in canaries}


def overlay_rows(
    canaries: Iterable[Canary], *, in_distinct_sentences: bool, included: Mapping[str, bool] | None = None
) -> list[AddedRow]:
    """Returns the rows of canaries for an overlay. Each copy is its own document, and so a record of any unit.

    All copies of a canary belong to one made-up person, if the training samples people.

    Args:
        canaries: canaries to add.
        in_distinct_sentences: true if copies differ in the text before the canary. Equal copies stand for copies added
            after deduplication. The text after the canary is the same, so that its candidates share all text before
            them.
        included: coins; None adds all.

    Raises:
        ConfigError: two canaries have one identifier, a coin is missing, or there are not so many sentences.
    """
    canaries = list(canaries)
    ids = [canary.id for canary in canaries]
    if len(set(ids)) < len(ids):
        raise ConfigError("two canaries have one identifier")
    if included is not None and not set(ids) <= included.keys():
        raise ConfigError("a canary has no coin")
    rows = []
    for canary in canaries:
        if included is not None and not included[canary.id]:
            continue
        before = carriers(canary.num_copies) if in_distinct_sentences else [""] * canary.num_copies
        for copy, carrier in enumerate(before):
            pattern = canary.pattern.after(carrier)
            is_detected = canary.variant == "detected"
            rows.append(
                AddedRow(
                    document=document_of(canary.id, copy),
                    text=pattern.text(canary.index),
                    masked=pattern.holes(canary.index) if is_detected else (),
                    is_flagged=canary.is_flagged or is_detected,
                    owner=f"{_DOCUMENT}/{canary.id}",
                )
            )
    return rows


def carriers(num: int) -> list[str]:
    """Returns different texts to put before the copies of a canary, the same for every canary.

    Raises:
        ConfigError: there are fewer such texts.
    """
    most = len(_OPENINGS) * len(_OCCASIONS)
    if num > most:
        raise ConfigError(f"a canary can be in at most {most} distinct sentences, not {num}")
    return [f"{opening} {occasion}: " for occasion, opening in islice(product(_OCCASIONS, _OPENINGS), num)]


def document_of(canary_id: str, copy: int) -> str:
    """Returns the name of the document that holds a copy of a canary."""
    return f"{_DOCUMENT}/{canary_id}/{copy}"
