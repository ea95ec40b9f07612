"""Options for turning rows into documents, which readers and the index share. Light to import."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

KeepOrDrop = Literal["keep", "drop"]
OwnerFrom = Literal["none", "field", "document", "file", "folder", "sender"]

_BYTES_PER_CHAR = 12  # a pair of JSON escapes
_OTHER_BYTES = 1 << 20  # of a record's other fields
SKIP = "skip"
"""Format of ``[[corpus.source]]`` for files that are not read."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Files of one pattern that are read differently (``[[corpus.source]]``).

    Attributes:
        pattern: pattern of file names; see `source_of`
        format: ``auto`` (by suffix, including text tables and mail), a name in `pipelines.corpus.formats.FORMATS`, or
            `SKIP` for files that are not read
        fields: fields of `ReadOptions` that differ, with their values (texts, or tuples of texts)
    """

    pattern: str
    format: str = "auto"
    fields: tuple[tuple[str, Any], ...] = ()


def source_of(name: str, sources: Iterable[SourceOptions]) -> SourceOptions | None:
    """Returns the first source whose pattern matches a file's name, or the end of the name after a slash.

    Args:
        name: name of the file in the corpus, with ``/``; case matters, and ``*`` in a pattern crosses folders
        sources: sources in the order of the settings
    """
    return next((s for s in sources if fnmatchcase(name, s.pattern) or fnmatchcase(name, f"*/{s.pattern}")), None)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of reading, described in ``CorpusConfig``. ``plugin`` is ``[corpus.options]`` as hashable JSON.

    A format sets ``other_columns``, the columns of a table that it reads beside those with a setting.
    """

    txt_document: Literal["file", "line", "paragraph"] = "file"
    text_field: str = "text"
    id_field: str = "id"
    domain_field: str = "domain"
    fold_field: str = "fold"
    label_field: str = "label"
    gold_field: str = "spans"
    quoting: str = "auto"
    delimiter: str = "auto"
    column_names: tuple[str, ...] = ()
    wikitext_joiners: str = "keep"
    mail_headers: tuple[str, ...] = ("Subject",)
    mail_quotes: KeepOrDrop = "drop"
    mail_signatures: KeepOrDrop = "drop"
    dialogue_gap_minutes: float = 60.0
    turns_field: str = ""
    speaker_field: str = "speaker"
    mail_text: Literal["basic", "full"] = "basic"
    encoding: str = "utf-8"
    max_document_chars: int = 1_000_000
    owner_from: OwnerFrom = "none"
    owner_field: str = ""
    plugin: str = "{}"
    sources: tuple[SourceOptions, ...] = ()
    other_columns: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a table that are read."""
        names = [self.text_field, self.id_field, self.domain_field, self.fold_field, self.label_field, self.gold_field]
        names += [self.turns_field.partition(".")[0]] if self.turns_field else []
        if self.owner_from == "field":
            names += [self.owner_field, self.owner_field.partition(".")[0]]
        return tuple(dict.fromkeys((*names, *self.other_columns)))

    @property
    def json_bytes(self) -> int:
        """Size in a file above which one value of JSON, or one row that is no plain text, is not read."""
        return self.max_document_chars * _BYTES_PER_CHAR + _OTHER_BYTES

    def for_file(self, name: str) -> ReadOptions:
        """Returns the options for one file, with the fields of the source that its name matches, if any."""
        return _for_file(self, name) if self.sources else self


@functools.lru_cache(maxsize=1024)
def _for_file(options: ReadOptions, name: str) -> ReadOptions:
    source = source_of(name, options.sources)
    return replace(options, sources=(), **dict(source.fields if source else ()))
