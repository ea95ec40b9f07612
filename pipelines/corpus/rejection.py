"""Stops a run that rejected too many rows or has none to train on. Light, because cached runs check it too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pipelines.corpus.items import EMPTY
from pipelines.errors import InputError


def check_rejected(figures: Iterable[Mapping[str, Any]], max_rejected_fraction: float) -> None:
    """Refuses a corpus with too many rejected rows, or with no document at all. Empty rows are not rejected ones.

    Args:
        figures: figures of ``split``, one per partition
        max_rejected_fraction: largest allowed share of rejected rows, 0 to 1

    Raises:
        InputError: there are more rejected rows, or no row was usable. The message names reasons and counts.
    """
    num_rows = num_rejected = num_empty = 0
    reasons: dict[str, int] = {}
    for part in figures:
        num_rows += part.get("num_rows", part["num_documents"])  # older figures lack num_rows
        num_empty += part.get("num_empty", 0)
        for reason, count in part["rejected_by_reason"].items():
            if reason == EMPTY:  # in older figures
                num_empty += count
            else:
                num_rejected += count
                reasons[reason] = reasons.get(reason, 0) + count
    num_usable, num_rows = num_rows, num_rows + num_rejected
    listed = rejections_text(reasons)
    advice = f"rejected.parquet of the split stage lists each row with its file, reason and what to do.{hint(reasons)}"
    if num_usable == 0:
        found = f"all {num_empty} rows are empty. {advice}" if num_empty else "there is no text."
        if num_rejected:
            and_empty = f", and {num_empty} are empty" if num_empty else ""
            found = f"all {num_rejected} rows were rejected ({listed}){and_empty}. {advice}"
        raise InputError(f"the corpus holds no usable document: {found}")
    if num_rejected > max_rejected_fraction * num_rows:
        raise InputError(
            f"{num_rejected} of {num_rows} rows were rejected ({listed}), more than corpus.max_rejected_fraction ="
            f" {max_rejected_fraction:g}. {advice} Correct them, or raise corpus.max_rejected_fraction."
        )


def rejections_text(reasons: Mapping[str, int]) -> str:
    """Lists reasons with their numbers of rows, the most frequent first."""
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda r: (-r[1], r[0])))


def hint(reasons: Collection[str]) -> str:
    """Returns what to do about a table or JSON without its text, as a sentence after others; or nothing."""
    if "missing_text" not in reasons:
        return ""
    return " For missing_text, set corpus.text_field to the name of the column or field that holds the text."


def check_trainable(figures: Iterable[Mapping[str, Any]]) -> None:
    """Refuses a corpus that holds only held-out text, before it is prepared.

    Args:
        figures: figures of ``split``, one per partition

    Raises:
        InputError: no sentence is in the fold train. The message names the other folds.
    """
    folds: Counter[str] = Counter()
    for part in figures:
        folds.update(part["num_sentences_by_fold"])
    if not folds["train"]:
        listed = ", ".join(f"{count} in {fold}" for fold, count in sorted(folds.items()) if count) or "none at all"
        raise InputError(
            f"the corpus holds no sentence to train on ({listed}). Folds come from the field corpus.fold_field of"
            " a row, from its file's name (corpus.name_folds), or are drawn (split.valid_fraction, test_fraction)."
        )
