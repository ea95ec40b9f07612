"""All recognisers of formats."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from pipelines.corpus import (
    recognise_exports,
    recognise_json,
    recognise_logs,
    recognise_mail,
    recognise_nontext,
    recognise_pages,
)
from pipelines.corpus.recognition import Head, Reading, Recogniser

RECOGNISERS: Final[tuple[Recogniser, ...]] = (
    *recognise_json.RECOGNISERS,
    *recognise_exports.RECOGNISERS,
    *recognise_logs.RECOGNISERS,
    *recognise_pages.RECOGNISERS,
    *recognise_mail.RECOGNISERS,
    *recognise_nontext.RECOGNISERS,
)


def readings(head: Head) -> list[Reading]:
    """Returns the readings that recognisers find plausible. A recogniser that fails finds nothing."""
    found = []
    for recognise in RECOGNISERS:
        reading = None
        with suppress(Exception):  # a file may hold anything, and the other recognisers may know it
            reading = recognise(head)
        if reading is not None:
            found.append(reading)
    return found
