"""The input formats: which files each takes, and how a file of it is cut into rows. Light to import.

A *format* says what a row means; its *row kind* says where a row ends (`pipelines.corpus.rows`). Both follow from the
settings and the file's name alone, so that a `Piece` needs no field for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from pipelines.corpus.options import ReadOptions

RowKind = Literal[
    "file", "line", "paragraph", "record", "article", "conversation", "episode", "dialogue", "element",
    "parquet", "arrow",
]  # fmt: skip

COMPRESSIONS = (".gz", ".zst")
COLUMNAR: tuple[RowKind, ...] = ("parquet", "arrow")
"""Kinds whose pieces are ranges of rows; those of every other kind are ranges of (decompressed) bytes."""

FOLDS = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "test": "test"}
_FOLD_WORDS = FOLDS | {"val": "valid", "trainset": "train", "devset": "valid", "testset": "test"}


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format.

    Attributes:
        kinds: the row kind by suffix, for the files that a folder is searched for; the first one is also that of a
            file named outright with another suffix. ``txt`` stands for what ``txt_document`` says.
        has_header: kinds whose first line names the columns.
        names_fold: whether the file's name says the fold (``train.tsv``) where the row does not.
    """

    kinds: Mapping[str, RowKind | Literal["txt"]]
    has_header: tuple[RowKind, ...] = ("record",)
    names_fold: bool = True


FORMATS: Mapping[str, Format] = {
    "txt": Format(kinds={".txt": "txt"}, names_fold=False),
    "jsonl": Format(kinds={".jsonl": "line", ".ndjson": "line"}, names_fold=False),
    "json": Format(kinds={".json": "element"}, names_fold=False),
    "csv": Format(kinds={".csv": "record"}, names_fold=False),
    "tsv": Format(kinds={".tsv": "record"}, names_fold=False),
    "parquet": Format(kinds={".parquet": "parquet"}, names_fold=False),
    "huggingface": Format(kinds={".arrow": "arrow", ".parquet": "parquet"}),
    "wikitext": Format(kinds={".raw": "article", ".tokens": "article", ".txt": "article"}),
    "dialogue": Format(kinds={".txt": "dialogue", ".jsonl": "line"}),
    "multidogo": Format(kinds={".tsv": "conversation"}, has_header=("conversation",)),
    "e2e": Format(kinds={".csv": "record", ".tsv": "record", ".jsonl": "line"}),
    "dart": Format(kinds={".json": "element", ".jsonl": "line"}),
    "glue": Format(kinds={".tsv": "record", ".csv": "record", ".jsonl": "line"}),
    "personachat": Format(kinds={".txt": "episode"}),
}

HOLD_PAIRS = frozenset({"e2e", "dart", "glue"})
"""Formats whose rows may hold two texts, joined by `pipelines.corpus.records.PAIR`."""

# What `format = "auto"` takes a file for. Not .json: folders are full of small ones that are no corpus.
AUTO: Mapping[str, str] = {
    suffix: name
    for name in ("txt", "jsonl", "csv", "tsv", "parquet", "huggingface")
    for suffix in FORMATS[name].kinds
    if (name, suffix) != ("huggingface", ".parquet")
}


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
    """The suffixes that a folder is searched for; ``auto`` leaves tables in text out, which often hold no corpus."""
    return tuple(s for s in AUTO if s not in (".csv", ".tsv")) if format == "auto" else tuple(FORMATS[format].kinds)


def row_kind(format: str, name: str, options: ReadOptions) -> RowKind:
    """What a row is in a file of this format and name.

    Raises:
        ValueError: the format is unknown.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown input format {format!r}")
    kinds = FORMATS[format].kinds
    kind = kinds.get(suffix_of(name), next(iter(kinds.values())))
    return options.txt_document if kind == "txt" else kind


def has_header(format: str, kind: RowKind) -> bool:
    """Whether the file's first line names the columns."""
    return kind in FORMATS[format].has_header


def delimiter(name: str, format: str) -> str:
    """What separates the columns of a table in text."""
    if format in ("csv", "tsv"):
        return "\t" if format == "tsv" else ","
    return "," if suffix_of(name) == ".csv" else "\t"


def is_quoted(name: str, format: str, options: ReadOptions) -> bool:
    """Whether columns may stand in double quotes; ``auto``: with commas, yes, with tabs, no."""
    if options.quoting == "auto":
        return delimiter(name, format) == ","
    return options.quoting == "double"


def fold_of_name(name: str) -> str | None:
    """The fold that a file's name or its folder's says (``wiki.train.raw``, ``dev.tsv``, ``test/data.arrow``)."""
    for part in reversed(PurePosixPath(name).parts[-2:]):
        found = {_FOLD_WORDS[word] for word in re.findall(r"[a-z]+", part.lower()) if word in _FOLD_WORDS}
        if len(found) == 1:
            return found.pop()
    return None


def index_settings(format: str, name: str, options: ReadOptions) -> str:
    """What the borders and digests of a file's pieces depend on, the number of rows in a piece aside."""
    kind = row_kind(format, name, options)
    if kind in COLUMNAR:
        return "/".join((kind, *options.columns))
    return f"{kind}/{is_quoted(name, format, options)}" if kind == "record" else kind
