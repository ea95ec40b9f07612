"""Turns records (JSON objects, lines of a table) into documents, by the columns that the settings name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pipelines.corpus.formats import FOLDS, named_fold
from pipelines.corpus.gold import FORMS, spans_of
from pipelines.corpus.items import BadRow, Document, GoldSpan, Reason, Rejected, Turn
from pipelines.corpus.options import ReadOptions

PAIR = " || "
"""Separator of the two texts in a row: a meaning representation and its reference, or two sentences to compare."""

Record = Mapping[str, Any]


class Source(NamedTuple):
    """The place of a row."""

    name: str
    format: str
    row: int
    options: ReadOptions
    draws_fold: bool = False


def rejected(source: Source, reason: Reason, detail: str, num_bytes: int) -> Rejected:
    """Rejects a row, or a line of it."""
    return Rejected(name=source.name, row=source.row, reason=reason, detail=detail, num_bytes=num_bytes)


def over_long(options: ReadOptions, hint: str = "") -> BadRow:
    """Makes the error for a row with more characters than the settings allow."""
    return BadRow(
        "over_long",
        f"longer than corpus.max_document_chars = {options.max_document_chars}."
        f" {hint or 'Split the document, or raise corpus.max_document_chars.'}",
    )


def document(
    source: Source,
    text: str,
    record: Record,
    *,
    source_id: str | None = None,
    domain: str | None = None,
    gold: tuple[GoldSpan, ...] | None = None,
    num_rows: int = 1,
    layout: Literal["turns", "whole"] | None = None,
    turns: tuple[Turn, ...] | None = None,
    left_out: tuple[tuple[str, int], ...] = (),
) -> Document:
    """Makes a document with the metadata of its record, and checks it.

    Args:
        source: place of the row
        text: text of the document
        record: record with id, domain, fold and label under the settings' names
        source_id, domain, gold, num_rows, layout, turns, left_out: values of the format itself; a domain in the
            record takes precedence

    Raises:
        BadRow: the row cannot be used.
    """
    options = source.options
    if "\0" in text:
        raise BadRow("nul", "the text holds a NUL character. Remove it.")
    if len(text) > options.max_document_chars:
        raise over_long(options)
    if not text or text.isspace():
        raise BadRow("empty", "the text is empty.")
    fold = _fold(_string(record.get(options.fold_field)))
    if fold is None and not source.draws_fold:
        fold = named_fold(source.name, source.format)
    made = Document(
        name=source.name,
        row=source.row,
        text=text,
        source_id=source_id or _scalar(record.get(options.id_field), "id_field", allow_fraction=False) or None,
        domain=_scalar(record.get(options.domain_field), "domain_field") or domain,
        fold=fold,
        label=_scalar(record.get(options.label_field), "label_field"),
        gold=gold,
        num_rows=num_rows,
        layout=layout,
        turns=turns,
        left_out=left_out,
        owners=_owners(value_at(record, options.owner_field)) if options.owner_from == "field" else None,
    )
    fields = (text, made.source_id, made.domain, made.label, *(span.label for span in gold or ()))
    fields += (*(turn.speaker for turn in turns or ()), *(made.owners or ()))
    if not all(field is None or is_unicode(field) for field in fields):
        raise BadRow("undecodable", "holds half of a surrogate pair as a JSON escape. Write the character whole.")
    return made


def value_at(record: Any, path: str) -> Any:
    """Returns the value of a field, or at a path such as ``author.role``; None if there is none."""
    if not isinstance(record, Mapping) or path in record:
        return record.get(path) if isinstance(record, Mapping) else None
    first, dot, rest = path.partition(".")
    return value_at(record.get(first), rest) if dot else None


def is_unicode(text: str) -> bool:
    """Checks if a text can be encoded, because JSON can escape half a surrogate pair, which no encoding can store."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def plain(source: Source, record: Record) -> list[Document]:
    """Returns the document of one text column. Raises `BadRow`."""
    text = text_of(record, source.options)
    gold = _gold(record.get(source.options.gold_field), text)
    layout: Literal["turns"] | None = "turns" if source.format == "dialogue" else None
    return [document(source, text, record, gold=gold, layout=layout, turns=_turns_of_cell(source, record, text))]


def _turns_of_cell(source: Source, record: Record, text: str) -> tuple[Turn, ...] | None:
    """Returns the text of a table as one turn, if ``speaker_field`` names a column other than by its default."""
    field = source.options.speaker_field
    if source.format not in ("csv", "tsv") or field == ReadOptions().speaker_field or field not in record:
        return None
    speaker = _scalar(record[field], "speaker_field")
    return (Turn(0, len(text), (speaker or "").strip() or None),)


def text_of(record: Record, options: ReadOptions) -> str:
    """Returns the column ``text_field``. Raises `BadRow`."""
    text = _string(record.get(options.text_field))
    if text is None and options.text_field in record:
        raise BadRow("empty", "the text is empty.")
    if text is None:
        raise BadRow("missing_text", "has no text. Set corpus.text_field to the name of the field that holds it.")
    if not isinstance(text, str):
        raise BadRow("wrong_type", "corpus.text_field names a field that is not a string.")
    return text


def named(record: Record, names: tuple[str, ...]) -> str | None:
    """Returns the first of several columns that exists, as text. Raises `BadRow`."""
    for name in names:
        value = _scalar(record.get(name), "text_field")
        if value is not None:
            return value
    return None


def _string(value: Any) -> Any:
    """Decodes bytes, which tables may hold in place of text. Raises `BadRow`."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise BadRow("undecodable", "a column is not UTF-8. Convert it.") from None


def _scalar(value: Any, field: str, allow_fraction: bool = True) -> str | None:
    value = _string(value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        if allow_fraction:
            return "true" if value else "false"
    elif isinstance(value, int) or (allow_fraction and isinstance(value, float) and math.isfinite(value)):
        try:
            return str(value)
        except ValueError:  # Python writes out no integer of more than 4,300 digits
            pass
    raise BadRow("wrong_type", f"corpus.{field} names a field that is neither a string nor a number.")


def _owners(value: Any) -> tuple[str, ...]:
    """Returns the id of a row's owner, if it has one. A whole number is the same id with and without a fraction."""
    if isinstance(value, float):
        if math.isnan(value):  # an empty cell of a column of numbers
            return ()
        value = int(value) if value.is_integer() else value
    if isinstance(value, bool):
        raise BadRow("wrong_type", "corpus.owner_field names a field with true and false, which are no ids.")
    found = _scalar(value, "owner_field")
    return () if found is None else (found,)


def _fold(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or value not in FOLDS:
        raise BadRow("bad_fold", 'the fold is not "train", "valid" or "test".')
    return FOLDS[value]


def _gold(value: Any, text: str) -> tuple[GoldSpan, ...] | None:
    value = _string(value)
    if value is None or value == "":
        return None
    try:
        return spans_of(value, text)
    except ValueError:
        raise BadRow("bad_spans", f"corpus.gold_field must be {FORMS}.") from None
