"""Settings of ``[corpus]``: the text to read, and the form of its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from pipelines.config import StageConfig
from pipelines.corpus import formats
from pipelines.corpus.encodings import checked_encoding
from pipelines.corpus.options import SKIP, KeepOrDrop, OwnerFrom, ReadOptions, SourceOptions
from pipelines.corpus.owners import OwnerMissing
from pipelines.corpus.plugin import make_reader
from pipelines.corpus.records import PAIR
from pipelines.files import canonical_json
from pipelines.plugins import check_options, nearest, option_references

_MAX_DELIMITER: Final = 12
_BORDERS: Final = (
    "format",
    "txt_document",
    "quoting",
    "delimiter",
    "column_names",
    "turns_field",
    "dialogue_gap_minutes",
)
"""Settings that decide where a document begins and ends."""


def _checked_encoding(name: str | None) -> str | None:
    return None if name is None else checked_encoding(name)


def _checked_delimiter(mark: str | None) -> str | None:
    if mark in (None, "auto", ",", ";", "tab", "|"):
        return mark
    is_long = 2 <= len(mark) <= _MAX_DELIMITER and mark.isprintable() and '"' not in mark
    if not is_long or any(char.isalnum() or char.isspace() for char in mark):
        raise ValueError('give "auto", ",", ";", "tab", "|", or two to twelve signs without blanks, letters and quotes')
    return mark


class CorpusSource(StageConfig):
    """A table ``[[corpus.source]]``: files read in another way. A field that is left out is as in ``[corpus]``."""

    LATER: ClassVar[frozenset[str]] = frozenset(
        {
            *("encoding", "mail_text", "turns_field", "speaker_field", "column_names", "dialogue_gap_minutes"),
            *("owner_from", "owner_field"),
        }
    )

    pattern: str = Field(min_length=1, description="Pattern of names of files in the corpus; * crosses folders.")
    format: str = Field(
        "auto",
        description="Their format; auto goes by suffix, with tables in text and mail. skip: not read, but counted.",
    )
    txt_document: Literal["file", "line", "paragraph"] | None = None
    quoting: Literal["auto", "double", "none"] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    mail_text: Literal["basic", "full"] | None = None
    column_names: tuple[str, ...] | None = None
    text_field: str | None = None
    id_field: str | None = None
    domain_field: str | None = None
    fold_field: str | None = None
    label_field: str | None = None
    gold_field: str | None = None
    turns_field: str | None = None
    speaker_field: str | None = None
    dialogue_gap_minutes: float | None = Field(None, gt=0)
    owner_from: Literal["field", "document", "file", "folder", "sender"] | None = None
    owner_field: str | None = None

    @field_validator("format")
    @classmethod
    def _known_format(cls, name: str) -> str:
        if name not in ("auto", SKIP) and name not in formats.FORMATS:
            raise ValueError(
                f"unknown format '{name}'; {nearest(name, formats.FORMATS)}known: auto, skip, "
                f"{', '.join(formats.FORMATS)}; "
                "name a reader of your own in corpus.format"
            )
        return name

    _known_encoding = field_validator("encoding")(_checked_encoding)
    _known_delimiter = field_validator("delimiter")(_checked_delimiter)

    @model_serializer(mode="wrap")
    def _without_silent(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out fields of a later version that are not set, because tables enter keys as a whole."""
        return {name: value for name, value in serialise(self).items() if name not in self.silent()}

    def options(self) -> SourceOptions:
        """Returns these options for readers."""
        fields = self.model_dump(exclude={"pattern", "format"}, exclude_none=True)
        return SourceOptions(pattern=self.pattern, format=self.format, fields=tuple(sorted(fields.items())))


