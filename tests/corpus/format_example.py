"""An example of a file in its original layout, and what is read of it."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A short real file of a format: its documents, the rows in them, and all speakers' names in the file."""

    file_name: str
    data: bytes
    documents: int
    rows: int
    speakers: int
