"""Which word each token belongs to: scores by word may be compared between tokenizers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_WORD: Final = re.compile(r"\S+")
_BLANK: Final = "▁"  # how SentencePiece writes a blank; on its own, such a token is decoded without it

NO_WORD: Final = -1


def word_numbers(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """The number of the word that each token is part of; words are what stands between white space.

    A token that is only white space belongs to the word after it, since predicting it is a part of predicting that
    word; `NO_WORD` at the end of the text. A token that reaches into two words belongs to the first.

    Args:
        text: the text.
        spans: (T,) (start, end) characters of each token.
    """
    words = [match.span() for match in _WORD.finditer(text)]
    numbers, at = [], 0
    for start, end in spans:
        visible = start + len(text[start:end]) - len(text[start:end].lstrip())
        where = min(visible, end - 1) if visible < end else start
        while at and words[at - 1][1] > where:
            at -= 1
        while at < len(words) and words[at][1] <= where:
            at += 1
        numbers.append(at if at < len(words) else NO_WORD)
    return numbers


def bytes_of_tokens(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """How many bytes of UTF-8 each token adds to the tokens before it.

    What a tokenizer leaves out, such as the blank before a word, goes with the token after it, and a character that
    several tokens spell with the first of them: so the sum depends on the text alone.

    Args:
        text: the text.
        spans: (T,) (start, end) characters of each token.
    """
    found, covered = [], 0
    for _, end in spans:
        found.append(len(text[covered:end].encode()))
        covered = max(covered, end)
    return found


def bits_per_byte(loss: float, num_bytes: int) -> float | None:
    """A loss in nats as bits a byte of the text that it is about; None without text."""
    return loss / math.log(2) / num_bytes if num_bytes else None


def starts_word(tokenizer: Any, never_text: Iterable[int]) -> npt.NDArray[np.bool_]:
    """(V + 1,) whether a token cannot continue the word before it: it begins with white space, or is no text.

    The last entry, which is True, stands for every id above: models may have more outputs than there are tokens.

    Args:
        tokenizer: of the ``tokenizers`` library.
        never_text: ids of control tokens, the end included.
    """
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    starts = np.ones(max(vocabulary.values()) + 2, dtype=np.bool_)
    for token, number in vocabulary.items():
        starts[number] = token.startswith(_BLANK) or tokenizer.decode([number])[:1].isspace()
    starts[list(never_text)] = True
    return starts


def right_words(
    numbers: npt.NDArray[np.integer[Any]],
    is_right: npt.NDArray[np.bool_],
    is_target: npt.NDArray[np.bool_],
    then_starts_word: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """(W,) which words of one record are right, and (W,) which are asked for at all.

    A word is right if the model ranks each of its tokens first, given the true text before it, and if what it ranks
    first after the last one begins another word. Without the second condition a model of letters would be right about
    ``a`` where it was about to write ``apple``, and a model of words would not.

    Args:
        numbers: (T,) the word of each token.
        is_right: (T,) whether the token was ranked first at its place.
        is_target: (T,) whether it was asked for at all. Words with a token that was not are left out.
        then_starts_word: (T,) whether what is ranked first *after* the token begins a word. The last token of a record
            has nothing after it; its word, which may be cut, is left out.
    """
    size = int(numbers.max(initial=NO_WORD)) + 1
    is_asked, right = np.ones(size, dtype=np.bool_), np.ones(size, dtype=np.bool_)
    last = np.full(size, -1)
    for at, word in enumerate(numbers):
        if word != NO_WORD:
            is_asked[word] &= is_target[at]
            right[word] &= is_right[at]
            last[word] = at
    is_asked &= (last >= 0) & (last < len(numbers) - 1)
    right &= then_starts_word[last] if size else True
    return right & is_asked, is_asked
