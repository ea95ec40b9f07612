"""Words of tokens: scores by word may be compared between tokenizers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_WORD: Final = re.compile(r"\S+")
_BLANK: Final = "▁"  # the blank of SentencePiece. A token of it alone decodes to nothing

NO_WORD: Final = -1


def word_numbers(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """Returns the number of the word that each token belongs to. Words are separated by white space.

    A token that is only white space belongs to the word after it, since predicting it is a part of predicting that
    word. At the end of the text it gets `NO_WORD`. A token that reaches into two words belongs to the first.
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
    """Returns the number of bytes of UTF-8 that each token adds to the tokens before it.

    Characters that a tokenizer leaves out, such as the blank before a word, count for the token after them. A character
    that several tokens spell counts for the first of them. So the sum depends on the text alone.
    """
    num_bytes, covered = [], 0
    for _, end in spans:
        num_bytes.append(len(text[covered:end].encode()))
        covered = max(covered, end)
    return num_bytes


def bits_per_byte(loss: float, num_bytes: int) -> float | None:
    """Converts a loss in nats to bits per byte of its text. None without text."""
    return loss / math.log(2) / num_bytes if num_bytes else None


def starts_word(tokenizer: Any, never_text: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Returns (V + 1,) true for tokens that cannot continue a word: they begin with white space, or are no text.

    The last entry, which is true, stands for every id above: models may have more outputs than there are tokens.

    Args:
        tokenizer: tokenizer of the ``tokenizers`` library.
        never_text: ids of control tokens, including the end.
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
    """Returns (W,) the right words of one record, and (W,) the words that are judged at all.

    A word is right if the model ranks each of its tokens first, given the true text before it, and if the token that it
    ranks first after the last one begins another word. Without the second condition a model of letters would be right
    about ``a`` when it was about to write ``apple``, and a model of words would not.

    Args:
        numbers: (T,) word of each token.
        is_right: (T,) true for a token that was ranked first at its place.
        is_target: (T,) true for a target. Words with a token that is no target are left out.
        then_starts_word: (T,) true if the token that is ranked first *after* this one begins a word. The last token of
            a record has nothing after it. Its word, which may be cut, is left out.
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
