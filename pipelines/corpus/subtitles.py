"""Reads subtitles and call transcripts with times: WebVTT (Zoom, Teams, YouTube) and SubRip."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import BinaryIO, Final, NamedTuple

from pipelines.corpus.dialogues import Dialogue, DialogueReader, Item, LeftOut
from pipelines.corpus.items import BadRow
from pipelines.corpus.log_lines import Line, bad_row, read_lines
from pipelines.corpus.speech import Style, Turns, is_sound, plain_text, style_of, voices

TIMING: Final = re.compile(
    r"[ \t]{0,8}(?P<start>\d[\d:.,]{0,15})(?:[ \t]{0,8}-{1,2}>[ \t]{0,8}|,(?=\d{1,3}:\d\d:\d\d\.\d{3}[ \t]*$))"
    r"(?P<end>[\d:.,]{0,16})"
)
"""The line of a cue's times: ``00:01.000 --> 00:02.000``, or ``0:00:01.000,0:00:02.000`` (YouTube's SBV)."""
_TIME: Final = re.compile(r"(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,3}))?")
_BLOCK: Final = re.compile(r"(?:NOTE|STYLE|REGION|WEBVTT)(?:\s|$)")
_HEAD_CUES: Final = 300
_HEAD_CHARS: Final = 1 << 20
_ROLLING_SHARE: Final = 0.3
_MAX_HELD: Final = 1_000


class Cue(NamedTuple):
    """A piece of text with a time.

    Attributes:
        row: 1-based position in the file
        start, end: seconds from the beginning; None if the file gives none
        text: text in lines, with markup
        fault: name of the reason why the cue cannot be used; "" if it can
        is_note: flag that it is a comment or style of the file
    """

    row: int
    start: float | None
    end: float | None
    text: str
    fault: str = ""
    is_note: bool = False


def time_of(text: str) -> float | None:
    """Returns the seconds of ``01:02:03.456``, ``02:03`` or ``01:02:03,456``; None for other text."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    hours, minutes, seconds, fraction = match.groups()
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")


class _Open:
    """A cue or note whose end is not known yet."""

    def __init__(self, row: int, kind: str, timing: re.Match[str] | None = None) -> None:
        self.row = row
        self.kind = kind
        self.times = (time_of(timing["start"]), time_of(timing["end"])) if timing else (None, None)
        self.parts: list[str] = []
        self.num_chars = 0
        self.fault = ""

    def add(self, line: Line, max_chars: int) -> None:
        """Adds a line of text."""
        self.num_chars += len(line.text) + 1
        self.fault = self.fault or line.fault or ("over_long" if self.num_chars > max_chars else "")
        if self.fault:
            self.parts.clear()
        elif self.kind == "cue":
            self.parts.append(line.text)

    def cue(self) -> Iterator[Cue]:
        """Yields the cue or note. The header of a file is neither."""
        if self.kind != "header":
            fault = self.fault if self.kind == "cue" else ""
            yield Cue(self.row, *self.times, "\n".join(self.parts), fault, self.kind == "note")


def cues(lines: Iterable[Line], max_chars: int) -> Iterator[Cue]:
    """Yields the cues and notes of a file. A block of text without a time is a cue without a time."""
    row = 0
    opened: _Open | None = None
    held: tuple[Line, bool] | None = None  # may be the name of the next cue; the flag tells if it begins a block
    after_blank = True

    def end() -> Iterator[Cue]:
        nonlocal opened
        if opened is not None:
            yield from opened.cue()
        opened = None

    def place() -> Iterator[Cue]:
        """Adds the held line to the text."""
        nonlocal held, opened, row
        if held is not None:
            line, is_first = held
            held = None
            if opened is not None and opened.kind == "cue" and is_first and (opened.parts or opened.fault):
                yield from end()
            if opened is None:
                row += 1
                opened = _Open(row, "cue")
            opened.add(line, max_chars)

    for line in lines:
        if line.is_blank and not line.fault:
            yield from place()
            if opened is not None and opened.kind != "cue":
                yield from end()
            after_blank = True
            continue
        timing = TIMING.match(line.text)
        if timing is None:
            yield from place()
            if after_blank and _BLOCK.match(line.text):
                yield from end()
                kind = "header" if line.text.startswith("WEBVTT") else "note"
                row += kind == "note"
                opened = _Open(row, kind)
            else:
                held = line, after_blank
            after_blank = False
            continue
        if held is not None and not held[1] and not held[0].text.strip().isdecimal():
            yield from place()
        yield from end()
        held, after_blank = None, False
        row += 1
        opened = _Open(row, "cue", timing)
        opened.fault = line.fault
    yield from place()
    yield from end()


