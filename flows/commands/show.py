"""``reticent show``: prints redacted text page by page, with each mask in the colour of its label.

A mask shows its label. The text below it appears only if the user asks for the original.
"""

from __future__ import annotations

import re
import textwrap
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from flows.running.spec import open_store
from pipelines.errors import ConfigError
from pipelines.frames import scan
from pipelines.mask import MASK
from pipelines.printable import printable
from pipelines.settings.loading import load_settings
from pipelines.store.place.roots import Roots

DUPLICATE = "DUPLICATE"
FAILED = "FAILED_CLOSED"
UNLABELLED = "?"
_COLOURS = (31, 32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96)
_RESET = "\x1b[0m"
_TABLES = {"redacted": "redacted", "private": "private", "public": "public_side", "stability": "redacted"}
"""Tables that hold redacted text, by the name to show. The published table has its own identifiers and no labels."""
_ROW = ("doc_id", "sentence_index")
_CHANGES = {
    "sentence": "masking the secret by hand changes what else is masked in this sentence",
    "document": "masking the secret by hand changes what is masked in other sentences of its document",
    "length": "masking the secret by hand changes whether deduplication looks at this sentence",
}


def show_document(
    config: Path,
    environ: Mapping[str, str],
    table: str = "redacted",
    *,
    label: str | None = None,
    doc: str | None = None,
    private: bool = False,
    page: int = 1,
    rows: int = 20,
    show_text: bool = False,
) -> dict[str, Any]:
    """Returns one page of a table with redacted text.

    Args:
        table: ``redacted``, or one side of it: ``private`` or ``public``; ``stability`` for reviewed sentences with a
            masked secret that is not redacted stably, each with the tokens of those secrets and the change they cause
        label: label of masks to select rows by (``DUPLICATE`` and ``FAILED_CLOSED`` are labels too)
        doc: document to select, by its id or the start of the id
        private: true to select rows that are not public: masked, or flagged by the conservative policy
        page: page number, from 1
        rows: rows per page
        show_text: true to add the original text and the speakers' names, which are private

    Raises:
        ConfigError: there is no such table, it was not built yet, or the page is beyond the end.
    """
    if table not in _TABLES:
        raise ConfigError(f"{table} holds no redacted text; tables with redacted text are {', '.join(_TABLES)}")
    roots = open_store(load_settings(config, environ), create=False)
    frame = scan_latest(roots, _TABLES[table])
    if table == "stability":
        frame = frame.join(_unstable(roots), on=_ROW, how="inner", maintain_order="left")
    elif table != "redacted":  # the shards hold no offsets, so labels come from the redacted table
        frame = frame.join(_labels(roots), on=_ROW, how="left", maintain_order="left")
    if label is not None:
        frame = frame.filter(_has_label(label))
    if doc is not None:
        frame = frame.filter(pl.col("doc_id").str.starts_with(doc))
    if private:
        flagged = pl.col("flagged_by_conservative").fill_null(False)
        is_masked = pl.col("redacted_text").str.contains(MASK, literal=True) | (pl.col("num_masked_tokens") > 0)
        frame = frame.filter(is_masked | flagged)
    total = frame.select(pl.len()).collect().item()
    num_pages = max(1, -(-total // rows))
    if page > num_pages:
        raise ConfigError(f"there is no page {page}: {total} rows make {num_pages} pages of {rows}")
    chosen = frame.slice((page - 1) * rows, rows)
    if show_text:
        original = scan_latest(roots, "sentences").select(*_ROW, "text")
        chosen = chosen.join(original, on=_ROW, how="left", maintain_order="left")
    return {
        "table": table,
        "page": page,
        "num_pages": num_pages,
        "num_rows": total,
        "rows": [_row(row, show_text) for row in chosen.collect().iter_rows(named=True)],
    }


def scan_latest(roots: Roots, table: str) -> Any:
    """Opens a private table of the latest run as a lazy frame of polars. Raises `ConfigError` if it was not built."""
    folder = roots.private / "latest" / table
    if not folder.exists():
        raise ConfigError(f"table {table} was not built yet; run `reticent run` first")
    return scan(sorted(folder.glob("*.parquet")))


def _labels(roots: Roots) -> Any:
    return scan_latest(roots, "redacted").select(
        *_ROW, "spans", "is_duplicate", "failed_closed", "flagged_by_conservative"
    )


def _unstable(roots: Roots) -> Any:
    """Returns the unstable secrets of each sentence that has one."""
    found = scan_latest(roots, "stability").filter(~pl.col("is_stable"))
    return found.group_by(_ROW).agg(
        pl.struct("start_token", "end_token", "reason").sort_by("start_token").alias("unstable")
    )


def _has_label(label: str) -> Any:
    if label.upper() == DUPLICATE:
        return pl.col("is_duplicate")
    if label.upper() == FAILED:
        return pl.col("failed_closed")
    labels = pl.col("spans").list.eval(pl.element().struct.field("label").str.to_uppercase())
    return labels.list.contains(label.upper()) & ~pl.col("is_duplicate")


def _row(row: Mapping[str, Any], show_text: bool) -> dict[str, Any]:
    shown = {
        "doc_id": row["doc_id"],
        "sentence_index": row["sentence_index"],
        "redacted_text": row["redacted_text"],
        "masks": mask_labels(row),
        "is_flagged": bool(row["flagged_by_conservative"]),
        "num_tokens": row["num_tokens"],
        "num_masked_tokens": row["num_masked_tokens"],
    }
    if "unstable" in row:
        shown["unstable"] = row["unstable"]
    return {**shown, "text": row["text"], "speaker": row["speaker"]} if show_text else shown


def mask_labels(row: Mapping[str, Any]) -> list[list[str]]:
    """Returns the labels of each mask of a row, in the order of the masks.

    One mask replaces a run of masked tokens, which may have several labels. A row that was masked as a whole has one
    mask and one reason. Labels and surrogates in the text are not masks. If masks cannot be matched to labels (the
    original text holds a mask, or masks were not collapsed), each gets `UNLABELLED`.
    """
    count = row["redacted_text"].count(MASK)
    if row["is_duplicate"] or row["failed_closed"]:
        return [[DUPLICATE if row["is_duplicate"] else FAILED]] * count
    runs: list[tuple[int, set[str]]] = []  # end token, labels
    for span in sorted(row["spans"] or (), key=lambda s: (s["start_token"], s["end_token"])):
        if runs and span["start_token"] <= runs[-1][0]:
            runs[-1] = (max(runs[-1][0], span["end_token"]), runs[-1][1] | {span["label"]})
        else:
            runs.append((span["end_token"], {span["label"]}))
    if len(runs) == count:
        return [sorted(labels) for _, labels in runs]
    tokens = _labels_by_token(row["spans"] or ())
    return [sorted(labels) for labels in tokens] if len(tokens) == count else [[UNLABELLED]] * count


def _labels_by_token(spans: Sequence[Mapping[str, Any]]) -> list[set[str]]:
    """Returns one entry per masked token, for text whose masks were not collapsed."""
    found: dict[int, set[str]] = {}
    for span in spans:
        for token in range(span["start_token"], span["end_token"]):
            found.setdefault(token, set()).add(span["label"])
    return [found[token] for token in sorted(found)]


def show_text_page(document: Mapping[str, Any], *, colour: bool, width: int = 100) -> str:
    """Formats a page for people.

    Args:
        document: result of `show_document`
        colour: true for masks in ANSI colours, false for masks such as ``[MASK:PERSON]``
        width: number of columns to wrap text at
    """
    lines: list[str] = []
    doc = None
    for row in document["rows"]:
        if row["doc_id"] != doc:
            doc = row["doc_id"]
            lines.append(_painted(f"— {doc}", 2, colour))
        side = "flagged" if row["is_flagged"] else ("masked" if row["masks"] or row["num_masked_tokens"] else "")
        text = _with_masks(row, colour, width)
        lines.append(f"{row['sentence_index']:>4}  {side:<8}{text}")
        for secret in row.get("unstable", ()):
            tokens = f"tokens {secret['start_token']} to {secret['end_token'] - 1}"
            lines.append(f"{'':>6}{'unstable':<9}{tokens}: {_CHANGES[secret['reason']]}")
        if row.get("text") is not None:
            lines.append(f"{'':>6}{'original':<9}{printable(row['text'])}")
    counts = Counter(label for row in document["rows"] for labels in row["masks"] for label in labels)
    legend = "  ".join(
        _painted(f"{printable(label)} {n}", _colour(label), colour) for label, n in sorted(counts.items())
    )
    lines.append(f"{legend}\n" if legend else "")
    lines.append(
        f"{document['table']}: page {document['page']} of {document['num_pages']}, {document['num_rows']:,} rows"
        + (f"; next: --page {document['page'] + 1}" if document["page"] < document["num_pages"] else "")
    )
    return "\n".join(lines)


def _with_masks(row: Mapping[str, Any], colour: bool, width: int) -> str:
    parts = str(row["redacted_text"]).split(MASK)
    # Wraps placeholders of one rare character, so that no line break divides a mask.
    text = "\ue000".join(printable(part).replace("\ue000", "?") for part in parts)
    wrapped = "\n".join(textwrap.wrap(text, max(20, width - 14), break_on_hyphens=False) or [""])
    labels = iter(row["masks"])
    shown = re.sub("\ue000", lambda _: _mask(next(labels, [UNLABELLED]), colour), wrapped)
    return shown.replace("\n", "\n" + " " * 14)


def _mask(labels: Sequence[str], colour: bool) -> str:
    name = "+".join(printable(label) for label in labels)
    return f"\x1b[7;{_colour(labels[0])}m {name} {_RESET}" if colour else f"[MASK:{name}]"


def _painted(text: str, code: int, colour: bool) -> str:
    return f"\x1b[{code}m{text}{_RESET}" if colour else text


def _colour(label: str) -> int:
    return _COLOURS[zlib.crc32(label.encode()) % len(_COLOURS)]


def use_colour(environ: Mapping[str, str], *, is_terminal: bool, asked_for_none: bool) -> bool:
    """Checks if output is coloured: on a terminal, unless an option, ``NO_COLOR`` or a dumb terminal declines."""
    declined = asked_for_none or bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    return is_terminal and not declined
