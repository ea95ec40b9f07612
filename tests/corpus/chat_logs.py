"""What is read of the text of a chat log."""

from __future__ import annotations

import io
from collections import Counter

from corpus.corpus_files import readings_of

from pipelines.corpus.dialogues import Dialogue
from pipelines.corpus.formats import FORMATS
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.recognition import Reading, Recogniser
from pipelines.plugins import load


def read(format: str, data: str | bytes, **options: object) -> list[tuple[int, Dialogue | BadRow]]:
    """Reads a file with the reader of a format."""
    data = data.encode() if isinstance(data, str) else data
    return list(load(FORMATS[format].reader)(ReadOptions(**options)).read(io.BytesIO(data)))


def turns(format: str, data: str | bytes, **options: object) -> list[list[tuple[str | None, str]]]:
    """Returns the turns of each dialogue, in the order of their first rows."""
    found = sorted((row, item) for row, item in read(format, data, **options) if isinstance(item, Dialogue))
    return [list(dialogue.turns) for _, dialogue in found]


def left_out(format: str, data: str | bytes) -> dict[str, int]:
    """Returns the numbers of parts left out in the whole file."""
    counts: Counter[str] = Counter()
    for _, item in read(format, data):
        counts.update(dict(item.left_out) if isinstance(item, Dialogue) else {})
    return dict(counts)


def rejected(format: str, data: str | bytes, **options: object) -> list[tuple[int, str]]:
    """Returns row and reason of each unusable message."""
    return [(row, item.reason) for row, item in read(format, data, **options) if isinstance(item, BadRow)]


def best(recognisers: tuple[Recogniser, ...], data: str | bytes, name: str = "a.txt") -> Reading | None:
    """Returns the reading with the highest score."""
    data = data.encode() if isinstance(data, str) else data
    return next(iter(readings_of(recognisers, name, data)), None)
