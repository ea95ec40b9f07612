"""Two steps of a pipeline at a time: one makes what the other uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_WAITING = 2  # items at most: enough to even out, and little to hold
_END = object()


def prefetch(items: Iterable[T]) -> Iterator[T]:
    """The same items in the same order, made by a thread of their own while the last one is used.

    Pays where making and using both spend their time in Arrow, numpy or compiled code, which let go of the
    interpreter's lock. What making raises, is raised here; when the iterator is closed, at most two more are made.
    """
    source = iter(items)
    with ThreadPoolExecutor(1) as thread:
        made = deque(thread.submit(next, source, _END) for _ in range(_WAITING))
        while (item := made.popleft().result()) is not _END:
            made.append(thread.submit(next, source, _END))
            yield item  # type: ignore[misc]  # next gives an item or the end
