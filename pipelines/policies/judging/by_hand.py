"""Builds the neighbouring world of CRT, Definition 2: a sentence in which a person overwrote secrets with a mask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pipelines.mask import MASK
from pipelines.policies.detectors.finds import Range, merge_ranges
from pipelines.policies.judging.judge import Request
from pipelines.policies.redact import replace_ranges

Tokenise = Callable[[str], tuple[Sequence[int], Sequence[int]]]
"""A function that returns the starts and ends of a text's tokens, as the pipeline cuts them."""


def mask_by_hand(sentence: Request, secrets: Iterable[Range], tokenise: Tokenise) -> Request:
    """Returns the sentence as if somebody had overwritten secrets with ``<MASK>`` before the pipeline read it.

    Secrets that overlap or touch get one mask. A run of characters without white space gets new tokens if it contains
    a mask. All other runs keep their tokens.

    Args:
        sentence: original sentence, which stays unchanged.
        secrets: ranges of the sentence's characters. They are not empty, and in any order.
        tokenise: tokeniser of the pipeline, for a run without white space.

    Raises:
        ValueError: a secret does not lie inside the sentence.
    """
    text = sentence.text
    ranges = list(secrets)
    if not all(0 <= start < end <= len(text) for start, end in ranges):
        raise ValueError("a secret does not lie inside its sentence")
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    token = at = length = 0  # tokens read, characters read, characters written

    def copy(until: int) -> None:
        nonlocal token, at, length
        while token < len(sentence.starts) and sentence.starts[token] < until:
            starts.append(sentence.starts[token] - at + length)
            ends.append(sentence.ends[token] - at + length)
            token += 1
        parts.append(text[at:until])
        length += until - at
        at = until

    for (low, high), inside in _runs(text, merge_ranges(ranges)):
        copy(low)
        run = replace_ranges(text[low:high], ((start - low, end - low, MASK) for start, end in inside))
        new_starts, new_ends = tokenise(run)
        starts += [length + s for s in new_starts]
        ends += [length + e for e in new_ends]
        parts.append(run)
        length += len(run)
        at = high
        while token < len(sentence.starts) and sentence.starts[token] < high:
            token += 1
    copy(len(text))
    return Request("".join(parts), starts, ends, names=sentence.names)


def whole_tokens(sentence: Request, secret: Range) -> Range:
    """Returns the characters of the tokens that a secret touches, because policies mask whole tokens.

    Returns:
        The range of the touched tokens, or the secret itself if it touches no token.
    """
    touched = [
        (start, end)
        for start, end in zip(sentence.starts, sentence.ends, strict=True)
        if start < secret[1] and end > secret[0]
    ]
    return (min(secret[0], touched[0][0]), max(secret[1], touched[-1][1])) if touched else secret


def _runs(text: str, secrets: Sequence[Range]) -> Iterator[tuple[Range, list[Range]]]:
    """Yields the runs between white space that need new tokens, each with its secrets."""
    low = high = -1
    inside: list[Range] = []
    for start, end in secrets:
        first, last = start, end
        while first > 0 and not text[first - 1].isspace():
            first -= 1
        while last < len(text) and not text[last].isspace():
            last += 1
        if inside and first < high:
            high = max(high, last)
            inside.append((start, end))
            continue
        if inside:
            yield (low, high), inside
        low, high, inside = first, last, [(start, end)]
    if inside:
        yield (low, high), inside
