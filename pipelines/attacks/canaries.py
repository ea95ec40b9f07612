"""Canaries: made-up secrets that a child run trains on, to see whether its model gives them away.

Carlini et al. 2019 ("The Secret Sharer"), Selective DP (Shi et al. 2022, section 5.1) and Confidentially Redacted
Training (Zhao et al. 2022, section 5.1) put "My ID is 341752" into the training text 10 or 20 times. Each canary has a
random identifier that says nothing of its text: by it, and never by its place in a list, coins, rows and scores are
joined.

Random inclusion is that of Steinke et al. 2023 ("Privacy Auditing with One (1) Training Run", Algorithm 1). Canaries of
characters that the corpus never holds follow the new-token canaries of Panda et al. 2025 ("Privacy Auditing of Large
Language Models"): an overlay changes rows, not the vocabulary, so that characters which occur nowhere stand for a token
that does not. An ordinary beginning with an unlikely end is that of Meeus et al. 2025 ("The Canary's Echo").
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
COPIES: Final = (1, 10, 20, 100)
"""How often a canary is put in, as the papers do it and around that."""
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
    """A made-up secret.

    Attributes:
        id: a random name, by which everything is joined.
        pattern: its form.
        index: which of the form's candidates it is.
        num_copies: how many records hold it.
        variant: ``detected``: its holes are masked, as where the policies find it. ``missed``: nothing is. ``public``:
            nothing is, and the conservative policy misses it as well, so that it stands among the public rows.
        is_flagged: whether the conservative policy puts its rows on the private side; a detected one is there anyway,
            and a public one never.
    """

    id: str
    pattern: Pattern = field(repr=False)
    index: int = field(repr=False)
    num_copies: int
    variant: Variant
    is_flagged: bool = False

    @property
    def text(self) -> str:
        """What it says. For private artifacts only."""
        return self.pattern.text(self.index)

    def document(self) -> dict[str, Any]:
        """What may be shown of it: nothing of its text."""
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

    Args:
        generator: of candidates and of identifiers.
        pattern: the form.
        num: how many.
        variant, num_copies, is_flagged: see `Canary`.
        taken: candidates that other canaries of the form are.

    Raises:
        ConfigError: there are not so many candidates, ``num_copies`` is below 1, or public ones are to be flagged.
    """
    taken = set(taken)
    if num_copies < 1:
        raise ConfigError("a canary needs a copy at least")
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
    generator: np.random.Generator,
    prefixes: Sequence[str],
    words: Sequence[str],
    *,
    num_words: int,
    variant: Variant,
    num_copies: int = 1,
    is_flagged: bool = False,
) -> list[Canary]:
    """Draws one canary for each beginning, which goes on with words at random.

    Args:
        generator: of candidates and of identifiers.
        prefixes: public text.
        words: public words, without blanks in them.
        num_words: how many follow; the form has ``len(words) ** num_words`` candidates.
        variant, num_copies, is_flagged: see `Canary`.
    """
    drawn = []
    for prefix in prefixes:
        pattern = words_pattern(prefix.strip() + " ", words, num_words)
        drawn += draw_canaries(generator, pattern, 1, variant=variant, num_copies=num_copies, is_flagged=is_flagged)
    return drawn


def flip_coins(generator: np.random.Generator, canaries: Iterable[Canary]) -> dict[str, bool]:
    """Includes each canary or not by a fair coin of its own: by identifier, heads or tails."""
    return {canary.id: bool(generator.integers(2)) for canary in canaries}


def overlay_rows(
    canaries: Iterable[Canary],
    *,
    in_distinct_sentences: bool,
    included: Mapping[str, bool] | None = None,
    speaker: str | None = None,
    domain: str | None = None,
) -> list[AddedRow]:
    """The rows of canaries for an overlay; each copy is a document of its own, and so a record whatever its unit.

    Args:
        canaries: what to add.
        in_distinct_sentences: whether copies differ in what is said before the canary; equal copies are those that
            were added after deduplication. What follows the canary is the same, so that its candidates still share all
            that stands before them.
        included: the coins; None adds all.
        speaker, domain: of all rows.

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
                    speaker=speaker,
                    domain=domain,
                )
            )
    return rows


def carriers(num: int) -> list[str]:
    """What is said before a canary, different each time; the same for every canary.

    Raises:
        ConfigError: more are asked for than there are.
    """
    most = len(_OPENINGS) * len(_OCCASIONS)
    if num > most:
        raise ConfigError(f"a canary can stand in at most {most} distinct sentences, not {num}")
    return [f"{opening} {occasion}: " for occasion, opening in islice(product(_OCCASIONS, _OPENINGS), num)]


def document_of(canary_id: str, copy: int) -> str:
    """The name of the document that holds a copy of a canary."""
    return f"{_DOCUMENT}/{canary_id}/{copy}"
