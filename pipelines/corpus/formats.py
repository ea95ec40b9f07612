"""The input formats, their files and the kinds of their rows. Light to import.

A *format* defines the meaning of a row. Its *row kind* defines the end of a row (`pipelines.corpus.rows`). Both follow
from the settings and the file's name alone, so that a `Piece` needs no field for them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from pipelines.corpus.options import ReadOptions
from pipelines.errors import ConfigError, InputError
from pipelines.plugins import load, resolve

if TYPE_CHECKING:
    from pydantic import BaseModel

RowKind = Literal[
    "file", "line", "paragraph", "record", "article", "conversation", "episode", "dialogue", "element",
    "parquet", "arrow", "whole", "message",
]  # fmt: skip

# "whole" is a file whose rows only a plug-in can find. It is one partition, however many rows it has.

NameFolds = Literal["auto", "always", "never"]

COMPRESSIONS = (".gz", ".zst")
COLUMNAR: tuple[RowKind, ...] = ("parquet", "arrow")
"""Kinds whose pieces are ranges of rows. Pieces of other kinds are ranges of (decompressed) bytes."""

FOLDS = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "test": "test"}
_FOLD_WORDS = FOLDS | {"val": "valid", "trainset": "train", "devset": "valid", "testset": "test"}


@dataclass(frozen=True, kw_only=True)
class FormatSpec:
    """The definition of a format, for settings, readers, documentation and plug-ins.

    Attributes:
        name: name in the settings
        document: description of a document, for the documentation
        kinds: row kind by suffix, for files found in a folder; the first kind also applies to a file that you name
            directly with another suffix. ``txt`` means the kind in ``txt_document``. A plug-in's are `PLUGIN_KINDS`.
        example: example of a row, for the documentation
        auto: suffixes that ``format = "auto"`` reads in this format
        has_header: kinds whose first line names the columns
        names_fold: flag that the file's name gives the fold (``train.tsv``) if the row does not
        holds_pairs: flag that rows may hold two texts, joined by `pipelines.corpus.records.PAIR`
        has_gold: flag that files may mark words as secrets
        settings: fields of ``[corpus]`` that this format reads and some others do not
        options: model of a plug-in's ``[corpus.options]``; its method ``references()``, if any, names the modules and
            files that the options select, which count by content
        packages: distributions of a plug-in, whose versions enter keys
    """

    name: str
    document: str
    kinds: Mapping[str, RowKind | Literal["txt"]]
    example: str = ""
    auto: tuple[str, ...] = ()
    has_header: tuple[RowKind, ...] = ("record",)
    names_fold: bool = True
    holds_pairs: bool = False
    has_gold: bool = True
    settings: tuple[str, ...] = ()
    options: type[BaseModel] | None = None
    packages: tuple[str, ...] = ()


FORMATS: Mapping[str, FormatSpec] = {
    spec.name: spec
    for spec in (
        FormatSpec(
            name="txt",
            document="a file, a line or a paragraph",
            example="`Thank you for calling.`",
            kinds={".txt": "txt"},
            auto=(".txt",),
            names_fold=False,
            has_gold=False,
            settings=("txt_document",),
        ),
        FormatSpec(
            name="jsonl",
            document="an object, one per line",
            example='`{"id": "7", "text": "Hello."}`',
            kinds={".jsonl": "line", ".ndjson": "line"},
            auto=(".jsonl", ".ndjson"),
            names_fold=False,
        ),
        FormatSpec(
            name="json",
            document="an object of an array",
            example='`[{"text": "Hello."}]`',
            kinds={".json": "element"},  # not in auto: folders often hold small .json files that are not a corpus
            names_fold=False,
        ),
        FormatSpec(
            name="csv",
            document="a record; the first line names the columns",
            example='`id,text` / `7,"Hello, you."`',
            kinds={".csv": "record"},
            auto=(".csv",),
            names_fold=False,
            settings=("quoting", "delimiter"),
        ),
        FormatSpec(
            name="tsv",
            document='a record, without quotes unless `quoting = "double"`',
            example="`id⇥text` / `7⇥Hello.`",
            kinds={".tsv": "record"},
            auto=(".tsv",),
            names_fold=False,
            settings=("quoting", "delimiter"),
        ),
        FormatSpec(
            name="parquet",
            document="a row",
            example="columns `text`, `id`",
            kinds={".parquet": "parquet"},
            auto=(".parquet",),
            names_fold=False,
        ),
        FormatSpec(
            name="huggingface",
            document="a row of a folder that `datasets` saved",
            example="`train/data-00000-of-00001.arrow`",
            kinds={".arrow": "arrow", ".parquet": "parquet"},
            auto=(".arrow",),
        ),
        FormatSpec(
            name="wikitext",
            document="an article",
            example="` = Title =`, then its text",
            kinds={".raw": "article", ".tokens": "article", ".txt": "article"},
            has_gold=False,
            settings=("wikitext_joiners",),
        ),
        FormatSpec(
            name="dialogue",
            document="a dialogue; it ends with the file or before a line that starts with `<\\|endoftext\\|>`",
            example="`SYS: Hello.` / `USR: Hi.`",
            kinds={".txt": "dialogue", ".jsonl": "line"},
        ),
        FormatSpec(
            name="multidogo",
            document="a conversation",
            example="the data set's own files",
            kinds={".tsv": "conversation"},
            has_header=("conversation",),
        ),
        FormatSpec(
            name="e2e",
            document="a meaning representation, written out, and its reference, joined by ` \\|\\| `",
            example="`name[Aromi]` → `name : Aromi \\|\\| Aromi is a pub.`",
            kinds={".csv": "record", ".tsv": "record", ".jsonl": "line"},
            holds_pairs=True,
            has_gold=False,
            settings=("quoting", "delimiter"),
        ),
        FormatSpec(
            name="dart",
            document="triples and their text, joined by ` \\|\\| `",
            example="the data set's own files",
            kinds={".json": "element", ".jsonl": "line"},
            holds_pairs=True,
            has_gold=False,
        ),
        FormatSpec(
            name="glue",
            document="a sentence, or a pair joined by ` \\|\\| `",
            example="`sentence⇥label` / `fine film⇥1`",
            kinds={".tsv": "record", ".csv": "record", ".jsonl": "line"},
            holds_pairs=True,
            has_gold=False,
            settings=("quoting", "delimiter"),
        ),
        FormatSpec(
            name="mail",
            document="a mail, one per file",
            example="`Subject: …`, the other headers, a blank line, the text",
            kinds={".eml": "file"},
            auto=(".eml",),
            names_fold=False,
            has_gold=False,
            settings=("mail_headers", "mail_quotes", "mail_signatures"),
        ),
        FormatSpec(
            name="mbox",
            document="a mail of a mailbox",
            example="`From ann@example.org Mon Jan  5 10:00:00 2026`, then the mail",
            kinds={".mbox": "message", ".mbx": "message"},
            auto=(".mbox", ".mbx"),
            names_fold=False,
            has_gold=False,
            settings=("mail_headers", "mail_quotes", "mail_signatures"),
        ),
        FormatSpec(
            name="conll",
            document="a text: lines between blank ones, each with a token and its entity tag (BIO, BIOES)",
            example="`Ann⇥B-person`",
            kinds={".conll": "paragraph", ".bio": "paragraph", ".iob": "paragraph"},
        ),
        FormatSpec(
            name="personachat",
            document="a conversation",
            example="`1 your persona: i ski.`",
            kinds={".txt": "episode"},
            has_gold=False,
        ),
    )
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
    path = PurePosixPath(name.lower())
    return PurePosixPath(path.stem).suffix if path.suffix in COMPRESSIONS else path.suffix


def compression_of(name: str) -> str | None:
    """Returns ``.gz``, ``.zst``, or None for a file that is not compressed."""
    suffix = PurePosixPath(name.lower()).suffix
    return suffix if suffix in COMPRESSIONS else None


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
    return options.txt_document if kind == "txt" else kind


def has_header(format: str, kind: RowKind) -> bool:
    """Checks if the file's first line names the columns."""
    return kind in format_spec(format).has_header


