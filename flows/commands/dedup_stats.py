"""``reticent dedup-stats``: shows the repeated share, the most frequent repeats and the Bloom filter's errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from flows.commands.show import scan_latest
from flows.running.spec import open_store
from pipelines.dedup.bloom import expected_false_positives
from pipelines.dedup.hash_ranges import items_per_bucket
from pipelines.errors import ConfigError
from pipelines.graph_names import FIGURES
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs
from pipelines.store.place.roots import Roots

_COUNTS = ("num_sentences", "num_in_scope", "num_duplicates", "num_in_other")
_ROW = ["doc_id", "sentence_index"]


def stats_document(
    config: Path, environ: Mapping[str, str], *, top: int = 10, show_text: bool = False
) -> dict[str, Any]:
    """Returns the results of deduplication in the last run.

    Raises:
        ConfigError: deduplication has not run yet.
    """
    roots = open_store(load_settings(config, environ), create=False)
    key = runs.key_in(runs.latest(roots), "dedup_resolve")
    figures = roots.private_files("dedup_resolve", key).find_json(FIGURES) if key else None
    if not isinstance(figures, dict):
        raise ConfigError(f"deduplication did not run yet; start it with `reticent run {config}`")
    settings = ("mode", "unit", "backend", "normalise", "verify", "has_other", "min_tokens")
    return {
        **{name: figures[name] for name in (*settings, *_COUNTS)},
        "duplicate_share": figures["num_duplicates"] / figures["num_in_scope"] if figures["num_in_scope"] else None,
        "false_positives": _false_positives(figures),
        "stability": figures["stability"],
        "copies": _copies(roots),
        "most_frequent": _most_frequent(roots, top, show_text),
    }


def _false_positives(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Returns expected false positives, estimated from the filter's size and fill, and the verified count."""
    if figures["backend"] != "bloom":
        return {"target_rate": None, "expected": 0.0, "verified": 0}
    num_new = figures["num_in_scope"] - figures["num_in_other"] - figures["num_nominated"]
    rate, num_buckets = figures["target_false_positive_rate"], figures.get("num_buckets", 1)
    held = items_per_bucket(figures["expected_items"], num_buckets)
    return {
        "target_rate": rate,
        "expected": num_buckets * expected_false_positives(num_new // num_buckets, held, rate),
        "verified": figures["num_false_positives"],
    }


def _groups(roots: Roots) -> Any:
    """Returns ``duplicate_of`` and the number of copies, including the kept one, of sentences that repeat."""
    later = scan_latest(roots, "decisions").filter(pl.col("is_duplicate") & pl.col("duplicate_of").is_not_null())
    return later.group_by("duplicate_of").agg((pl.len() + 1).alias("count"))


def _copies(roots: Roots) -> list[dict[str, int]]:
    """Counts sentences by number of copies, in powers of two. Empty if the originals of copies are unknown."""
    band = (pl.col("count").cast(pl.Float64).log(2) + 1e-9).floor().cast(pl.UInt32)
    found = _groups(roots).group_by(band.alias("band")).agg(pl.len().alias("sentences")).sort("band").collect()
    return [
        {"at_least": 2**band, "at_most": 2 ** (band + 1) - 1, "num_sentences": count}
        for band, count in found.iter_rows()
    ]


def _most_frequent(roots: Roots, top: int, show_text: bool) -> list[dict[str, Any]]:
    where = pl.col("duplicate_of").str.split_exact(":", 1).struct
    first = _groups(roots).sort("count", "duplicate_of", descending=[True, False]).head(top)
    first = first.with_columns(
        where.field("field_0").alias("doc_id"), where.field("field_1").cast(pl.UInt32).alias("sentence_index")
    )
    shown = [
        pl.col("token_starts").list.len().alias("num_tokens"),
        pl.col("text").str.len_chars().alias("num_characters"),
        *([pl.col("text")] if show_text else []),
    ]
    sentences = scan_latest(roots, "sentences").select(*_ROW, *shown)
    found = first.join(sentences, on=_ROW, how="left").sort("count", "duplicate_of", descending=[True, False])
    rows: list[dict[str, Any]] = found.drop("duplicate_of", *_ROW).collect().to_dicts()
    return rows


def stats_text(document: Mapping[str, Any]) -> str:
    """Formats the document for people."""
    share, positives = document["duplicate_share"], document["false_positives"]
    verified = "not verified" if positives["verified"] is None else f"{positives['verified']:,} verified and removed"
    compared = "sentences" if document["unit"] == "sentence" else "sentences, as whole documents"
    lines = [
        f"{document['num_sentences']:,} sentences, {document['num_in_scope']:,} compared ({compared};"
        f" normalise = {document['normalise']})",
        f"  masked           {document['num_duplicates']:,}" + (f" ({share:.2%})" if share is not None else ""),
        f"  false positives  about {positives['expected']:.2g} expected, {verified}",
    ]
    if document["has_other"]:
        lines.insert(2, f"  in other corpus  {document['num_in_other']:,}")
    for band in document["copies"]:
        lines.append(f"  {band['at_least']:,} to {band['at_most']:,} copies: {band['num_sentences']:,} sentences")
    for row in document["most_frequent"]:
        text = f"  {row['text']}" if "text" in row else ""
        lines.append(f"  {row['count']:>9,} x {row['num_tokens']} tokens, {row['num_characters']} characters{text}")
    return "\n".join(lines)
