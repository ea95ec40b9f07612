"""Search for many strings in the texts that a model wrote: verbatim, or nearly. Imports no torch.

Verbatim means equal in the form in which the gate compares text (`pipelines.gate.strings`), at word borders. The texts
are held as keyed digests of their windows of words. So memory depends on the texts, and the strings stream by once.
"""

from __future__ import annotations

import hmac
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, Generic, Literal, TypeVar

from pipelines.gate.strings import Choice, runs_of_digits

Match = Literal["verbatim", "regrouped", "edited", "one_word_off"]
T = TypeVar("T")

MAX_WORDS: Final = 8
"""Longest windows that are held, in words. The search for a longer string looks up its first words, then all of it."""
MIN_DIGITS: Final = 6
"""Fewest digits of a regrouped number: shorter ones match by chance."""
CHARACTERS_AN_EDIT: Final = 8
"""Number of characters for each allowed edit."""
MIN_WORDS: Final = 3
"""Fewest words of a match with one word off: of two, one is half of the secret, and often a common name."""
_DIGEST_BYTES: Final = 16


class WrittenText:
    """Texts that a model wrote, for a search of strings.

    Private: it holds the texts.

    Args:
        texts: written texts.
        choice: comparison of text.
        key: key of the digests.
    """

    def __init__(self, texts: Iterable[str], choice: Choice, key: bytes) -> None:
        self._key = key
        lines = sorted({" ".join(choice.words(text)) for text in texts} - {""})
        self._words = [line.split(" ") for line in lines]
        self._lines = [f" {line} " for line in lines]
        self._all = "\n".join(self._lines)
        self._windows = {
            self.digest(" ".join(words[at : at + length]))
            for words in self._words
            for at in range(len(words))
            for length in range(1, min(MAX_WORDS, len(words) - at) + 1)
        }
        joined = (digits for words in self._words for _, _, digits in runs_of_digits(words))
        self._numbers = {self.digest(digits) for digits in joined if len(digits) >= MIN_DIGITS}

    def digest(self, string: str) -> bytes:
        """Returns the HMAC-SHA256 of a string, cut to 128 bits."""
        return hmac.digest(self._key, string.encode("utf-8", "surrogatepass"), "sha256")[:_DIGEST_BYTES]

    def has(self, string: str) -> bool:
        """Returns true if the texts hold a string, in the compared form, verbatim."""
        words = string.split(" ")
        if self.digest(" ".join(words[:MAX_WORDS])) not in self._windows:
            return False
        return len(words) <= MAX_WORDS or f" {string} " in self._all

    def match(self, string: str) -> Match | None:
        """Returns the closest match of a string, in the compared form.

        Returns:
            ``verbatim``; ``regrouped``: its digits, at least `MIN_DIGITS`, are in other groups; ``edited``: with one
            character in `CHARACTERS_AN_EDIT` changed, missing or added; ``one_word_off``: of three words or more, with
            one replaced, missing or added; or None.
        """
        if self.has(string):
            return "verbatim"
        digits = "".join(character for character in string if character.isdigit())
        if self.digest(digits) in self._numbers:
            return "regrouped"
        if self._has_edited(string):
            return "edited"
        return "one_word_off" if self._has_but_a_word(string.split(" ")) else None

    def _has_edited(self, string: str) -> bool:
        most = len(string) // CHARACTERS_AN_EDIT
        if most == 0:
            return False
        # With one piece more than edits, at least one piece is unchanged.
        size = len(string) // (most + 1)
        pieces = {at * size: string[at * size : (at + 1) * size] for at in range(most + 1)}
        return any(
            edits_between(string, self._all[start:end], most) <= most
            for offset, piece in pieces.items()
            for at in _places(self._all, piece)
            for start, end in self._word_ranges(at - offset, len(string), most)
        )

    def _word_ranges(self, near: int, length: int, slack: int) -> Iterator[tuple[int, int]]:
        """Yields ranges of whole words with a start and a length within ``slack`` of ``near`` and ``length``."""
        for start in range(max(1, near - slack), near + slack + 1):
            if self._all[start - 1] == " ":
                for end in range(start + max(1, length - slack), start + length + slack + 1):
                    if self._all[end : end + 1] == " " and "\n" not in self._all[start:end]:
                        yield start, end

    def _has_but_a_word(self, words: Sequence[str]) -> bool:
        if len(words) < MIN_WORDS:
            return False
        middle = len(words) // 2  # one half is unchanged
        halves = [f" {' '.join(half)} " for half in (words[:middle], words[middle:])]
        if not any(half in self._all for half in halves):
            return False
        return any(
            edits_between(words, written[at : at + length], 1) <= 1
            for line, written in zip(self._lines, self._words, strict=True)
            if any(half in line for half in halves)
            for length in range(len(words) - 1, len(words) + 2)
            for at in range(len(written) - length + 1)
        )


def edits_between(left: Sequence[Hashable], right: Sequence[Hashable], most: int) -> int:
    """Returns the edit distance of two sequences (Levenshtein 1966), or ``most + 1`` if it is above ``most``."""
    if abs(len(left) - len(right)) > most:
        return most + 1
    row = list(range(len(right) + 1))
    for number, item in enumerate(left, 1):
        before, row[0] = row[0], number
        for at, other in enumerate(right, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (item != other))
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def _places(text: str, piece: str) -> Iterator[int]:
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + 1)


class DistinctSample(Generic[T]):
    """A uniform sample of the distinct items of a stream, with an estimate of their number.

    Keeps the items whose digest begins with a number of zero bits. If they become too many, the number grows by one
    (adaptive sampling, Flajolet 1990, "On adaptive sampling": items / share is unbiased). Keeps all while they fit.

    Args:
        capacity: most items that are kept.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._num_bits = 0
        self.items: dict[bytes, T] = {}

    def add(self, digest: bytes, item: T) -> None:
        """Adds an item with its digest of `_DIGEST_BYTES` uniform bytes."""
        if not self._is_kept(digest):
            return
        self.items[digest] = item
        while len(self.items) > self._capacity:
            self._num_bits += 1
            self.items = {known: value for known, value in self.items.items() if self._is_kept(known)}

    def _is_kept(self, digest: bytes) -> bool:
        return int.from_bytes(digest[:8], "big") >> (64 - self._num_bits) == 0

    def remove(self, digest: bytes) -> None:
        """Removes an item."""
        self.items.pop(digest, None)

    @property
    def share(self) -> float:
        """The share of distinct items that are kept; 1 for all."""
        return 0.5**self._num_bits