class CorpusConfig(StageConfig):
    """The text to read, and the form of its files."""

    UNKEYED: ClassVar[frozenset[str]] = frozenset(
        {"inputs", "name_folds", "partition_documents", "max_rejected_fraction"}
    )

    LATER: ClassVar[frozenset[str]] = frozenset(
        {
            *("dialogue_gap_minutes", "turns_field", "speaker_field", "encoding", "mail_text", "column_names"),
            *("owner_from", "owner_field", "owner_missing", "owner_space"),
        }
    )

    inputs: tuple[str, ...] = Field(
        ("corpus",),
        description="Files, folders (searched in full for the suffixes of the format) or glob patterns, relative to "
        "this file. Hidden files and files named README, LICENSE or NOTICE in folders are left out. Any file may be "
        "compressed (.gz, .zst), Parquet and Arrow aside.",
    )
    format: str = Field(
        "auto",
        description="Format of the files: auto, a name of docs/corpora.md, or the import path of your own reader. "
        "auto reads .txt, .jsonl, .parquet and .arrow, and also .csv and .tsv if you name such files or a pattern "
        "matches them. json: an array of objects. huggingface: a folder saved by the datasets library. wikitext: one "
        "document per article. dialogue: lines 'SPEAKER: utterance'; a dialogue ends with the file or before a line "
        "that starts with <|endoftext|>. multidogo, personachat: their own files, one document per conversation. e2e, "
        "dart, glue: their own files, one document per row, two texts joined by ' || '.",
    )
    encoding: str = Field(
        "utf-8",
        description="Character set of the files, by its name in Python: utf-8, windows-1252, utf-16, shift_jis, "
        "gb18030, … A row with bytes that the character set does not have is rejected. Mails, Parquet and Arrow files "
        "say it themselves.",
    )
    txt_document: Literal["file", "line", "paragraph"] = Field(
        "file", description="Unit of a txt file that is one document. Blank lines separate paragraphs."
    )
    quoting: Literal["auto", "double", "none"] = Field(
        "auto",
        description="Quotes in a csv or tsv file: double if columns may stand in double quotes. auto: none between "
        "tabs, else double.",
    )
    delimiter: str = Field(
        "auto",
        description="Separator of the columns of a csv or tsv file: a comma, ;, |, tab, or two to twelve signs such as "
        "+++$+++ or ::, without quotes around columns. auto: commas in csv, tabs in tsv.",
    )
    column_names: tuple[str, ...] = Field(
        (),
        description="Names of the columns of a csv or tsv file whose first line is a record, in order. Empty: the "
        "first line names them.",
    )
    wikitext_joiners: Literal["keep", "undo"] = Field(
        "keep", description="wikitext: undo turns ' @-@ ', ' @,@ ' and ' @.@ ' back into the characters they stand for."
    )
    text_field: str = Field(
        "text", description="Name of the field (jsonl, json) or column (tables) with the text; required in every row."
    )
    id_field: str = Field("id", description="Name of the field or column with the document's own id (optional).")
    domain_field: str = Field(
        "domain", description="Name of the field or column with the domain (optional). It is never redacted."
    )
    fold_field: str = Field("fold", description="Name of the field or column with train, valid or test (optional).")
    name_folds: formats.NameFolds = Field(
        "auto",
        description="Use of names of files and of their folders as folds (train, valid, dev, test), in corpora by "
        "name, for rows without a fold: always, never or auto. auto draws the folds if the names of all files give "
        "the same fold and it is not train.",
    )
    label_field: str = Field(
        "label", description="Name of the field or column with the class label (optional). It is never redacted."
    )
    gold_field: str = Field(
        "spans",
        description="Name of the field or column with the known secrets (optional), a list of {start, end, label} "
        "with half-open character offsets in the text; as JSON in csv and tsv.",
    )
    partition_documents: int = Field(
        1000, ge=1, description="Rows in a partition at most; a partition is the unit of parallel and repeated work."
    )
    mail_headers: tuple[str, ...] = Field(
        ("Subject",),
        description="mail, mbox: headers that become lines of the text, and are redacted like it. All other headers "
        "name people, and are left out.",
    )
    mail_quotes: KeepOrDrop = Field(
        "drop",
        description="mail, mbox: treatment of lines behind '>', of the line that announces them, and of the "
        "mail below an original one.",
    )
    mail_signatures: KeepOrDrop = Field(
        "drop", description="mail, mbox: treatment of the text below the line '-- ', and of 'Sent from my …'."
    )
    mail_text: Literal["basic", "full"] = Field(
        "basic",
        description="mail, mbox: conversion of the text. full: HTML by the library html-text, with the quotes and "
        "signatures that mail programs mark in it, quoted lines of format=flowed joined, digests and signed texts "
        "read. basic: as in Reticent 0.3, so that older corpora keep their text. reticent init sets full.",
    )
    dialogue_gap_minutes: float = Field(
        60.0,
        gt=0,
        description="Chats: minutes of silence after which a new dialogue, and so a new document, begins in a thread "
        "or channel.",
    )
    turns_field: str = Field(
        "",
        description="Dialogues in JSON: name of the field with the list of turns, such as turns or body.messages. In a "
        "json file, * stands for all records of a list or object: *.log for an object of dialogues by their ids, "
        "data.*.turns for records inside of data. A single dot: the file itself is the list. Empty: the usual name of "
        "the format. text_field is the name of the text in a turn.",
    )
    speaker_field: str = Field(
        "speaker",
        description="Dialogues in JSON: name of the field with the speaker in a turn; a dot leads into an object, as "
        "in author.role. A hyphen: two speakers take turns. csv, tsv: name of the column with the speaker of the text, "
        "which is read if it has another name than speaker.",
    )
    owner_from: OwnerFrom = Field(
        "none",
        description="Person whose text a document is, for figures and folds by person. none: unknown. field: value of "
        "owner_field. document, file: each is a person. folder: first folder of the file's name below the input. "
        "sender: sender of a mail, author of a post, or the only speaker of a dialogue who is no role. All documents "
        "of a person are in one fold. Ids are kept as HMACs.",
    )
    owner_field: str = Field(
        "",
        description="owner_from = field: name of the field or column with the id of the person, such as customer_id; "
        "a dot leads into an object.",
    )
    owner_missing: OwnerMissing = Field(
        "stop",
        description="Documents without an owner. stop: the run stops and lists them. drop: they are left out and "
        "counted. own: each is taken for a person of its own, which is an assumption. Documents of several owners "
        "are dropped, or stop the run.",
    )
    owner_space: str = Field(
        "",
        pattern=r"^([a-z0-9][a-z0-9_.-]{0,63})?$",
        description="Public name of the set of people, such as customers, for stores in which several corpora have "
        "the same people. Ids of different spaces never meet.",
    )
    max_document_chars: int = Field(
        1_000_000, ge=1, le=2**31, description="Longest document in characters; a longer one is rejected as over_long."
    )
    max_rejected_fraction: float = Field(
        0.01, ge=0, le=1, description="Share of rejected rows (0 to 1) above which the run stops."
    )

    source: tuple[CorpusSource, ...] = Field(
        (),
        description="Files of one pattern that are read in another way: tables [[corpus.source]] with pattern, "
        "format, text_field, id_field, domain_field, fold_field, label_field, gold_field, txt_document, quoting, "
        "delimiter, column_names, encoding, mail_text, turns_field, speaker_field, dialogue_gap_minutes, owner_from, "
        "owner_field. The format "
        "skip leaves files out and counts them. The first table whose pattern matches a file's name counts (*: any "
        "characters, / too). Folders are searched for such files as well.",
    )

    options: dict[str, Any] = Field(
        default_factory=dict, description="Options that a plug-in reader declares: a table [corpus.options]."
    )

    SENSITIVE: ClassVar[frozenset[str]] = frozenset(
        {"options", "source", "turns_field", "speaker_field", "column_names"}
    )

    @field_validator("format")
    @classmethod
    def _known_format(cls, name: str) -> str:
        formats.check_name(name)
        return name

    _known_encoding = field_validator("encoding")(_checked_encoding)
    _known_delimiter = field_validator("delimiter")(_checked_delimiter)

    @model_validator(mode="after")
    def _owners_fit(self) -> CorpusConfig:
        kinds = [(self.owner_from, self.owner_field)]
        for source in self.source:
            if self.owner_from == "none" and (source.owner_from or source.owner_field):
                raise ValueError("owner_from: set it in [corpus] as well, because every document needs an owner")
            own = source.owner_field if source.owner_field is not None else self.owner_field
            kinds.append((source.owner_from or self.owner_from, own))
        if any(kind == "field" and not name for kind, name in kinds):
            raise ValueError('owner_from: "field" needs owner_field, the name of the field with the id of the person')
        if self.owner_field and all(kind != "field" for kind, _ in kinds):
            raise ValueError('owner_field: it is read with owner_from = "field" only')
        if any(kind == "folder" for kind, _ in kinds) and len(self.inputs) > 1:
            raise ValueError(
                'owner_from: "folder" needs one folder or pattern in inputs, so that names tell people apart'
            )
        return self

    @model_validator(mode="after")
    def _options_fit(self) -> CorpusConfig:
        if self.options:
            if not formats.is_plugin(self.format):
                raise ValueError(f"options: the format '{self.format}' takes none")
            check_options(formats.format_spec(self.format).options, self.options, "options")
        return self

    @field_validator("inputs")
    @classmethod
    def _inputs_are_named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not all(item.strip() for item in value):
            raise ValueError("name at least one file, folder or pattern")
        return value

    @property
    def has_owners(self) -> bool:
        """True if documents belong to people."""
        return self.owner_from != "none"

    @property
    def space_of_people(self) -> str:
        """Settings that say who is a person, as one string; empty if nobody knows whose a document is.

        Equal strings stand for the same people. In a space with a name, an id is one person, in whatever field it is.
        Other settings that decide who is a person enter as a hash, because patterns of file names may be secret.
        """
        if not self.has_owners:
            return ""
        how: tuple[str, ...] = (self.owner_from, self.owner_field)
        if self.owner_space and self.owner_from in ("field", "folder", "sender"):
            how = ()
        rules = self._rules_of_people()
        hashed = (f"rules-{hashlib.sha256(canonical_json(rules)).hexdigest()[:12]}",) if rules else ()
        return "/".join((self.owner_space, *how, *hashed))

    def _rules_of_people(self) -> dict[str, Any]:
        """Returns settings beyond those in `space_of_people` that decide who is a person, where they are not usual."""
        rules: dict[str, Any] = {"owner_missing": "own"} if self.owner_missing == "own" else {}
        names = ["owner_from", "owner_field"]
        if "document" in (self.owner_from, *(source.owner_from for source in self.source)):
            names += _BORDERS
            rules |= {n: own for n in _BORDERS if (own := getattr(self, n)) != CorpusConfig.model_fields[n].default}
            rules |= {"options": self.options} if self.options else {}
        sources = [
            {n: own for n in names if (own := getattr(s, n)) not in (None, getattr(self, n))} for s in self.source
        ]
        if any(sources):  # the first pattern that matches counts
            rules["source"] = [[s.pattern, own] for s, own in zip(self.source, sources, strict=True)]
        return rules

    def separator(self) -> str | None:
        """Returns the separator between the two texts of a row; None if no format has rows of two texts."""
        named = (self.format, *(source.format for source in self.source))
        return PAIR if any(n not in ("auto", SKIP) and formats.format_spec(n).holds_pairs for n in named) else None

    def read_options(self) -> ReadOptions:
        """Returns the options with which rows become documents."""
        sources = tuple(source.options() for source in self.source)
        own = replace(self.other_options(), owner_from=self.owner_from, owner_field=self.owner_field)
        return replace(own, sources=sources)

    def other_options(self) -> ReadOptions:
        """Returns the options with which rows of another corpus (``dedup.against``) become documents."""
        fields = set(ReadOptions.__dataclass_fields__) - {"plugin", "sources", "owner_from", "owner_field"}
        return ReadOptions(**self.model_dump(include=fields), plugin=json.dumps(self.options, sort_keys=True))

    def check(self, stage: str) -> None:
        """Checks that the libraries of the formats are installed, and makes the plug-in reader, if there is one."""
        if stage != "split":
            return
        for name in self._named_formats():
            formats.check_packages(name)
        if formats.is_plugin(self.format):
            make_reader(self.format, self.read_options())

    def _named_formats(self) -> tuple[str, ...]:
        named = {self.format, *(source.format for source in self.source)} - {"auto", SKIP}
        return tuple(sorted(named))

    def files_read(self, stage: str) -> Mapping[str, tuple[str, ...]]:
        """Returns the table of documents as an input of ``guarantee``, if it names their owners."""
        return {"split": ("documents.parquet",)} if stage == "guarantee" and self.has_owners else {}

    def code_references(self, stage: str | None = None) -> tuple[str, ...]:
        """Returns the modules of readers of whole files and of a plug-in, with what the plug-in's options select."""
        del stage
        readers = (formats.FORMATS[name].reader for name in self._named_formats() if name in formats.FORMATS)
        modules = tuple(sorted({reader.partition(":")[0] for reader in readers if reader}))
        if not formats.is_plugin(self.format):
            return modules
        own = check_options(formats.format_spec(self.format).options, self.options, "options")
        return (*modules, formats.reference(self.format).partition(":")[0], *option_references(own))

    def package_references(self) -> tuple[str, ...]:
        """Returns the packages that the readers of the formats declare, a plug-in's included."""
        return tuple(sorted({p for name in self._named_formats() for p in formats.format_spec(name).packages}))
