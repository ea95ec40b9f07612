"""Runs two steps of a pipeline at once: one makes the items that the other uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_WAITING = 2  # items at most, which evens out the two speeds and holds little memory
_END = object()


def prefetch(items: Iterable[T]) -> Iterator[T]:
    """Yields the same items in the same order, made by another thread while the last one is used.

    Pays if making and using both spend their time in Arrow, numpy or compiled code, which release the interpreter's
    lock. Raises the errors of making the items. After the iterator is closed, at most two more items are made.
    """
    source = iter(items)
    with ThreadPoolExecutor(1) as thread:
        made = deque(thread.submit(next, source, _END) for _ in range(_WAITING))
        while (item := made.popleft().result()) is not _END:
            made.append(thread.submit(next, source, _END))
            yield item  # type: ignore[misc]  # next gives an item or the end
