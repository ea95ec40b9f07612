"""A real short file of a format, for tests and documentation."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A short file of a format.

    Attributes:
        file_name: name of the file
        data: bytes of the file
        documents: number of documents
        rows: number of rows
        speakers: number of speakers
    """

    file_name: str
    data: bytes
    documents: int
    rows: int
    speakers: int
