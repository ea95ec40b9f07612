"""The definition of an input format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic import BaseModel

RowKind = Literal[
    "file", "line", "paragraph", "record", "article", "conversation", "episode", "dialogue", "element",
    "parquet", "arrow", "whole", "message", "post", "page",
]  # fmt: skip

# "whole" is a file whose rows only a plug-in can find. It is one partition, however many rows it has.


@dataclass(frozen=True, kw_only=True)
class FormatSpec:
    """The definition of a format, for settings, readers, documentation and plug-ins.

    Attributes:
        name: name in the settings
        document: description of a document, for the documentation
        kinds: row kind by suffix, for files found in a folder; the first kind also applies to a file that you name
            directly with another suffix. ``txt`` means the kind in ``txt_document``, and ``json`` the kind that
            ``turns_field`` gives. A plug-in's are `PLUGIN_KINDS`.
        example: example of a row, for the documentation
        auto: suffixes that ``format = "auto"`` reads in this format
        has_header: kinds whose first line names the columns
        names_fold: flag that the file's name gives the fold (``train.tsv``) if the row does not
        holds_pairs: flag that rows may hold two texts, joined by `pipelines.corpus.records.PAIR`
        has_gold: flag that files may mark words as secrets
        settings: fields of ``[corpus]`` that this format reads and some others do not
        own_encoding: flag that the files name their character sets themselves, or hold no text as it is (mail, office
            files), so that ``corpus.encoding`` does not apply
        options: model of a plug-in's ``[corpus.options]``; its method ``references()``, if any, names the modules and
            files that the options select, which count by content
        packages: distributions of a plug-in, whose versions enter keys
        reader: ``module:Class`` of a reader that yields the documents of a file, if the format has one. Formats whose
            records are documents (`pipelines.corpus.datasets.RECORDS`) use it for the kinds ``whole`` and ``file``.
        presets: values of fields of `pipelines.corpus.options.ReadOptions` that replace their defaults
        side_files: names of files that the reader needs too, such as a list of users. The reader is created as
            ``Class(options, *paths)`` with those that exist in the file's folder, or in the folder above it if that is
            inside an input.
    """

    name: str
    document: str
    kinds: Mapping[str, RowKind | Literal["txt", "json"]]
    example: str = ""
    auto: tuple[str, ...] = ()
    has_header: tuple[RowKind, ...] = ("record",)
    names_fold: bool = True
    holds_pairs: bool = False
    has_gold: bool = True
    settings: tuple[str, ...] = ()
    own_encoding: bool = False
    options: type[BaseModel] | None = None
    packages: tuple[str, ...] = ()
    reader: str = ""
    presets: Mapping[str, Any] = field(default_factory=dict)
    side_files: tuple[str, ...] = ()


unlabelled = partial(FormatSpec, names_fold=False, has_gold=False)
"""Makes the definition of a format whose files have no marked secrets, and no fold in their names."""
