"""The beginning of a file, as a recogniser of a format sees it, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Head(NamedTuple):
    """The beginning of a file.

    Attributes:
        path: path of the file
        name: name of the file in the corpus
        suffix: suffix in lower case, without a compression's
        data: first megabyte of the decompressed bytes
        is_whole: true if that is the whole file
    """

    path: Path
    name: str
    suffix: str
    data: bytes
    is_whole: bool


class Reading(NamedTuple):
    """A plausible reading of a file.

    Attributes:
        format: name of the format; None if the file is no text for training, such as a list of users
        score: confidence from 0 to 1; below 0.5 for a mere possibility
        what: description in words, without text of the file
        fields: settings of ``[corpus]`` that differ from their defaults
        owner: field that looks like the id of the person whose text it is; empty if none does
    """

    format: str | None
    score: float
    what: str
    fields: tuple[tuple[str, str], ...] = ()
    owner: str = ""


Recogniser = Callable[[Head], Reading | None]
"""Function that answers None if a file is certainly not of its format."""
