"""Guesses the format of files and the roles of their fields, for `reticent init`.

The guess uses the first megabyte of some of the files. Runs read the settings and never guess. The result names columns
and counts, and quotes no text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pipelines.corpus.fields import Look, choose_fields, is_dialogue
from pipelines.corpus.format_spec import RowKind
from pipelines.corpus.formats import delimiter, is_quoted, suffix_of
from pipelines.corpus.items import BadRow
from pipelines.corpus.mail import mail
from pipelines.corpus.open_input import DamagedFile, NotAFile, open_bytes
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import cells_of
from pipelines.corpus.records import Source
from pipelines.corpus.rows import BOM, END_OF_TEXT, RowReader

HEAD_BYTES = 1 << 20
_ROWS = 400
_ROW_BYTES = 1 << 20
_TITLE = re.compile(r" ?= [^=\s][^\n]* = ?")
_MBOX = re.compile(r"From \S.*[0-9]{1,2}:[0-9]{2}")
_MAIL_HEADERS = {b"return-path", b"received", b"delivered-to", b"message-id", b"mime-version", b"date"}
_PERSONA = re.compile(r"[0-9]+ (?:your|partner's) persona: ")
_TAGGED = re.compile(r"\S+[ \t](?:\S+[ \t])*(?:O|[BIESLU]-\S+)")
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")


def look(path: Path) -> Look:
    """Guesses the form of a file from its suffix and its beginning."""
    suffix = suffix_of(path.name)
    try:
        if suffix in (".parquet", ".arrow"):
            return _columnar(path, suffix)
        with open_bytes(path) as file:
            head = file.read(HEAD_BYTES + 1)
    except (OSError, DamagedFile, NotAFile, ValueError):
        return Look(format=None, what="cannot be read (damaged, or no permission)")
    if b"\0" in head[:8192]:
        hint = "UTF-16 text? Convert it to UTF-8" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "binary"
        return Look(format=None, what=hint)
    if not head.strip():
        return Look(format=None, what="empty")
    is_whole = len(head) <= HEAD_BYTES
    if suffix == ".eml" or _is_mail(head):
        return Look(format="mail", what="mails, one per file", texts=_mails([head], path.name), num_bytes=len(head))
    if suffix in (".mbox", ".mbx") or _MBOX.match(_decoded(head[:200])):
        messages = [m for m in re.split(rb"\n\n(?=From \S)", head)[: None if is_whole else -1] if m.strip()][:_ROWS]
        bodies = _mails([message.partition(b"\n")[2] for message in messages], path.name)
        return Look(format="mbox", what="a mailbox of mails", texts=bodies, num_bytes=sum(map(len, messages)))
    if suffix in _BY_RECORD:
        return _with_encoding(_records(path, suffix), head)
    text = _decoded(head if is_whole else head[: head.rfind(b"\n") + 1])
    return _with_encoding(_text(text, is_whole), head)


_DELIMITERS: Final = (",", ";", "tab", "|")
"""Values of ``corpus.delimiter``, in the order of trial if the usual one does not fit."""
_NOT_UTF8: Final = (
    "not UTF-8 (from Windows or Excel?): such rows are rejected, and too many stop a run; convert with `iconv -f "
    "WINDOWS-1252 -t UTF-8 FILE > NEW`"
)
_BY_RECORD: Mapping[str, tuple[str, RowKind]] = {
    ".jsonl": ("jsonl", "line"),
    ".ndjson": ("jsonl", "line"),
    ".json": ("json", "element"),
    ".csv": ("csv", "record"),
    ".tsv": ("tsv", "record"),
}


def _decoded(data: bytes) -> str:
    return data.removeprefix(BOM).decode("utf-8", "replace").replace("\r\n", "\n")


def _is_mail(head: bytes) -> bool:
    """Checks if the text begins with mail headers that include the sender. A mailbox begins with another line."""
    lines = head.replace(b"\r\n", b"\n").partition(b"\n\n")[0].split(b"\n")
    names = {line.partition(b":")[0].lower() for line in lines if line[:1] not in (b" ", b"\t")}
    return b"from" in names and bool(names & _MAIL_HEADERS) and b":" in lines[0]


def _mails(messages: Sequence[bytes], name: str) -> tuple[str, ...]:
    found: list[str] = []
    for data in messages:
        try:
            found += [document.text for document in mail(Source(name, "mail", 1, ReadOptions()), data)]
        except BadRow:  # the limit cut it off, or a run rejects it
            continue
    return tuple(found)


def _with_encoding(found: Look, head: bytes) -> Look:
    try:
        head[:HEAD_BYTES].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # otherwise the limit may have cut a character in two
            return replace(found, warnings=(*found.warnings, _NOT_UTF8))
    return found


# --- records ----------------------------------------------------------------------------------------------------


def _records(path: Path, suffix: str) -> Look:
    form, _ = _BY_RECORD[suffix]
    options = ReadOptions()
    try:
        rows, num_bytes, header, share = _first_rows(path, form, options)
        if form in ("csv", "tsv") and (len(header) < 2 or share < 1):
            for mark in _DELIMITERS:
                other = ReadOptions(delimiter=mark)
                found = _first_rows(path, form, other)
                if len(found[2]) > 1 and (len(header) < 2 or found[3] > share):
                    (rows, num_bytes, header, share), options = found, other
    except (OSError, DamagedFile):
        return Look(format=None, what="cannot be read to its end (damaged?)")
    if form in ("csv", "tsv") and header and all(re.fullmatch(r"[-+0-9.,]*", name) for name in header):
        return Look(format=None, what="its first line names no columns; add one such as id,text")
    if not rows:
        empty = {"csv": "a header without rows", "tsv": "a header without rows", "json": "no array of objects"}
        return Look(format=None, what=empty.get(form, "no JSON objects"))
    look = choose_fields(form, rows, num_bytes)
    if options.delimiter == "auto" or look.format is None:
        return look
    fields = tuple(sorted((*look.fields, ("delimiter", options.delimiter))))
    return replace(look, fields=fields, what=f"{look.what}; separated by {options.delimiter!r}")


def _first_rows(path: Path, form: str, options: ReadOptions) -> tuple[list[dict[str, Any]], int, list[str], float]:
    """Reads the first records. Returns them, their bytes, the column names and the share of rows that fit these."""
    with open_bytes(path) as file:
        reader = RowReader(file, path.name, form, options)
        cut = partial(
            cells_of, delimiter=delimiter(path.name, form, options), is_quoted=is_quoted(path.name, form, options)
        )
        header = _cells(reader.header.removeprefix(BOM).decode("utf-8", "replace"), cut)
        found: list[dict[str, Any]] = []
        num_bytes = num_rows = 0
        for row in islice(reader.rows(reader.stream(), 1, _ROW_BYTES), _ROWS):
            if row.data is None:
                continue
            num_bytes += row.num_bytes
            text = row.data.removeprefix(BOM).decode("utf-8", "replace")
            num_rows += 1
            record = _cut(text, header, cut) if form in ("csv", "tsv") else _object(text)
            if record:
                found.append(record)
            if num_bytes > 4 * HEAD_BYTES:
                break
    return found, num_bytes, header, len(found) / max(1, num_rows)


def _cells(text: str, cut: Callable[[str], list[str]]) -> list[str]:
    try:
        return cut(text)
    except BadRow:
        return []


def _cut(text: str, header: list[str], cut: Callable[[str], list[str]]) -> dict[str, Any] | None:
    cells = _cells(text, cut)
    return dict(zip(header, cells, strict=True)) if len(cells) == len(header) and any(cells) else None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text.strip(" \t\r\n,[]"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _columnar(path: Path, suffix: str) -> Look:
    import pyarrow.parquet as pq

    from pipelines.corpus.columnar import take_rows

    if suffix == ".arrow":
        rows = list(islice(take_rows(path, "arrow", ReadOptions(), 0, _ROWS), _ROWS))
        found = choose_fields("huggingface", rows, 0) if rows else Look(format=None, what="no rows")
        return found
    with pq.ParquetFile(path) as file:
        batch = next(file.iter_batches(_ROWS), None)
        rows = batch.to_pylist() if batch is not None else []
        share = len(rows) / max(1, file.metadata.num_rows)
    if not rows:
        return Look(format=None, what="no rows")
    return choose_fields("parquet", rows, int(path.stat().st_size * share))


# --- text -------------------------------------------------------------------------------------------------------


def _text(text: str, is_whole: bool) -> Look:
    lines = text.split("\n")
    end = END_OF_TEXT.decode()
    if any(
        _TITLE.fullmatch(line) and not before.strip() for before, line in zip(["", *lines], lines, strict=False)
    ) and (" @-@ " in text or " @,@ " in text or " = = " in text):
        articles = re.split(r"\n(?= = [^=\n]+ = \n)", text)
        return Look(
            format="wikitext",
            what="articles (WikiText)",
            others=('format = "txt"',),
            texts=tuple(articles[: None if is_whole else -1]) or tuple(articles),
            num_bytes=len(text.encode()),
        )
    visible = [line for line in lines if line.strip()]
    if sum(_TAGGED.fullmatch(line) is not None for line in visible) > 0.95 * len(visible):
        blocks = [block for block in _PARAGRAPHS.split(text) if block.strip()]
        return Look(
            format="conll",
            what="tokens with tags of named entities, one per line (CoNLL); the tags count as known secrets",
            texts=tuple(" ".join(line.split()[0] for line in b.split("\n") if line.strip()) for b in blocks),
            num_bytes=len(text.encode()),
        )
    if _PERSONA.match(text):
        return Look(
            format="personachat", what="conversations (PersonaChat)", texts=(text,), num_bytes=len(text.encode())
        )
    if is_dialogue(lines):
        blocks = [block for block in _PARAGRAPHS.split(text) if block.strip()]
        several = sum("\n" in block.strip() for block in blocks)
        num_bytes = len(text.encode())
        if end not in text and len(blocks) > 1 and several >= 0.8 * len(blocks):
            return Look(
                format="txt",
                fields=(("txt_document", "paragraph"),),
                what="dialogues: lines SPEAKER: text, with a blank line between dialogues",
                others=('format = "dialogue", if dialogues contain blank lines',),
                texts=tuple(blocks),
                num_bytes=num_bytes,
            )
        dialogues = tuple(part for part in text.split(end) if part.strip())
        blank = ", blank lines between turns" if len(blocks) > 1 else ""
        separation = f", {end} before each dialogue" if end in text else ", one dialogue per file"
        return Look(
            format="dialogue",
            what=f"dialogues: lines SPEAKER: text{blank}{separation}",
            others=('format = "txt"',),
            texts=dialogues,
            num_bytes=num_bytes,
        )
    return Look(format="txt", what="text", texts=(text,), num_bytes=len(text.encode()))


def units_of(texts: Iterator[str] | Sequence[str], txt_document: str) -> list[str]:
    """Splits plain texts into documents by ``corpus.txt_document``."""
    if txt_document == "file":
        return list(texts)
    cut = _PARAGRAPHS.split if txt_document == "paragraph" else str.splitlines
    return [part for text in texts for part in cut(text) if part.strip()]
