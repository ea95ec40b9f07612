"""What the default of ``reticent init`` masks, and whether a function of a text takes linear time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable

import reticent
from flows.commands.init import OWN_POLICIES


@functools.cache
def masked(text: str) -> str:
    """Returns the parts of a text that the default masks."""
    (found,) = reticent.redact([text], policies=OWN_POLICIES, check_language=False, dates_and_numbers="careful")
    return " | ".join(text[find.start : find.end] for find in found.finds)


def check_linear(find: Callable[[str], Iterable[object]], beginning: str, piece: str) -> None:
    """Asserts that four times the text takes at most ten times as long, with the best of three times."""

    def seconds(text: str) -> float:
        times = []
        for _ in range(3):
            began = time.process_time()
            list(find(text))
            times.append(time.process_time() - began)
        return min(times)

    short = beginning + piece * 1_000
    assert seconds(short + piece * 3_000) < 10 * max(seconds(short), 1e-3)
