"""Files that a reader needs beside the file that it reads, such as the list of users in an export of a chat.

Their content counts in the digests of every file that is read with them.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TypeVar, cast

from pipelines.corpus.formats import format_spec
from pipelines.corpus.open_input import NotAFile, open_ordinary
from pipelines.corpus.reader_cache import key_of
from pipelines.errors import InputError

T = TypeVar("T")

_RACY_NS = 50_000_000
"""Age of a change below which a later change could have the same time stamp."""


def side_files(path: Path, name: str, format: str) -> tuple[Path, ...]:
    """Returns the side files of a file that exist, in its folder and in the folder above it.

    The folder above counts only if it is inside an input: the name of the file in the corpus then has a folder. So no
    program can change names by a file that is outside the inputs.
    """
    names = format_spec(format).side_files
    folders = dict.fromkeys((path.parent.parent, path.parent) if "/" in name else (path.parent,))
    return tuple(p for folder in folders for name in names if (p := folder / name).is_file() and p != path)


def side_digest(path: Path, name: str, format: str) -> str:
    """Returns SHA-256, hexadecimal, of the side files of a file and their names; empty if its format has none.

    Raises:
        InputError: a side file cannot be read.
    """
    if not format_spec(format).side_files:
        return ""
    digest = hashlib.sha256()
    try:
        for number, file in enumerate(side_files(path, name, format)):
            digest.update(f"{number} {file.name} {of_file(file, _digest)}\n".encode())
    except OSError as error:
        raise InputError(
            f"corpus.inputs: a list of names beside an input file cannot be read ({os.strerror(error.errno or 0)})."
            " Change its mode or owner, or remove it."
        ) from None
    return digest.hexdigest()


def of_file(path: Path, compute: Callable[[Path], T]) -> T:
    """Returns a value computed from a file, which is remembered as long as the file stays the same.

    Args:
        path: path of a small file
        compute: function of the path; a function of a module, so that it is the same each time

    Raises:
        OSError: the file cannot be read.
    """
    status = path.stat()
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _RACY_NS:
        return compute(path)
    return cast("T", _remembered(key_of(path, compute), path, compute))


@functools.lru_cache(maxsize=16)
def _remembered(key: Hashable, path: Path, compute: Callable[[Path], object]) -> object:
    del key
    return compute(path)


def _digest(path: Path) -> str:
    try:
        with open_ordinary(path) as file:
            return hashlib.file_digest(cast("io.BufferedReader", file), "sha256").hexdigest()
    except NotAFile:
        return ""
