"""Lists the files that ``dedup.against`` names. Light to import, because plans use it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.corpus.listing import FileList, list_files
from pipelines.errors import InputError

SUFFIX = ".bloom"
"""Suffix of saved filters."""


def is_filter(path: str) -> bool:
    """Checks if a path names a saved filter rather than a corpus."""
    return path.lower().endswith(SUFFIX)


def data_files(given: Sequence[str]) -> list[Path]:
    """Lists every file that ``dedup.against`` names, in order.

    Raises:
        InputError: a path is missing or holds nothing to read.
    """
    filters = [Path(path) for path in given if is_filter(path)]
    corpora = [path for path in given if not is_filter(path)]
    return [*filters, *(file.path for file in listed(corpora))] if corpora else filters


def listed(given: Sequence[str]) -> FileList:
    """Lists the text files of absolute paths and patterns. Raises the errors of `data_files`."""
    try:
        return list_files(given, Path("/"))
    except InputError as error:
        raise of_other(error) from None


def of_other(error: InputError) -> InputError:
    """Rewords an error of reading the other corpus: names the setting ``dedup.against``, whose paths are absolute."""
    text = str(error).replace(" (relative paths start at the settings file's folder)", "")
    return InputError(text.replace("corpus.inputs", "dedup.against"))
