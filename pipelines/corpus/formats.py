"""The input formats, their files and the kinds of their rows. Light to import.

A *format* defines the meaning of a row. Its *row kind* defines the end of a row (`pipelines.corpus.rows`). Both follow
from the settings and the file's name alone, so that a `Piece` needs no field for them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import PurePosixPath
from typing import Any, Literal

from pipelines.corpus.encodings import UTF8
from pipelines.corpus.format_list import FORMATS_OF_TEXT
from pipelines.corpus.format_list_chats import FORMATS_OF_CHATS
from pipelines.corpus.format_list_exports import FORMATS_OF_EXPORTS
from pipelines.corpus.format_list_web import FORMATS_OF_PAGES
from pipelines.corpus.format_spec import FormatSpec, RowKind
from pipelines.corpus.options import ReadOptions
from pipelines.errors import ConfigError, InputError
from pipelines.plugins import load, resolve

NameFolds = Literal["auto", "always", "never"]

COMPRESSIONS = (".gz", ".zst")
_XML_BZ2 = re.compile(r"(.*\.xml)[^./]*\.bz2")
"""Name of a dump of Wikipedia. Other files in bzip2 are not read, so that no upgrade adds files to a corpus."""
COLUMNAR: tuple[RowKind, ...] = ("parquet", "arrow")
"""Kinds whose pieces are ranges of rows. Pieces of other kinds are ranges of (decompressed) bytes."""

FOLDS = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "test": "test"}
_FOLD_WORDS = FOLDS | {"val": "valid", "trainset": "train", "devset": "valid", "testset": "test"}


FORMATS: Mapping[str, FormatSpec] = {
    spec.name: spec for spec in (*FORMATS_OF_TEXT, *FORMATS_OF_CHATS, *FORMATS_OF_EXPORTS, *FORMATS_OF_PAGES)
}

AUTO: Mapping[str, str] = {suffix: spec.name for spec in FORMATS.values() for suffix in spec.auto}
"""Formats of ``format = "auto"`` by suffix, without plug-ins, because installed packages must not change a corpus."""

_NAMED_ONLY = (".csv", ".tsv", ".eml", ".mbox", ".mbx")

ENTRY_POINTS = "reticent.readers"
"""Group of entry points in which installed packages register their readers by name."""

PLUGIN_KINDS: tuple[RowKind, ...] = ("whole", "file", "line", "paragraph")
"""Row kinds that a plug-in may use."""


def check_name(name: str) -> None:
    """Checks a format's name without importing a plug-in.

    Raises:
        ValueError: the name is neither registered nor an import path. The message gives the nearest name.
    """
    if name != "auto" and name not in FORMATS:
        reference(name)


def is_plugin(format: str) -> bool:
    """Checks if a reader of another package reads the format."""
    return format != "auto" and format not in FORMATS


def reference(format: str) -> str:
    """Returns ``module:Class`` of a plug-in. Raises the ValueError of `check_name`."""
    return resolve(format, ("auto", *FORMATS), ENTRY_POINTS, "format", "Class")


@functools.cache
def format_spec(format: str) -> FormatSpec:
    """Returns the definition of a format. Imports a plug-in.

    Raises:
        ConfigError: the format is unknown, or a plug-in cannot be imported or has no usable spec.
    """
    if format in FORMATS:
        return FORMATS[format]
    try:
        spec = load(reference(format)).spec
    except ValueError as error:
        raise ConfigError(f"corpus.format: {error}") from None
    except Exception as error:
        raise ConfigError(
            f"corpus.format: the reader '{format}' cannot be imported, or has no spec ({type(error).__name__}); give "
            "the import path package.module:Class of a class with a FormatSpec"
        ) from error
    if not isinstance(spec, FormatSpec) or not spec.kinds or not set(spec.kinds.values()) <= set(PLUGIN_KINDS):
        raise ConfigError(
            f"corpus.format: the spec of the reader '{format}' must be a FormatSpec with kinds by suffix, each one of "
            f"{', '.join(PLUGIN_KINDS)}"
        )
    return spec


def suffix_of(name: str) -> str:
    """Returns the suffix in lower case, without a compression's suffix: ``.csv`` for ``a.CSV.gz``."""
    dump = _XML_BZ2.fullmatch(name.lower())
    if dump is not None:
        return PurePosixPath(dump[1]).suffix
    path = PurePosixPath(name.lower())
    return PurePosixPath(path.stem).suffix if path.suffix in COMPRESSIONS else path.suffix


def compression_of(name: str) -> str | None:
    """Returns ``.gz``, ``.zst``, ``.bz2`` (of XML only), or None for a file that is not compressed."""
    if _XML_BZ2.fullmatch(name.lower()):
        return ".bz2"
    suffix = PurePosixPath(name.lower()).suffix
    return suffix if suffix in COMPRESSIONS else None


def check_packages(format: str) -> None:
    """Checks that the optional libraries of a built-in format are installed.

    Raises:
        ConfigError: a library is missing. The message says how to install it.
    """
    missing = [name for name in FORMATS[format].packages if not _is_installed(name)] if format in FORMATS else []
    if missing:
        raise ConfigError(
            f"corpus.format: {format} needs {', '.join(missing)}. Install it with: pip install 'reticent[documents]'"
        )


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def format_of(name: str, format: str) -> str | None:
    """Returns the format of a file, by its suffix if ``format`` is ``auto``; None for an unknown suffix."""
    if format != "auto":
        return format
    if compression_of(name) and suffix_of(name) in (".parquet", ".arrow"):  # they compress inside
        return None
    return AUTO.get(suffix_of(name))


