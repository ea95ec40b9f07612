"""The time of the default policies grows with the length of a text, for texts that break patterns."""

from __future__ import annotations

import gc
import time

import pytest
from support.patches import Patch

import reticent
from pipelines.policies.detectors import presidio_engine
from pipelines.policies.detectors.presidio_engine import SlowPatternError
from pipelines.policies.judging import stabilise
from pipelines.policies.protocol import Span

POLICIES = ("addresses", "high_entity", "identifiers", "presidio")
UNITS = (
    *(
        "A.",
        "a@",
        "a.a.a@",
        "1-",
        "1 ",
        "7",
        "1.2.3.",
        "1/2/2003 ",
        "(",
        "[",
        "\"'",
        "-----BEGIN ",
        " ",
        "\n",
        "\t",
        ".",
    ),
    *(
        "e\u0301",
        "\u0301",
        "a\u200b",
        "\uff11",
        "\U0001f600",
        "http://a.b/",
        "a.b@c.de ",
        '{"a":',
        "<a>",
        "k=v;",
        "#a ",
    ),
    *(
        "one two seven ",
        "0123456789abcdef",
        "QUJD+/x1",
        "GB29 NWBK 6016 1331 9268 19 ",
        "van der de la ",
        "Mary Jones ",
    ),
    *("Smith, John, ", "12 Main Street ", "ab:cd:", "AB12 CDE ", "password is ", "my name is ", "+1 ", "%41", "\\"),
    *("a-", "a_", "/a", "a:", "Aa", "a", "A1-B2 ", "P.O. Box ", "a dot b at c ", "Dr. Mr. ", "A v. B "),
)
FLOOR = 0.15
"""CPU seconds below which a time is noise."""


def _seconds(unit: str, length: int) -> float:
    text = "x " + (unit * (length // len(unit) + 1))[:length] + " y"
    gc.disable()  # a full collection looks through all that earlier tests have left
    try:
        start = time.thread_time()  # threads of earlier tests may still run
        reticent.redact([text], policies=POLICIES, check_language=False)
        return time.thread_time() - start
    finally:
        gc.enable()


def _grows_linearly(unit: str, length: int) -> bool:
    """Returns whether ``length`` takes at most 25 times as long as a tenth of it, in one of two tries.

    If time is linear, it takes 10 times as long, and 100 times if it is quadratic. Processors that others use, too, may
    be half as fast from one second to the next.
    """
    return any(_seconds(unit, length) <= 25 * max(FLOOR, _seconds(unit, length // 10)) for _ in range(2))


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    reticent.redact(["Ask Mary at 5 or a@b.com, 12 Main Street. " * 50], policies=POLICIES, check_language=False)


@pytest.mark.parametrize("unit", UNITS[::3])  # those of the next test are all
def test_time_is_linear_to_10_kb(unit: str) -> None:
    assert _grows_linearly(unit, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear_to_100_kb(unit: str) -> None:
    assert _grows_linearly(unit, 100_000)


def test_a_slow_pattern_masks_the_row_whole(patch: Patch) -> None:
    limited = presidio_engine._Limited(r"(a+a+)+b", 0)
    patch.constant(presidio_engine, "PATTERN_SECONDS", 0.05)
    with pytest.raises(SlowPatternError):
        list(limited.finditer("a" * 5_000))


def test_endless_rounds_mask_the_row_whole() -> None:
    size = stabilise.MAX_ROUNDS + 5
    text = " ".join("a" * size)
    tokens = (text, tuple(range(0, 2 * size, 2)), tuple(range(1, 2 * size, 2)))

    def first_word(readings: list[stabilise.Tokens]) -> list[list[Span]]:
        found = []
        for words, starts, ends in readings:
            at = next((n for n, (a, b) in enumerate(zip(starts, ends, strict=True)) if words[a:b] == "a"), None)
            found.append([] if at is None else [Span(at, at + 1, "X", "one_by_one")])
        return found

    short = (text[:5], tokens[1][:3], tokens[2][:3])
    found = stabilise.Stabiliser([first_word]).find_all([(*tokens, []), (*short, [])])  # type: ignore[list-item]
    assert found[0] == "one_by_one"
    assert len(found[1]) == 3
