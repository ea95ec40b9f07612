"""A real short file of a format, and what is read of it."""

from typing import NamedTuple


class Example(NamedTuple):
    file_name: str
    data: bytes
    documents: int
    rows: int
    speakers: int
