"""Guesses the format of files and the roles of their fields, for `reticent init`.

The guess uses the first megabyte of a file. Runs read the settings and never guess. The result names columns and
counts, and quotes no text.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pipelines.corpus.detect_tables import looks_of_table
from pipelines.corpus.encodings import UTF8, WIDE, encoding_of
from pipelines.corpus.fields import Look, choose_fields, is_dialogue
from pipelines.corpus.format_list_web import FORMATS_OF_PAGES
from pipelines.corpus.format_spec import RowKind
from pipelines.corpus.formats import suffix_of
from pipelines.corpus.hashed_stream import HashedStream
from pipelines.corpus.open_input import DamagedFile, NotAFile, open_bytes
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.recognisers import readings
from pipelines.corpus.recognition import Head
from pipelines.corpus.rows import BOM, END_OF_TEXT, iter_rows

HEAD_BYTES = 1 << 20
_ROWS = 400
_ROW_BYTES = 1 << 20
_CERTAIN = 0.9
_KNOWN = 0.95
_TITLE = re.compile(r" ?= [^=\s][^\n]* = ?")
_MBOX = re.compile(r"From \S.*[0-9]{1,2}:[0-9]{2}")
_MAIL_HEADERS = {b"return-path", b"received", b"delivered-to", b"message-id", b"mime-version", b"date", b"subject"}
_PERSONA = re.compile(r"[0-9]+ (?:your|partner's) persona: ")
_TAGGED = re.compile(r"\S+[ \t](?:\S+[ \t])*(?:O|[BIESLU]-\S+)")
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_BY_OBJECT: Mapping[str, tuple[str, RowKind]] = {
    ".jsonl": ("jsonl", "line"),
    ".ndjson": ("jsonl", "line"),
    ".json": ("json", "element"),
}
_EMPTY: Final = "empty"
_OWN_ENCODINGS: Final = frozenset({None, "mail", "mbox", *(spec.name for spec in FORMATS_OF_PAGES)})
"""Formats whose files name their encoding."""


def looks_of(path: Path, name: str, head_bytes: int = HEAD_BYTES) -> list[Look]:
    """Guesses the form of a file from its suffix and its beginning.

    Returns:
        Plausible readings, best first, at least one. A look without a format says why the file cannot be read.
    """
    suffix = suffix_of(path.name)
    try:
        if suffix in (".parquet", ".arrow"):
            return _columnar(path, suffix)
        with open_bytes(path) as file:
            data = file.read(head_bytes + 1)
    except (OSError, DamagedFile, NotAFile, ValueError):
        return [Look(format=None, what="cannot be read (damaged, or no permission)")]
    if not data.strip():
        return [Look(format=None, what=_EMPTY)]
    is_whole = len(data) <= head_bytes
    encoding = encoding_of(data[:head_bytes])
    text = data[:head_bytes].removeprefix(BOM)
    if encoding != UTF8:
        text = text.decode(encoding, "replace").removeprefix("\ufeff").encode("utf-8")
    head = Head(path, name, suffix, text if encoding.startswith(WIDE) else data[:head_bytes], is_whole)
    found = [Look(**reading._asdict()) for reading in readings(head)]
    if b"\0" in text[:8192]:
        hint = "UTF-16 text? Convert it to UTF-8" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "binary"
        return _ranked([*found, Look(format=None, what=hint, score=0.8)])
    if not is_whole:
        text = text[: text.rfind(b"\n") + 1] or text
    own = [*_mail(text, suffix), *_records(text, suffix), *_text(_decoded(text), suffix)]
    # A recogniser knows the settings of its format better.
    own = [look for look in own if look.format not in {one.format for one in found} or look.format in (None, "txt")]
    return _ranked(_with_encoding([*found, *own], encoding))


def is_empty(look: Look) -> bool:
    """Checks if a look found an empty file."""
    return look.format is None and look.what == _EMPTY


def units_of(texts: Iterator[str] | Sequence[str], txt_document: str) -> list[str]:
    """Splits plain texts into documents by ``corpus.txt_document``."""
    if txt_document == "file":
        return list(texts)
    cut = _PARAGRAPHS.split if txt_document == "paragraph" else str.splitlines
    return [part for text in texts for part in cut(text) if part.strip()]


def _ranked(looks: Sequence[Look]) -> list[Look]:
    """Sorts readings, best first, and keeps the best of each kind.

    A file that a recogniser knows for certain not to be text is never read otherwise. Text in lists of a file's objects
    makes a flat reading doubtful, see `choose_fields`.
    """
    kinds: dict[object, Look] = {}
    for look in sorted(looks, key=lambda look: -look.score):
        kinds.setdefault(look.kind, look)
    ranked = list(kinds.values())
    best = ranked[0]
    if best.format is None:
        return ranked if best.score < _CERTAIN else [best]
    unread = next((look for look in ranked if look.format is None), None)
    doubts = list(best.doubts)
    if unread is not None and unread.score >= best.score - 0.2 and best.score < _CERTAIN and not unread.is_table:
        doubts.append(f"it could also be no text: {unread.what}")
    flat = next((look for look in ranked[1:] if look.nested and look.format is not None), None)
    if flat is not None and not best.nested and best.score < _KNOWN:
        doubts.append(f"{dict(flat.fields).get('text_field', 'text')} holds text too, beside {', '.join(flat.nested)}")
    ranked = [replace(best, doubts=tuple(doubts)), *(look for look in ranked[1:] if look.format is not None)]
    return ranked


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def _with_encoding(looks: Sequence[Look], encoding: str) -> list[Look]:
    """Adds the encoding to the settings of readings of text."""
    if encoding == UTF8:
        return list(looks)
    return [
        replace(look.with_fields(("encoding", encoding)), what=f"{look.what}; {encoding}")
        if _takes_encoding(look)
        else look
        for look in looks
    ]


def _takes_encoding(look: Look) -> bool:
    return look.format not in _OWN_ENCODINGS and "encoding" not in dict(look.fields)


# --- mail and records -------------------------------------------------------------------------------------------


def _mail(data: bytes, suffix: str) -> list[Look]:
    first = data.lstrip(b"\r\n")
    if suffix != ".eml" and (suffix in (".mbox", ".mbx") or _MBOX.match(_decoded(first[:200]))):
        mbox = Look(format="mbox", what="a mailbox of mails")
        return [mbox, Look(format="mail", what="mails, one per file", score=0.4)]
    if suffix == ".eml" or _is_mail(data):
        return [Look(format="mail", what="mails, one per file")]
    return []


def _is_mail(head: bytes) -> bool:
    """Checks if the text begins with mail headers that include the sender. A mailbox begins with another line."""
    lines = head.replace(b"\r\n", b"\n").partition(b"\n\n")[0].split(b"\n")
    names = {line.partition(b":")[0].lower() for line in lines if line[:1] not in (b" ", b"\t")}
    return b"from" in names and bool(names & _MAIL_HEADERS) and b":" in lines[0]


def _records(data: bytes, suffix: str) -> list[Look]:
    """Returns readings as records: objects, or rows of a table."""
    if suffix in _BY_OBJECT:
        form, kind = _BY_OBJECT[suffix]
        rows = _objects(data, kind)
        if not rows and form == "jsonl":  # objects that each take several lines
            form, rows = "json", _objects(data, "element")
        if not rows:
            what = "no array of objects" if form == "json" else "no JSON objects"
            return [Look(format=None, what=what, score=0.6)]
        return choose_fields(form, rows)
    if data.lstrip()[:1] in (b"{", b"[") and suffix not in (".csv", ".tsv"):
        for form, kind in dict.fromkeys(_BY_OBJECT.values()):
            if len(rows := _objects(data, kind)) >= 2:
                return choose_fields(form, rows)
    looks = looks_of_table(data, suffix)
    if not looks and suffix in (".csv", ".tsv"):
        return [Look(format=None, what="no columns", score=0.6)]
    return looks


def _objects(data: bytes, kind: RowKind) -> list[dict[str, Any]]:
    """Returns the first objects of JSON lines or of a JSON array."""
    found = []
    for row in islice(iter_rows(HashedStream(io.BytesIO(data)), kind, 1, _ROW_BYTES), _ROWS):
        value = _object(row.data or b"")
        if value:
            found.append(value)
    return found


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data.decode("utf-8", "replace").strip(" \t\r\n,[]"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _columnar(path: Path, suffix: str) -> list[Look]:
    import pyarrow.parquet as pq

    from pipelines.corpus.columnar import take_rows

    if suffix == ".arrow":
        rows = list(islice(take_rows(path, "arrow", ReadOptions(), 0, _ROWS), _ROWS))
        return choose_fields("huggingface", rows) if rows else [Look(format=None, what="no rows")]
    with pq.ParquetFile(path) as file:
        batch = next(file.iter_batches(_ROWS), None)
        rows = batch.to_pylist() if batch is not None else []
    return choose_fields("parquet", rows) if rows else [Look(format=None, what="no rows")]


# --- text -------------------------------------------------------------------------------------------------------


def _text(text: str, suffix: str) -> list[Look]:
    """Returns readings as text. Files with a suffix of records or mails are never plain text."""
    if suffix in _BY_OBJECT or suffix in (".csv", ".tsv", ".eml", ".mbox", ".mbx"):
        return []
    plain = Look(format="txt", what="text", texts=(text,), score=0.5)
    known = _known_text(text)
    return [plain] if known is None else [known, replace(plain, score=0.3)]


def _known_text(text: str) -> Look | None:
    lines = text.split("\n")
    end = END_OF_TEXT.decode()
    if any(
        _TITLE.fullmatch(line) and not before.strip() for before, line in zip(["", *lines], lines, strict=False)
    ) and (" @-@ " in text or " @,@ " in text or " = = " in text):
        return Look(format="wikitext", what="articles (WikiText)")
    visible = [line for line in lines if line.strip()]
    if sum(_TAGGED.fullmatch(line) is not None for line in visible) > 0.95 * len(visible):
        what = "tokens with tags of named entities, one per line (CoNLL); the tags count as known secrets"
        return Look(format="conll", what=what)
    if _PERSONA.match(text):
        return Look(format="personachat", what="conversations (PersonaChat)")
    if not is_dialogue(lines):
        return None
    blocks = [block for block in _PARAGRAPHS.split(text) if block.strip()]
    several = sum("\n" in block.strip() for block in blocks)
    if end not in text and len(blocks) > 1 and several >= 0.8 * len(blocks):
        return Look(
            format="txt",
            fields=(("txt_document", "paragraph"),),
            what="dialogues: lines SPEAKER: text, with a blank line between dialogues",
            others=('format = "dialogue", if dialogues contain blank lines',),
            texts=(text,),
        )
    blank = ", blank lines between turns" if len(blocks) > 1 else ""
    separation = f", {end} before each dialogue" if end in text else ", one dialogue per file"
    return Look(format="dialogue", what=f"dialogues: lines SPEAKER: text{blank}{separation}")
