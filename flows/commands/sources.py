"""Finds settings of ``[corpus]`` under which a run reads each file as `reticent init` chose, and no other file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from flows.commands.kinds import Kind
from flows.commands.patterns import FEW_NAMES, by_name, patterns_for, usual_pattern
from pipelines.corpus.detect_format import is_empty
from pipelines.corpus.formats import AUTO, format_spec, suffix_of
from pipelines.corpus.listing import list_files
from pipelines.corpus.options import SKIP, SourceOptions, source_of
from pipelines.errors import InputError

_IN_FOLDERS: Final = ("txt", "jsonl", "parquet", "huggingface")
"""Formats that ``auto`` looks for in a folder."""
_ROUNDS: Final = 6

Fields = tuple[tuple[str, Any], ...]


class Table(NamedTuple):
    """A table ``[[corpus.source]]``."""

    pattern: str
    format: str
    fields: Fields = ()


class Settings(NamedTuple):
    """Settings of ``[corpus]``: format, fields and tables."""

    format: str
    fields: Fields
    tables: tuple[Table, ...]


def settings_of(inputs: Sequence[str], kinds: Sequence[Kind]) -> Settings:
    """Returns settings that read each file as its kind says.

    Every file is checked: the files that a run would read with these settings are exactly those that have a format.

    Args:
        inputs: absolute paths of files and folders, or patterns
        kinds: kinds of all files, at least one of them readable
    """
    readable = [kind for kind in kinds if kind.look.format is not None]
    wanted = {file.name: (str(kind.look.format), kind.look.fields) for kind in readable for file in kind.files}
    unread = {file.name: not is_empty(kind.look) for kind in kinds if kind.look.format is None for file in kind.files}
    if len(readable) == 1:
        (only,) = readable
        form = "auto" if _is_by_suffix(only) else str(only.look.format)
        names = [file.name for file in only.files]
        if form == "auto" or all(suffix_of(name) in format_spec(form).kinds for name in names):
            made = _checked(inputs, Settings(form, only.look.fields, ()), wanted, unread)
            if all(table.format == SKIP for table in made.tables):
                return made
    return _checked(inputs, Settings("auto", (), tuple(_tables(kinds, readable))), wanted, unread)


def _is_by_suffix(kind: Kind) -> bool:
    """Checks if ``auto`` finds the kind's files in a folder and reads them in this format."""
    form = kind.look.format
    return form in _IN_FOLDERS and all(AUTO.get(suffix_of(file.name)) == form for file in kind.files)


def _tables(kinds: Sequence[Kind], readable: Sequence[Kind]) -> Iterable[Table]:
    """Yields tables for the kinds that need one, those of few files first: the first table that matches counts."""
    ordered = sorted(readable, key=lambda kind: len(kind.files))
    unread = [f.name for kind in kinds if kind.look.format is None and not is_empty(kind.look) for f in kind.files]
    for number, kind in enumerate(ordered, start=1):
        if not kind.look.fields and _is_by_suffix(kind):
            continue
        later = [file.name for other in ordered[number:] for file in other.files]
        names = [file.name for file in kind.files]
        patterns = patterns_for(names, [*later, *unread])
        if len(patterns) > FEW_NAMES and number == len(ordered):
            patterns = usual_pattern(names)
        yield from (Table(pattern, str(kind.look.format), kind.look.fields) for pattern in patterns)


def _checked(
    inputs: Sequence[str], made: Settings, wanted: Mapping[str, tuple[str, Fields]], unread: Mapping[str, bool]
) -> Settings:
    """Adds tables in front until a run reads each file as wanted, and leaves the unread ones out.

    Args:
        inputs: absolute paths, or patterns
        made: settings to check
        wanted: format and fields by name of a file
        unread: names of the files that must not be read; the flag is false for empty files, which do not matter
    """
    for _ in range(_ROUNDS):
        read = _read_as(inputs, made)
        if read is None:  # a file that was named directly has no known format
            extra = [name for name in unread if source_of(name, _options(made.tables)) is None]
        else:
            extra = [name for name in read if unread.get(name)]
        wrong: dict[tuple[str, Fields], list[str]] = {}
        for name, how in wanted.items():
            if read is not None and read.get(name) != how:
                wrong.setdefault(how, []).append(name)
        if not extra and not wrong:
            break
        added = []
        for (form, fields), names in wrong.items():
            these = set(names)
            others = [name for name in (*wanted, *unread) if name not in these and unread.get(name, True)]
            added += [Table(pattern, form, fields) for pattern in patterns_for(names, others)]
        if extra:
            patterns = patterns_for(extra, list(wanted))
            few = patterns if len(patterns) <= FEW_NAMES else by_name(extra)
            added += [Table(pattern, SKIP) for pattern in few]
        made = made._replace(tables=(*added, *made.tables))
    return made


def _options(tables: Sequence[Table]) -> tuple[SourceOptions, ...]:
    return tuple(SourceOptions(pattern=t.pattern, format=t.format, fields=t.fields) for t in tables)


def _read_as(inputs: Sequence[str], made: Settings) -> dict[str, tuple[str, Fields]] | None:
    """Returns format and fields of each file that a run would read. None if it would refuse the inputs."""
    sources = _options(made.tables)
    try:
        files = list_files(inputs, Path("/"), made.format, sources)
    except InputError:
        return None
    read = {}
    for file in files:
        source = source_of(file.name, sources)
        fields = {**dict(made.fields), **dict(source.fields if source else ())}
        read[file.name] = (file.format, tuple(sorted(fields.items())))
    return read
