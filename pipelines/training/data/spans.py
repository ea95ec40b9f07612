"""Cuts a record into public and private spans in turn (Shi et al. 2022, section 4.1 and Algorithm 1, line 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from pipelines.training.data.records import IntArray, Records, target_positions


class SpanPair(NamedTuple):
    """A public span of input positions and the private span after it: ``B_np,i`` and ``B_p,i``. Either may be empty.

    Position t reads token t and predicts token t + 1. The public span is ``[public_start, private_start)``, and the
    private span is ``[private_start, stop)``.
    """

    public_start: int
    private_start: int
    stop: int


def span_pairs(is_private: npt.NDArray[np.bool_], max_private_spans: int) -> list[SpanPair]:
    """Returns the spans of one record.

    A private token x_t makes h_t, p_t and L_t private (equations 3 to 5), and also L_{t-1}, whose target it is. So a
    private span starts at the token *before* the first private one, and a public token between two private ones has no
    position of its own and is absorbed.

    Args:
        is_private: (T,) true for private tokens.
        max_private_spans: largest number of private spans, at least 1. The last one extends to the record's end:
            treating public tokens as private costs no privacy.

    Returns:
        Pairs that cover the positions 0 to T - 2 in order. Only the first public and the last private span may be
            empty.
    """
    positions = is_private[:-1] | is_private[1:]
    edges = np.flatnonzero(np.diff(positions, prepend=False, append=False))
    starts, stops = edges[0::2].tolist(), edges[1::2].tolist()
    if len(starts) > max_private_spans:
        starts, stops = starts[:max_private_spans], [*stops[: max_private_spans - 1], len(positions)]
    pairs, at = [], 0
    for start, stop in zip(starts, stops, strict=True):
        pairs.append(SpanPair(at, start, stop))
        at = stop
    if at < len(positions):
        pairs.append(SpanPair(at, len(positions), len(positions)))
    return pairs


@dataclass(frozen=True)
class SpannedRecord:
    """A record with its spans.

    Attributes:
        row: number of the record.
        ids: (T,) token ids.
        targets: (T,) true for targets of the loss.
        pairs: spans of the record.
    """

    row: int
    ids: IntArray
    targets: npt.NDArray[np.bool_]
    pairs: list[SpanPair]


def spanned(records: Records, rows: IntArray, max_private_spans: int) -> list[SpannedRecord]:
    """Returns the chosen records with their spans.

    Raises:
        ValueError: the records carry no marks.
    """
    if records.is_private is None:
        raise ValueError("selective training needs records whose tokens are marked as private or public")
    chosen = []
    for row in rows:
        ids = np.asarray(records.ids[int(row)], dtype=np.int64)
        marks = np.asarray(records.is_private[int(row)], dtype=bool)
        pairs = span_pairs(marks, max_private_spans)
        chosen.append(SpannedRecord(int(row), ids, target_positions(ids, records.control), pairs))
    return chosen


@dataclass(frozen=True)
class SpanBatch:
    """A span of several records, padded at the end.

    Attributes:
        inputs: (B, T) int64 ids that the model reads.
        labels: (B, T) int64 target ids, 0 if there is none.
        weights: (B, T) 1 / (the span's targets) at its targets, else 0: the loss is normalised inside the example only.
        lengths: (B,) number of positions of each span, at least 1.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor
    lengths: torch.Tensor


def collate_spans(spans: list[tuple[SpannedRecord, int, int]], pad: int, like: torch.Tensor) -> SpanBatch:
    """Pads the given (record, start, stop) spans to the longest.

    Args:
        spans: at least one span, and no empty span.
        pad: padding id.
        like: tensor with the device and the dtype of the model.
    """
    lengths = np.asarray([stop - start for _, start, stop in spans])
    inputs = np.full((len(spans), lengths.max()), pad, dtype=np.int64)
    labels = np.zeros_like(inputs)
    weights = np.zeros(inputs.shape)
    for at, (record, start, stop) in enumerate(spans):
        inputs[at, : stop - start] = record.ids[start:stop]
        targets = record.targets[start + 1 : stop + 1]
        labels[at, : stop - start] = np.where(targets, record.ids[start + 1 : stop + 1], 0)
        weights[at, : stop - start] = targets / max(1, int(targets.sum()))
    return SpanBatch(
        torch.from_numpy(inputs).to(like.device),
        torch.from_numpy(labels).to(like.device),
        torch.from_numpy(weights).to(like.device, like.dtype),
        torch.from_numpy(lengths),
    )
