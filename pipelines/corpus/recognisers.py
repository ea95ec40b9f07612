"""All recognisers of formats, and the encoding of a file's beginning."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from contextlib import suppress
from typing import Final

from pipelines.corpus.recognition import Head, Reading, Recogniser

MODULES: Final = (
    "recognise_json",
    "recognise_exports",
    "recognise_logs",
    "recognise_pages",
    "recognise_mail",
    "recognise_nontext",
)
"""Modules of `pipelines.corpus` with a tuple ``RECOGNISERS``."""


@functools.cache
def recognisers() -> tuple[Recogniser, ...]:
    """Returns the recognisers of all modules."""
    names = [f"pipelines.corpus.{name}" for name in MODULES]
    present = [name for name in names if importlib.util.find_spec(name) is not None]
    return tuple(recognise for name in present for recognise in importlib.import_module(name).RECOGNISERS)


def readings(head: Head) -> list[Reading]:
    """Returns the readings that recognisers find plausible. A recogniser that fails finds nothing."""
    found = []
    for recognise in recognisers():
        reading = None
        with suppress(Exception):  # a file may hold anything, and the other recognisers may know it
            reading = recognise(head)
        if reading is not None:
            found.append(reading)
    return found


def encoding_of(data: bytes) -> str:
    """Returns the name of the encoding of a file's first bytes: ``utf-8`` for UTF-8 and for unknown encodings."""
    name = "pipelines.corpus.encodings"
    if importlib.util.find_spec(name) is None:
        return "utf-8"
    return str(importlib.import_module(name).encoding_of(data))
