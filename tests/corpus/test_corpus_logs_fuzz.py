"""Junk through the readers of chat logs and transcripts: none fails, good messages stay, and memory is bounded."""

from __future__ import annotations

import io
import random
import time

import pytest
from chat_logs import read
from corpus_files import peak_of
from format_examples_logs import EXAMPLES, MORE

from pipelines.corpus.dialogues import Dialogue
from pipelines.corpus.formats import FORMATS
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions
from pipelines.plugins import load

WORDS = [
    b"\xff", b"\x00", b"\r", b"\xe2\x80\x8e", b"[", b"]", b":", b": ", b" - ", b"<", b">", b"<v Ann>", b"-->",
    b"--> 00:00:02.000", b"00:00:01.000", b"12.03.24, 10:15", b"10:15", b"<ann> ", b"\t", b"*", b"-!-", b"NOTE",
    b"WEBVTT", b"&amp;", b"{\\an8}", b"9" * 400, b" is now known as ", b"--- Day changed", b"\xe2\x80\xa8", b"(", b")",
    b"From ", b" to Everyone:", b" ", b"x",
]  # fmt: skip
GOOD = {
    "whatsapp": b"[12.03.24, 10:15:32] Ann: good %d\n[12.03.24, 10:15:32] Bob: after\n",
    "irc": b"[10:15:32] <ann> good %d\n",
    "vtt": b"\n\n00:00:01.000 --> 00:00:02.000\n<v Ann>good %d</v>\n\n",
    "srt": b"\n\n7\n00:00:01,000 --> 00:00:02,000\ngood %d\n\n",
    "transcript": b"[00:01:02] Ann: good %d\n[00:01:03] Bob: after\n",
}


def junk(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return rng.randbytes(rng.randrange(40)).replace(b"\n", b"")
    return b"".join(rng.choices(WORDS, k=rng.randrange(9)))


@pytest.mark.parametrize("format", GOOD)
def test_junk_between_good_messages(format):
    rng = random.Random(format)
    lines = [GOOD[format] % n + b"".join(junk(rng) + b"\n" for _ in range(rng.randrange(9))) for n in range(0, 300)]
    if format == "vtt":
        lines.insert(0, b"WEBVTT\n\n")
    data = b"".join(GOOD[format] % 999 for _ in range(200)) * (format != "vtt" and format != "srt") + b"".join(lines)
    found = read(format, data)
    numbers = [row for row, item in found if isinstance(item, BadRow)]
    assert numbers == sorted(set(numbers))
    text = "\n".join(text for _, item in found if isinstance(item, Dialogue) for _, text in item.turns)
    lost = [n for n in range(300) if f"good {n}" not in text]
    # Junk directly behind a message of these layouts continues it, so another message stands between them.
    assert lost == []


@pytest.mark.parametrize(("format", "example"), [*EXAMPLES.items(), *MORE], ids=lambda value: str(value)[:20])
def test_an_example_cut_at_every_byte(format, example):
    for at in range(len(example.data)):
        for row, item in read(format, example.data[:at]):
            assert row > 0
            assert isinstance(item, Dialogue | BadRow)


class _Endless(io.RawIOBase):
    """A file that repeats a pattern up to a size."""

    def __init__(self, pattern: bytes, size: int, start: bytes = b"") -> None:
        self._pattern, self._left, self._start, self._at = pattern, size, start, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        size = min(len(buffer), self._left)
        if self._start:
            data, self._start = self._start[:size], self._start[size:]
        else:
            offset = self._at % len(self._pattern)
            data = (self._pattern * (size // len(self._pattern) + 2))[offset : offset + size]
            self._at += len(data)
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)


BOMBS = {
    "one line": b"x", "marks": "\u200e".encode(), "spaces": b" ", "brackets": b"[", "colons": b"a: ", "digits": b"1",
    "lines": b"x\n", "arrows": b"-->\n", "blank": b"\n", "tags": b"<v ", "angles": b"<",
    "entities": b"&amp;", "quotes": b'"',
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("format", GOOD)
@pytest.mark.slow
def test_bombs_take_bounded_memory_and_time(format, bomb):
    start = (b"WEBVTT\n\n" if format == "vtt" else b"") + GOOD[format] % 1
    start = start.rstrip(b"\n") + (b" " if bomb != "blank" else b"")
    reader = load(FORMATS[format].reader)(ReadOptions(max_document_chars=20_000))
    began = time.process_time()
    file = io.BufferedReader(_Endless(BOMBS[bomb], 1 << 18, start))
    found, peak = peak_of(lambda: sum(1 for _ in reader.read(file)))
    assert peak < 8 << 20
    assert found < 20_000
    assert time.process_time() - began < 20
