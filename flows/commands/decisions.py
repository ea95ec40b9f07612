"""Asks which reading of doubtful files is right, for `reticent init`. First rows appear on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from flows.commands.kinds import Kind
from flows.commands.measured import Measured
from flows.commands.survey import Decide, kind_text
from pipelines.errors import ConfigError

_SHOWN_ROWS: Final = 3
_SHOWN_CHARS: Final = 160
_SHOWN_LINES: Final = 4


def refuse(kinds: Sequence[Kind]) -> Sequence[int]:
    """Refuses to choose, because nobody is there to ask.

    Raises:
        ConfigError: always. The message says what to decide, and how.
    """
    asked = " ".join(f"({number}) {_question(kind)}" for number, kind in enumerate(kinds, start=1))
    raise ConfigError(
        f"it is not certain how to read these files. {asked} Run this command in a terminal to choose. Or add --yes to "
        "take the first reading of each, and correct reticent.toml afterwards"
    )


def take(say: Callable[[str], None]) -> Decide:
    """Returns a function that takes the best readings, and says so."""

    def choose(kinds: Sequence[Kind]) -> Sequence[int]:
        for kind in kinds:
            say(f"took the first reading: {_question(kind)}")
        return [0] * len(kinds)

    return choose


def ask(say: Callable[[str], None], answer: Callable[[str], str]) -> Decide:
    """Returns a function that shows the first rows of the best readings, and asks."""

    def choose(kinds: Sequence[Kind]) -> Sequence[int]:
        return [_asked(kind, say, answer) for kind in kinds]

    return choose


def _asked(kind: Kind, say: Callable[[str], None], answer: Callable[[str], str]) -> int:
    say(kind_text(kind))
    readings = [(0, kind.look, kind.found), *((n, *other) for n, other in enumerate(kind.others[:2], start=1))]
    readings = [reading for reading in readings if reading[1].format is not None][:2]
    if not readings:
        return 0
    for number, (_, look, found) in enumerate(readings, start=1):
        say(f"  {number}. {look.format}: {look.what}")
        say(rows_text(found))
    choices = {str(number): choice for number, (choice, _, _) in enumerate(readings, start=1)} | {"0": -1}
    wanted = " or ".join(sorted(choices)[1:])
    while True:
        given = answer(f"Which reading is right, {wanted}? (0: do not read these files)").strip()
        if given in choices:
            return choices[given]


def rows_text(found: Measured) -> str:
    """Returns the first texts of a reading, shortened. They are private."""
    lines = []
    for text in found.shown[:_SHOWN_ROWS]:
        shown = [line[:_SHOWN_CHARS] for line in text.splitlines()[:_SHOWN_LINES]]
        lines += [f"     | {line}" for line in shown] + ["     |"]
    return "\n".join(lines[:-1])


def _question(kind: Kind) -> str:
    look = kind.look
    suffix = f"{kind.suffix} " if kind.suffix else ""
    other = f" Or {kind.others[0][0].format}: {kind.others[0][0].what}." if kind.others else ""
    number = len(kind.files)
    read = "not read" if look.format is None else f"as {look.format}"
    return f"{number:,} {suffix}file{'s' * (number > 1)} {read}: {look.what} ({'; '.join(look.doubts)}).{other}"
