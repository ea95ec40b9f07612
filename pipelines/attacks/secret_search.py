"""Which of many strings stand in what a model wrote: verbatim, or nearly. Imports no torch.

Verbatim means: equal in the form in which the gate compares text (`pipelines.gate.strings`), at the borders of words.
What was written is held as keyed digests of its windows of words, so memory follows what was written, and strings pass
by once, however many there are.
"""

from __future__ import annotations

import hmac
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, Generic, Literal, TypeVar

from pipelines.gate.strings import MAX_PIECES, Choice

Match = Literal["verbatim", "regrouped", "edited", "one_word_off"]
T = TypeVar("T")

MAX_WORDS: Final = 8
"""The longest windows that are held; of a longer string the first words are looked up, and then all of it."""
MIN_DIGITS: Final = 6
"""Shorter numbers are regrouped by chance."""
CHARACTERS_AN_EDIT: Final = 8
"""A string may differ by one character in so many."""
MIN_WORDS: Final = 3
"""One word of two is half of the secret, and often a common name."""
_DIGEST_BYTES: Final = 16


class WrittenText:
    """Texts that a model wrote, to be searched for strings.

    Private: it holds the texts.

    Args:
        texts: what was written.
        choice: how text is compared.
        key: of the digests.
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
        self._numbers = {self.digest(number) for words in self._words for number in _numbers(words)}

    def digest(self, string: str) -> bytes:
        """A string's HMAC-SHA256, cut to 128 bits."""
        return hmac.digest(self._key, string.encode("utf-8", "surrogatepass"), "sha256")[:_DIGEST_BYTES]

    def has(self, string: str) -> bool:
        """Whether a string, in the compared form, stands here verbatim."""
        words = string.split(" ")
        if self.digest(" ".join(words[:MAX_WORDS])) not in self._windows:
            return False
        return len(words) <= MAX_WORDS or f" {string} " in self._all

    def match(self, string: str) -> Match | None:
        """How a string, in the compared form, stands here; the closest way counts.

        Returns:
            ``verbatim``; ``regrouped``: its digits, `MIN_DIGITS` at least, stand in other groups; ``edited``: with one
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
        # Of one piece more than there are edits, one at least is as it was.
        size = len(string) // (most + 1)
        pieces = {at * size: string[at * size : (at + 1) * size] for at in range(most + 1)}
        return any(
            edits_between(string, self._all[start:end], most) <= most
            for offset, piece in pieces.items()
            for at in _places(self._all, piece)
            for start, end in self._word_ranges(at - offset, len(string), most)
        )

    def _word_ranges(self, near: int, length: int, slack: int) -> Iterator[tuple[int, int]]:
        """Ranges of whole words that begin within ``slack`` of ``near`` and are that much longer or shorter at most."""
        for start in range(max(1, near - slack), near + slack + 1):
            if self._all[start - 1] == " ":
                for end in range(start + max(1, length - slack), start + length + slack + 1):
                    if self._all[end : end + 1] == " " and "\n" not in self._all[start:end]:
                        yield start, end

    def _has_but_a_word(self, words: Sequence[str]) -> bool:
        if len(words) < MIN_WORDS:
            return False
        middle = len(words) // 2  # one half is as it was
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
    """The edit distance of two sequences (Levenshtein 1966), or ``most + 1`` where it is more than ``most``."""
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


def _numbers(words: Sequence[str]) -> Iterator[str]:
    """What neighbouring numbers, `MAX_PIECES` at most, give together."""
    for start in range(len(words)):
        joined = ""
        for word in words[start : start + MAX_PIECES]:
            if not word.isdigit():
                break
            joined += word
            if len(joined) >= MIN_DIGITS:
                yield joined


class DistinctSample(Generic[T]):
    """A uniform sample of the distinct items of a stream, and an estimate of how many there are.

    Kept are the items whose digest begins with so many zero bits; whenever they become too many, with one more
    (adaptive sampling, Flajolet 1990, "On adaptive sampling": items / share is unbiased). All are kept while they fit.

    Args:
        capacity: the most items that are kept.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._num_bits = 0
        self.items: dict[bytes, T] = {}

    def add(self, digest: bytes, item: T) -> None:
        """Takes an item with its digest, which must be of `_DIGEST_BYTES` uniform bytes."""
        if not self._is_kept(digest):
            return
        self.items[digest] = item
        while len(self.items) > self._capacity:
            self._num_bits += 1
            self.items = {known: value for known, value in self.items.items() if self._is_kept(known)}

    def _is_kept(self, digest: bytes) -> bool:
        return int.from_bytes(digest[:8], "big") >> (64 - self._num_bits) == 0

    def remove(self, digest: bytes) -> None:
        """Forgets an item."""
        self.items.pop(digest, None)

    @property
    def share(self) -> float:
        """The share of distinct items that are kept; 1 where all of them are."""
        return 0.5**self._num_bits