def delimiter(name: str, format: str, options: ReadOptions) -> str:
    """Returns the separator of columns in a text table; for ``auto``, commas in csv and tabs elsewhere."""
    if options.delimiter != "auto" and "delimiter" in format_spec(format).settings:
        return "\t" if options.delimiter == "tab" else options.delimiter
    if format in ("csv", "tsv"):
        return "\t" if format == "tsv" else ","
    return "," if suffix_of(name) == ".csv" else "\t"


def is_quoted(name: str, format: str, options: ReadOptions) -> bool:
    """Checks if columns may be in double quotes; for ``auto``, unless tabs separate them."""
    if options.quoting == "auto":
        return delimiter(name, format, options) != "\t"
    return options.quoting == "double"


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


def index_settings(format: str, name: str, options: ReadOptions) -> str:
    """Returns the settings that determine borders and digests of a file's pieces, except the rows per piece."""
    options = options.for_file(name)
    kind = row_kind(format, name, options)
    if kind in COLUMNAR:
        return "/".join((kind, *options.columns))
    if kind != "record":
        return kind
    mark = delimiter(name, format, options)
    usual = delimiter(name, format, replace(options, delimiter="auto"))
    return f"{kind}/{is_quoted(name, format, options)}" + (f"/{mark}" if mark != usual else "")
