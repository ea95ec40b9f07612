"""The input formats: which files each takes, and how a file of it is cut into rows. Light to import.

A *format* says what a row means; its *row kind* says where a row ends (`pipelines.corpus.rows`). Both follow from the
settings and the file's name alone, so that a `Piece` needs no field for them.
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

# "whole" is a file whose rows only a plug-in can tell: a partition of its own, however many rows it has.

NameFolds = Literal["auto", "always", "never"]

COMPRESSIONS = (".gz", ".zst")
COLUMNAR: tuple[RowKind, ...] = ("parquet", "arrow")
"""Kinds whose pieces are ranges of rows; those of every other kind are ranges of (decompressed) bytes."""

FOLDS = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "test": "test"}
_FOLD_WORDS = FOLDS | {"val": "valid", "trainset": "train", "devset": "valid", "testset": "test"}


@dataclass(frozen=True, kw_only=True)
class FormatSpec:
    """What a format is, as settings, readers and the documentation say it; for plug-ins too.

    Attributes:
        name: in the settings.
        document: what a document of it is, for the documentation.
        kinds: the row kind by suffix, for the files that a folder is searched for; the first one is also that of a
            file named outright with another suffix. ``txt`` stands for what ``txt_document`` says. A plug-in's are
            `PLUGIN_KINDS`.
        example: of a row, for the documentation.
        auto: suffixes that ``format = "auto"`` takes for this format.
        has_header: kinds whose first line names the columns.
        names_fold: whether the file's name says the fold (``train.tsv``) where the row does not.
        holds_pairs: whether rows may hold two texts, joined by `pipelines.corpus.records.PAIR`.
        has_gold: whether its files may say which words are secrets.
        settings: fields of ``[corpus]`` that only some formats read, and this one does.
        options: of a plug-in, what ``[corpus.options]`` may say. A method ``references()`` of the model names the
            modules and files that they select, which count by content.
        packages: of a plug-in, distributions whose version enters keys.
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
            document="an object, one a line",
            example='`{"id": "7", "text": "Hello."}`',
            kinds={".jsonl": "line", ".ndjson": "line"},
            auto=(".jsonl", ".ndjson"),
            names_fold=False,
        ),
        FormatSpec(
            name="json",
            document="an object of an array",
            example='`[{"text": "Hello."}]`',
            kinds={".json": "element"},  # not in auto: folders are full of small ones that are no corpus
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
            document="a mail, a file each",
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
            document="a text: lines between blank ones, a token and its tag of an entity each (BIO, BIOES)",
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
"""What ``format = "auto"`` takes a file for; no plug-in: what is installed must not change a corpus."""

_NAMED_ONLY = (".csv", ".tsv", ".eml", ".mbox", ".mbx")

ENTRY_POINTS = "reticent.readers"
"""Installed packages offer readers of their own under names in this group of entry points."""

PLUGIN_KINDS: tuple[RowKind, ...] = ("whole", "file", "line", "paragraph")
"""Row kinds that a plug-in may say its files are cut by."""


def check_name(name: str) -> None:
    """Checks a format's name without importing a plug-in.

    Raises:
        ValueError: it is neither registered nor an import path; the message gives the nearest name.
    """
    if name != "auto" and name not in FORMATS:
        reference(name)


def is_plugin(format: str) -> bool:
    """Whether a reader of another package reads it."""
    return format != "auto" and format not in FORMATS


def reference(format: str) -> str:
    """``module:Class`` of a plug-in. Raises ValueError as `check_name`."""
    return resolve(format, ("auto", *FORMATS), ENTRY_POINTS, "format", "Class")


@functools.cache
def format_spec(format: str) -> FormatSpec:
    """What a format is; a plug-in is imported.

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
    """The suffix in lower case, that of the compression aside: ``.csv`` for ``a.CSV.gz``."""
    path = PurePosixPath(name.lower())
    return PurePosixPath(path.stem).suffix if path.suffix in COMPRESSIONS else path.suffix


def compression_of(name: str) -> str | None:
    """``.gz``, ``.zst``, or None for a file that is not compressed."""
    suffix = PurePosixPath(name.lower()).suffix
    return suffix if suffix in COMPRESSIONS else None


def format_of(name: str, format: str) -> str | None:
    """The format of a file, by its suffix where ``format`` is ``auto``; None for an unknown suffix."""
    if format != "auto":
        return format
    if compression_of(name) and suffix_of(name) in (".parquet", ".arrow"):  # they compress inside
        return None
    return AUTO.get(suffix_of(name))


def suffixes(format: str) -> tuple[str, ...]:
    """The suffixes that a folder is searched for; ``auto`` leaves out tables in text, which often hold no corpus.

    It leaves out mail as well, so that no upgrade adds to a corpus; ``[[corpus.source]]`` and patterns find both.
    """
    return tuple(s for s in AUTO if s not in _NAMED_ONLY) if format == "auto" else tuple(format_spec(format).kinds)


def row_kind(format: str, name: str, options: ReadOptions) -> RowKind:
    """What a row is in a file of this format and name.

    Raises:
        ConfigError: as `format_spec`.
    """
    kinds = format_spec(format).kinds
    kind = kinds.get(suffix_of(name), next(iter(kinds.values())))
    return options.txt_document if kind == "txt" else kind


def has_header(format: str, kind: RowKind) -> bool:
    """Whether the file's first line names the columns."""
    return kind in format_spec(format).has_header


def delimiter(name: str, format: str, options: ReadOptions) -> str:
    """What separates the columns of a table in text; ``auto``: commas in csv, tabs elsewhere."""
    if options.delimiter != "auto" and "delimiter" in format_spec(format).settings:
        return "\t" if options.delimiter == "tab" else options.delimiter
    if format in ("csv", "tsv"):
        return "\t" if format == "tsv" else ","
    return "," if suffix_of(name) == ".csv" else "\t"


def is_quoted(name: str, format: str, options: ReadOptions) -> bool:
    """Whether columns may stand in double quotes; ``auto``: between tabs no, else yes."""
    if options.quoting == "auto":
        return delimiter(name, format, options) != "\t"
    return options.quoting == "double"


def fold_of_name(name: str) -> str | None:
    """The fold that a file's name or its folder's says (``wiki.train.raw``, ``dev.tsv``, ``test/data.arrow``)."""
    for part in reversed(PurePosixPath(name).parts[-2:]):
        found = {_FOLD_WORDS[word] for word in re.findall(r"[a-z]+", part.lower()) if word in _FOLD_WORDS}
        if len(found) == 1:
            return found.pop()
    return None


def named_fold(name: str, format: str) -> str | None:
    """The fold that a file's name says, in a format whose names do."""
    return fold_of_name(name) if format_spec(format).names_fold else None


def draws_folds(files: Iterable[tuple[str, str]], name_folds: NameFolds) -> bool:
    """Whether folds are drawn although names of files say some: all of them say one and the same, and not train.

    Args:
        files: (name, format) of each.
        name_folds: ``auto``; ``never``, where names say nothing; ``always``, where no file may be left to train on.

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
        f"corpus.inputs: every file is named for held-out text ({', '.join(sorted(map(str, folds)))}), so that none is "
        'left to train on. Name a file for training too, or set corpus.name_folds = "never", which draws the folds.'
    )


def index_settings(format: str, name: str, options: ReadOptions) -> str:
    """What the borders and digests of a file's pieces depend on, the number of rows in a piece aside."""
    options = options.for_file(name)
    kind = row_kind(format, name, options)
    if kind in COLUMNAR:
        return "/".join((kind, *options.columns))
    if kind != "record":
        return kind
    mark = delimiter(name, format, options)
    usual = delimiter(name, format, replace(options, delimiter="auto"))
    return f"{kind}/{is_quoted(name, format, options)}" + (f"/{mark}" if mark != usual else "")