def _plain_lines(cue: Cue) -> list[str]:
    return [line for line in (plain_text(line) for line in cue.text.split("\n")) if line]


def is_rolling(head: Iterable[Cue]) -> bool:
    """Checks if cues repeat lines of the cue before, as captions that scroll do."""
    num = num_repeated = 0
    before: list[str] = []
    for cue in head:
        lines = _plain_lines(cue)
        if before and lines:
            num += 1
            num_repeated += lines[0] in before or lines[0].startswith(before[-1])
        before = lines or before
    return num >= 2 and num_repeated >= max(2, _ROLLING_SHARE * num)


def collapsed(source: Iterable[Cue]) -> Iterator[Cue]:
    """Yields cues without the lines that the cue before already showed."""
    before: list[str] = []
    for cue in source:
        lines = cue.text.split("\n")
        plain = [plain_text(line) for line in lines]
        shown = [text for text in plain if text]
        if not shown:
            yield cue
            continue
        num = next((n for n in range(min(len(before), len(shown)), 0, -1) if before[-n:] == shown[:n]), 0)
        grows = bool(num == 0 and before and shown[0].startswith(before[-1]))
        kept = [line for line, text in zip(lines, plain, strict=True) if text][num:]
        if grows:
            kept = [shown[0][len(before[-1]) :], *kept[1:]]
        before = shown[-_MAX_HELD:]
        yield cue._replace(text="\n".join(kept))


class Subtitles(DialogueReader):
    """Reads a file of subtitles.

    A file that names speakers gives turns. Any other file gives text whose lines are whole sentences.
    """

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Dialogue | BadRow]]:
        """Yields the dialogues and unusable cues."""
        for row, found in super().read(file):
            if isinstance(found, Dialogue) and self._style == "none":
                found = found._replace(is_text=True)
            yield row, found

    def items(self, file: BinaryIO) -> Iterator[Item]:
        """Yields the turns and what is left out."""
        limit = self.options.max_document_chars
        source = cues(read_lines(file, limit), limit)
        head: list[Cue] = []
        num_chars = 0
        for cue in islice(source, _HEAD_CUES):
            head.append(cue)
            num_chars += len(cue.text)
            if num_chars > _HEAD_CHARS:
                break
        spoken = [cue.text for cue in head if cue.text]
        self._style = style = style_of(spoken)
        whole: Iterator[Cue] = chain(head, source)
        if is_rolling(head):
            whole = collapsed(whole)
        gap = 60 * self.options.dialogue_gap_minutes
        turns = Turns(max_chars=limit, has_speakers=style != "none", gap_seconds=gap if style != "none" else 5.0)
        yield from _items(whole, turns, style)


def _items(source: Iterable[Cue], turns: Turns, style: Style) -> Iterator[Item]:
    for cue in source:
        if cue.is_note:
            yield LeftOut("note")
            continue
        if cue.fault:
            yield cue.row, bad_row(cue.fault)
            continue
        if is_sound(plain_text(cue.text)):
            yield LeftOut("sound")
            continue
        for speaker, is_new, text in voices(cue.text, style):
            yield from turns.add(cue.row, speaker, is_new, text, (cue.start, cue.end))
    yield from turns.end()
