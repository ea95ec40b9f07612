"""Examples: the model's inputs, and the target of each output.

Padding is on the right. Causal models need no attention mask for it, because no real position sees a later one. Models
that look both ways get a mask. Position ids are given for every example (see `ExampleBatch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from pipelines.artifacts import Target
from pipelines.training.data.ragged import RaggedArray, RaggedWriter
from pipelines.training.data.records import ExampleBatch, IntArray, Padding

IGNORED: Final = -100
"""Label of a position whose output has no target."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A record in the form that a model reads.

    Attributes:
        ids: (T,) ids that the model reads.
        labels: (T,) target id of each position's output, or `IGNORED`.
        label: number of the right class, or None.
        token_types: (T,) segments, or None.
        is_cut: true if the record was longer than the context.
    """

    ids: Sequence[int]
    labels: Sequence[int]
    label: int | None = None
    token_types: Sequence[int] | None = None
    is_cut: bool = False


def causal_example(ids: Sequence[int], is_target: Sequence[bool], context_length: int) -> Example:
    """Returns an example of a causal model from a whole record.

    Args:
        ids: (T,) ids of the record from its begin to its end token.
        is_target: (T,) true for tokens that the model is asked to predict. Never true for the first.
        context_length: longest record, in tokens. A longer record loses its own end.
    """
    kept, targets = list(ids[:context_length]), list(is_target[:context_length])
    labels = [token if asked else IGNORED for token, asked in zip(kept[1:], targets[1:], strict=True)]
    return Example(ids=kept[:-1], labels=labels, is_cut=len(ids) > context_length)


@dataclass(frozen=True, kw_only=True)
class TaskRecords:
    """Examples on disk, in training order.

    Attributes:
        ids: ids that the model reads.
        labels: target ids, in rows as long as those of ``ids``.
        token_types: segments, or None.
        classes: (N,) right class of each example, -1 if it has none.
        num_targets: (N,) number of targets of each example. A class is one target.
        num_truncated: number of records that were cut at the context length.
        padding: padding of a batch.
        by_class: true if the class is the target.
        is_private: always None, because nothing is marked.
    """

    ids: RaggedArray
    labels: RaggedArray
    token_types: RaggedArray | None
    classes: IntArray
    num_targets: IntArray
    num_truncated: int
    padding: Padding
    by_class: bool = False
    is_private: None = None

    def __len__(self) -> int:
        return len(self.num_targets)

    @property
    def num_outputs(self) -> IntArray:
        """(N,) number of outputs of each example: one for each id that is read."""
        return self.ids.lengths

    def collate(self, rows: IntArray) -> ExampleBatch:
        """Pads the chosen examples to the longest among them.

        Args:
            rows: (B,) their numbers; at least one.
        """
        how = self.padding
        lengths = self.ids.lengths[rows]
        shape = (len(rows), int(lengths.max()))
        ids = np.full(shape, how.pad, dtype=np.int64)
        labels = np.zeros(shape, dtype=np.int64)
        weights = np.zeros(shape, dtype=np.float64)
        types = np.zeros(shape, dtype=np.int64)
        steps = np.arange(shape[1])
        is_real = steps < lengths[:, None]
        for at, row in enumerate(rows):
            length = int(lengths[at])
            ids[at, :length] = self.ids[int(row)]
            asked = np.asarray(self.labels[int(row)], dtype=np.int64)
            is_asked = asked != IGNORED
            labels[at, :length] = np.where(is_asked, asked, 0)
            if is_asked.any():
                weights[at, :length] = is_asked / is_asked.sum()
            if self.token_types is not None:
                types[at, :length] = self.token_types[int(row)]
        # Causal models see no padding, so its positions go on counting; this keeps each row strictly increasing.
        positions = np.broadcast_to(steps + how.first_position, shape)
        if how.with_attention_mask:
            positions = np.where(is_real, positions, how.pad_position)
        return ExampleBatch(
            inputs=torch.from_numpy(ids),
            labels=torch.from_numpy(labels),
            weights=torch.from_numpy(weights),
            position_ids=torch.from_numpy(np.array(positions, dtype=np.int64)),
            attention_mask=torch.from_numpy(is_real.astype(np.int64)) if how.with_attention_mask else None,
            token_types=torch.from_numpy(types) if how.with_token_types else None,
            classes=torch.from_numpy(self.classes[rows]) if self.by_class else None,
        )


def write_examples(
    examples: Iterable[Example], padding: Padding, scratch: Target, name: str, *, by_class: bool = False
) -> TaskRecords:
    """Writes examples one by one, so that they need not fit in memory.

    Args:
        examples: examples in training order.
        padding: padding of a batch.
        scratch, name: folder and name of the files.
        by_class: true if the class is the target. Labels of outputs then only mark places.
    """
    classes: list[int] = []
    num_targets: list[int] = []
    num_truncated = 0
    with (
        RaggedWriter(scratch, f"{name}_ids", np.int32) as ids,
        RaggedWriter(scratch, f"{name}_labels", np.int32) as labels,
        RaggedWriter(scratch, f"{name}_types", np.int8) as types,
    ):
        for example in examples:
            ids.append(example.ids)
            labels.append(example.labels)
            types.append([0] * len(example.ids) if example.token_types is None else example.token_types)
            asked = sum(label != IGNORED for label in example.labels)
            classes.append(-1 if example.label is None else example.label)
            num_targets.append(int(example.label is not None) if by_class else asked)
            num_truncated += example.is_cut
    return TaskRecords(
        ids=ids.open(),
        labels=labels.open(),
        token_types=types.open() if padding.with_token_types else None,
        classes=np.asarray(classes, dtype=np.int64),
        num_targets=np.asarray(num_targets, dtype=np.int64),
        num_truncated=num_truncated,
        padding=padding,
        by_class=by_class,
    )
