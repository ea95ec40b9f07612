"""Finds the input files of the user's paths, folders and patterns, in document order.

Messages name only the user's own inputs, because names of files inside a folder are private.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.corpus.formats import AUTO, format_of, suffix_of, suffixes
from pipelines.corpus.options import SKIP, SourceOptions, source_of
from pipelines.errors import InputError
from pipelines.files import decoded_name

IGNORED_STEMS = ("readme", "license", "licence", "notice")
OWN_README = "Simulated customer support dialogues, written by Reticent's CustomerSim simulator."
"""First line of the built-in corpus's README, which is not counted among the files left out."""
HIDDEN, HIDDEN_FOLDER, ABOUT, CACHE, NO_SUFFIX = "hidden", "hidden folder", "readme or licence", "cache", "no suffix"
EMPTY = "empty"
FORGOTTEN = "forgotten"
OTHER_SUFFIX = "other suffix"
SKIPPED = "skipped by corpus.source"
_SUFFIX = re.compile(r"\.[a-z0-9_+-]{1,12}")
_SHOWN_SUFFIXES = 8


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file to read.

    Attributes:
        path: path of the file
        name: path relative to the input, with ``/``; unique in the corpus
        format: name in `pipelines.corpus.formats.FORMATS`
        given: input of the user that led to this file, for messages
    """

    path: Path
    name: str
    format: str
    given: str


class FileList(list[InputFile]):
    """The input files in document order.

    Attributes:
        left_out: number of files that were left out, by suffix or by a reason such as `HIDDEN`; a hidden folder counts
            as one entry, whatever it holds
    """

    def __init__(self, format: str = "auto", sources: Sequence[SourceOptions] = ()) -> None:
        super().__init__()
        self.left_out: Counter[str] = Counter()
        self._format = format
        self._sources = sources

    def format_of(self, name: str, *, in_folder: bool = False) -> str | None:
        """Returns the format of a file of this name in the corpus; None if the file is not read.

        Args:
            name: name of the file
            in_folder: true if the file was found in a folder, of which only files with the format's suffixes are read
        """
        source = source_of(name, self._sources)
        if source is not None:
            return None if source.format == SKIP else format_of(name, source.format)
        is_wanted = not in_folder or suffix_of(name) in suffixes(self._format)
        return format_of(name, self._format) if is_wanted else None

    def kind_of(self, name: str) -> str:
        """Returns the kind under which a file that is not read is counted."""
        source = source_of(name, self._sources)
        return SKIPPED if source is not None and source.format == SKIP else _suffix(name)


def left_out_text(left_out: Mapping[str, int]) -> str:
    """Formats counts as ``12 .pdf, 3 .png, 1 hidden``, the most frequent first."""
    listed = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    text = ", ".join(f"{number:,} {why}" for why, number in listed[:_SHOWN_SUFFIXES])
    rest = sum(number for _, number in listed[_SHOWN_SUFFIXES:])
    return f"{text}, {rest:,} others" if rest else text


def list_files(
    inputs: Sequence[str | Path], base_dir: Path, format: str = "auto", sources: Sequence[SourceOptions] = ()
) -> FileList:
    """Finds the input files, in document order (by name).

    A folder is searched recursively for files with a suffix of the format (in any case, also with ``.gz`` and
    ``.zst``; with ``auto``, a suffix of every format that has its own). Hidden files and folders, files called README,
    LICENSE or NOTICE, and the caches of ``datasets`` are left out. A file that you name directly is always read. A
    pattern selects its matches, by suffix unless ``format`` is given. A file reached twice counts once. A pipe, a
    device or the like in a folder is listed too, so that the reader can reject it by name; if you name it directly, it
    is refused.

    Args:
        inputs: files, folders or glob patterns (``**`` crosses folders), relative to ``base_dir`` or absolute
        base_dir: folder of the settings file
        format: ``auto`` (by suffix), or a name in `pipelines.corpus.formats.FORMATS`
        sources: files of other formats; those in a folder are read whatever their suffix

    Raises:
        InputError: a path is missing, a pattern matches nothing, a folder is named like a file, the format of a file is
            unknown, a link points to no file, or there is nothing to read at all.
    """
    found = FileList(format, sources)
    names: dict[str, Path] = {}
    seen: set[Path] = set()
    for given in (str(value) for value in inputs):
        for path, name in _expand(given, base_dir, found):
            resolved = path.resolve()
            if resolved in seen:
                continue
            seen.add(resolved)
            name = _unique_name(name, resolved, names)
            names[name] = resolved
            form = found.format_of(name) or format  # `_expand` takes no file of an unknown one
            found.append(InputFile(path=path, name=name, format=form, given=given))
    if not found:
        wanted = " or ".join(f"*{suffix}" for suffix in suffixes(format))
        others = f" (left out: {left_out_text(found.left_out)})" if found.left_out else ""
        shown = ", ".join(str(value) for value in inputs) or "(none)"
        raise InputError(
            f"corpus.inputs holds nothing to read: no {wanted} file in {shown}"
            f"{others}. Put files there, or change corpus.inputs;"
            ' for files of another suffix give a pattern such as "folder/*.raw" and set corpus.format = "txt";'
            ' for csv and tsv files give a pattern such as "folder/*.csv".'
        )
    found.sort(key=lambda file: file.name)
    return found


def _expand(given: str, base_dir: Path, found: FileList) -> list[tuple[Path, str]]:
    path = base_dir / Path(given).expanduser()
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise InputError(f"corpus.inputs: the link {given} leads to itself. Remove it, or correct it.") from None
        if glob.has_magic(given) and not isinstance(error, PermissionError):
            return _expand_pattern(given, path, found)
        if isinstance(error, PermissionError):
            raise InputError(f"corpus.inputs: no permission to read {given}. Change its mode or owner.") from None
        raise InputError(
            f"corpus.inputs: there is no file or folder {given} (relative paths start at the settings file's folder)."
        ) from None
    if stat.S_ISDIR(mode):
        if suffix_of(path.name) in AUTO:
            raise InputError(
                f"corpus.inputs: {given} is a folder with a file's name. Name the file in it, or rename the folder."
            )
        return _walk(given, path, found)
    if not stat.S_ISREG(mode):
        raise InputError(f"corpus.inputs: {given} is neither a file nor a folder (a pipe or a device?).")
    if given.endswith("/"):
        raise InputError(f"corpus.inputs: {given} is a file, but is written as a folder. Drop the final slash.")
    name = decoded_name(path.name)
    if found.format_of(name) is None and found.kind_of(name) == SKIPPED:
        found.left_out[SKIPPED] += 1
        return []
    if found.format_of(name) is None:
        raise InputError(
            f'corpus.inputs: the format of {given} is unknown. Set corpus.format ("txt", "jsonl", "csv", …),'
            " or rename the file."
        )
    return [(path, name)]


def _expand_pattern(given: str, path: Path, found: FileList) -> list[tuple[Path, str]]:
    matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
    files = [match for match in matches if match.exists() and not match.is_dir()]
    # Names are relative to the part of the pattern before its first wildcard.
    root = path
    while glob.has_magic(str(root)):
        root = root.parent
    names = {match: decoded_name(match.relative_to(root).as_posix()) for match in matches}
    for match in matches:
        if found.format_of(names[match]) is not None:
            _refuse_dangling(match, given)
    if not files:
        raise InputError(f"corpus.inputs: no file matches {given}. Check the pattern; ** crosses folders.")
    found.left_out.update(found.kind_of(names[file]) for file in files if found.format_of(names[file]) is None)
    return [(file, names[file]) for file in files if found.format_of(names[file]) is not None]


def _walk(given: str, root: Path, found: FileList) -> list[tuple[Path, str]]:
    chosen: list[tuple[Path, str]] = []
    folders = [root]
    visited: set[tuple[int, int]] = set()
    while folders:
        folder = folders.pop()
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            raise InputError(
                f"corpus.inputs: a folder in {given} cannot be read. `find -L {given} ! -readable` shows which."
            ) from None
        if (status.st_dev, status.st_ino) in visited:  # a link back to a folder above
            continue
        visited.add((status.st_dev, status.st_ino))
        for entry in entries:
            hidden = entry.name.startswith(".")
            if _is_dir(entry):
                if hidden:
                    found.left_out[HIDDEN_FOLDER] += 1
                else:
                    folders.append(folder / entry.name)
                continue
            path = folder / entry.name
            name = decoded_name(path.relative_to(root).as_posix())
            spare = _spare(path)
            is_wanted = found.format_of(name, in_folder=True) is not None
            if is_wanted and not hidden and not spare:
                _refuse_dangling(path, given)
            if spare == ABOUT and _is_own(path):
                continue
            if hidden or spare or not is_wanted:
                found.left_out[HIDDEN if hidden else spare or found.kind_of(name)] += 1
            else:
                chosen.append((path, name))
    # Sorts before names are made unique, so that the result does not depend on the order of the walk.
    return sorted(chosen, key=lambda item: item[1])


def _spare(path: Path) -> str | None:
    """Returns the reason why a file with a readable suffix is left out anyway, or None."""
    if path.stem.lower() in IGNORED_STEMS:
        return ABOUT
    return CACHE if path.stem.lower().startswith("cache-") and path.suffix == ".arrow" else None


def _is_own(path: Path) -> bool:
    expected = OWN_README.encode()
    try:
        with path.open("rb") as file:
            return file.read(len(expected)) == expected
    except OSError:
        return False


def _suffix(name: str) -> str:
    """Returns the kind under which a left-out file is counted. Hides a suffix that may be a part of the name itself."""
    suffix = suffix_of(name)
    if not suffix:
        return NO_SUFFIX
    return suffix if _SUFFIX.fullmatch(suffix) else OTHER_SUFFIX


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _refuse_dangling(path: Path, given: str) -> None:
    """Refuses a link to a missing file: a part of the corpus is missing, which must not be left out silently."""
    if path.is_symlink() and not path.exists():
        raise InputError(
            f"corpus.inputs: a link in {given} points to no file. Fetch the file or remove the link;"
            f" `find {given} -xtype l` shows which."
        )


def _unique_name(name: str, resolved: Path, names: Mapping[str, Path]) -> str:
    """Adds parent folders to a name that a file of an earlier input already has."""
    parts = list(resolved.parts[: len(resolved.parts) - len(Path(name).parts)])
    while name in names and parts:
        name = f"{decoded_name(parts.pop()).strip('/')}/{name}"
    return name
