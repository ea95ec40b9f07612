"""Cuts sequences of tokens into overlapping windows."""

from __future__ import annotations


def windows(num_tokens: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Returns half-open runs of at most ``size`` tokens that cover all tokens. Neighbours share at least ``overlap``.

    The last run ends with the last token and is as long as the others, so no short rest is judged without context.

    Raises:
        ValueError: the overlap is not smaller than the size.
    """
    if not 0 <= overlap < size:
        raise ValueError("windows must overlap by less than their size")
    if num_tokens <= size:
        return [(0, num_tokens)] if num_tokens else []
    starts = [*range(0, num_tokens - size, size - overlap), num_tokens - size]
    return [(start, start + size) for start in starts]
