"""A short example of a file of one format, and what is read from it."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """An example of a file.

    Attributes:
        file_name: name of the file, with a folder if the format needs one
        data: content of the file
        documents: number of documents
        rows: number of turns, or of rows
        speakers: number of different speakers
    """

    file_name: str
    data: bytes
    documents: int
    rows: int
    speakers: int
