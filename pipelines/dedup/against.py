"""Which files ``dedup.against`` stands for. Light to import, for a plan asks it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.corpus.listing import FileList, list_files
from pipelines.errors import InputError

SUFFIX = ".bloom"
"""Of saved filters."""


def is_filter(path: str) -> bool:
    """Whether a path names a saved filter rather than a corpus."""
    return path.lower().endswith(SUFFIX)


def data_files(given: Sequence[str]) -> list[Path]:
    """Every file that ``dedup.against`` stands for, in order.

    Raises:
        InputError: a path is missing or holds nothing to read.
    """
    filters = [Path(path) for path in given if is_filter(path)]
    corpora = [path for path in given if not is_filter(path)]
    return [*filters, *(file.path for file in listed(corpora))] if corpora else filters


def listed(given: Sequence[str]) -> FileList:
    """The files of text among absolute paths of files and folders, and patterns. Raises as `data_files`."""
    try:
        return list_files(given, Path("/"))
    except InputError as error:
        raise of_other(error) from None


def of_other(error: InputError) -> InputError:
    """What reading the other corpus raised, by the name of the setting that gives it; its paths are absolute."""
    text = str(error).replace(" (relative paths start at the settings file's folder)", "")
    return InputError(text.replace("corpus.inputs", "dedup.against"))