def suffixes(format: str) -> tuple[str, ...]:
    """Returns the suffixes to look for in a folder.

    ``auto`` leaves out text tables, which often hold no corpus, and mail, so that no upgrade adds files to a corpus.
    ``[[corpus.source]]`` and patterns find both.
    """
    return tuple(s for s in AUTO if s not in _NAMED_ONLY) if format == "auto" else tuple(format_spec(format).kinds)


def row_kind(format: str, name: str, options: ReadOptions) -> RowKind:
    """Returns the row kind of a file of this format and name.

    Raises:
        ConfigError: see `format_spec`.
    """
    kinds = format_spec(format).kinds
    kind = kinds.get(suffix_of(name), next(iter(kinds.values())))
    if kind == "txt":
        return options.txt_document
    if kind == "json":
        return "file" if options.turns_field == "." else "whole" if "*" in options.turns_field else "element"
    return kind


def file_options(name: str, format: str, options: ReadOptions) -> ReadOptions:
    """Returns the options for one file, with its source's fields and the format's own values in place of defaults.

    Raises:
        ConfigError: see `format_spec`.
    """
    options = options.for_file(name)
    presets = format_spec(format).presets
    return _preset(options, tuple(presets.items())) if presets else options


@functools.lru_cache(maxsize=1024)
def _preset(options: ReadOptions, presets: tuple[tuple[str, Any], ...]) -> ReadOptions:
    defaults = ReadOptions()
    return replace(options, **{k: v for k, v in presets if getattr(options, k) == getattr(defaults, k)})


def has_header(format: str, kind: RowKind, options: ReadOptions) -> bool:
    """Checks if the file's first line names the columns."""
    return kind in format_spec(format).has_header and not column_names(format, options)


def column_names(format: str, options: ReadOptions) -> tuple[str, ...]:
    """Returns the columns' names in a table whose first line is a record; none if the first line names them."""
    return options.column_names if "column_names" in format_spec(format).settings else ()


def delimiter(name: str, format: str, options: ReadOptions) -> str:
    """Returns the separator of columns in a text table; for ``auto``, commas in csv and tabs elsewhere."""
    if options.delimiter != "auto" and "delimiter" in format_spec(format).settings:
        return "\t" if options.delimiter == "tab" else options.delimiter
    if format in ("csv", "tsv"):
        return "\t" if format == "tsv" else ","
    return "," if suffix_of(name) == ".csv" else "\t"


def is_quoted(name: str, format: str, options: ReadOptions) -> bool:
    """Checks if columns may be in double quotes; for ``auto``, unless tabs separate them.

    Quotes have no meaning between separators of several characters.
    """
    mark = delimiter(name, format, options)
    return len(mark) == 1 and (mark != "\t" if options.quoting == "auto" else options.quoting == "double")


def fold_of_name(name: str) -> str | None:
    """Returns the fold in a file's or its folder's name (``wiki.train.raw``, ``dev.tsv``, ``test/data.arrow``)."""
    for part in reversed(PurePosixPath(name).parts[-2:]):
        found = {_FOLD_WORDS[word] for word in re.findall(r"[a-z]+", part.lower()) if word in _FOLD_WORDS}
        if len(found) == 1:
            return found.pop()
    return None


def named_fold(name: str, format: str) -> str | None:
    """Returns the fold in a file's name if the format's names give folds."""
    return fold_of_name(name) if format_spec(format).names_fold else None


def draws_folds(files: Iterable[tuple[str, str]], name_folds: NameFolds) -> bool:
    """Checks if folds are drawn although file names give folds, because all names give the same one and not train.

    Args:
        files: pairs (name, format)
        name_folds: ``never`` to ignore names, ``always`` to refuse names that leave no file to train on, or ``auto``

    Raises:
        InputError: no file is left to train on.
    """
    if name_folds == "never":
        return True
    folds = {named_fold(name, format) for name, format in files}
    if not folds or folds & {None, "train"}:
        return False
    if name_folds == "auto" and len(folds) == 1:
        return True
    raise InputError(
        f"corpus.inputs: the names of all files say held-out text ({', '.join(sorted(map(str, folds)))}), so no file "
        'is left to train on. Name a file for training too, or set corpus.name_folds = "never", which draws the folds.'
    )


def encoding_of_file(format: str, name: str, options: ReadOptions) -> str:
    """Returns the character set from which a file is converted to UTF-8; ``utf-8`` for none."""
    if format_spec(format).own_encoding or row_kind(format, name, options) in COLUMNAR:
        return UTF8
    return options.encoding


def index_settings(format: str, name: str, options: ReadOptions) -> str:
    """Returns the settings that determine borders and digests of a file's pieces, except the rows per piece."""
    options = file_options(name, format, options)
    kind = row_kind(format, name, options)
    if kind in COLUMNAR:
        return "/".join((kind, *options.columns))
    encoding = encoding_of_file(format, name, options)
    suffix = "" if encoding == UTF8 else f"/{encoding}"
    if kind != "record":
        return kind + suffix
    mark = delimiter(name, format, options)
    usual = delimiter(name, format, replace(options, delimiter="auto"))
    no_header = "/no header" if column_names(format, options) else ""
    return f"{kind}/{is_quoted(name, format, options)}" + (f"/{mark}" if mark != usual else "") + no_header + suffix
