"""Records: the rows of one record become token ids, some of which the model is asked to predict.

Every function here looks at one record only, so that a change of one record cannot reach another record: no block is
shared, and no batch-wide count enters the loss (design, section 5, "Record" and "Training methods").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from pipelines.training.data.control import ControlTokens
from pipelines.training.data.ragged import RaggedArray
from pipelines.training.data.row_store import RecordRows

T = TypeVar("T")
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Frame:
    """Control tokens of one record of plain language modelling, ``<BOS> ([domain] [speaker] text)+ <EOS>``.

    If conversations have tokens, the first record of a conversation starts with ``<_soc_>`` after ``<BOS>``, and the
    last one ends with ``<_eoc_>`` before ``<EOS>``.

    Attributes:
        before: tokens before all rows.
        turns: tokens before the text of each row.
        after: tokens after all rows.
    """

    before: Sequence[int]
    turns: Sequence[Sequence[int]]
    after: Sequence[int]

    def around(self, texts: Sequence[Sequence[T]], of_control: Callable[[int], T]) -> list[T]:
        """Returns one item for each token of the whole record, from the texts' items and from control tokens."""
        items = [*map(of_control, self.before)]
        for turn, text in zip(self.turns, texts, strict=True):
            items += [*map(of_control, turn), *text]
        return [*items, *map(of_control, self.after)]

    def encode(self, texts: Sequence[Sequence[int]], context_length: int) -> tuple[list[int], bool]:
        """Returns the ids of the record, and true if it had to be cut.

        A record longer than the context loses its own end. Nothing ever spills into another record.
        """
        ids = self.around(texts, int)
        return ids[:context_length], len(ids) > context_length


def frame_of(record: RecordRows, control: ControlTokens) -> Frame:
    """Returns the control tokens of a record."""
    before, after = control.around(starts=record.starts, ends=record.ends)
    turns = [control.before_turn(*names) for names in zip(record.speakers, record.domains, strict=True)]
    return Frame(before, turns, after)


def target_positions(ids: IntArray, control: ControlTokens) -> npt.NDArray[np.bool_]:
    """Returns the targets of the loss among the tokens of a record.

    Returns:
        (T,) true for text tokens. True for tokens that end a record or a conversation only if the record has a text
            token.
        The first token, masks, speakers, domains, the start of a conversation and padding are never targets, so a
            wholly
        masked record has no target and its loss is zero.
    """
    targets = ~np.isin(ids, control.never_predicted)
    targets[:1] = False
    end = np.isin(ids, list(control.ends))
    if not (targets & ~end).any():
        targets[:] = False
    return targets


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Padding of a batch.

    Attributes:
        pad: padding id.
        first_position: position id of a first token (RoBERTa: 2).
        pad_position: position id of padding.
        with_attention_mask: true if the model looks both ways, and needs to know where an example ends.
        with_token_types: true if the model reads segments.
    """

    pad: int
    first_position: int = 0
    pad_position: int = 0
    with_attention_mask: bool = False
    with_token_types: bool = False


@dataclass(frozen=True)
class ExampleBatch:
    """Padded records.

    Attributes:
        inputs: (B, T) int64 ids that the model reads.
        labels: (B, T) int64 target id at each position (0 if the position has no target).
        weights: (B, T) float, 1 / (number of the record's targets) at its targets, 0 elsewhere. They sum to 1 in a
            record that has targets and to 0 in one that has none: the loss is normalised inside the example only.
        position_ids: (B, T) int64, or None for the model's own. Given for every example, so that the gradient of a
            position embedding can be separated by example (a model's own are of shape (1, T)).
        attention_mask: (B, T) int64, 1 at real tokens. None for causal attention followed by padding, which needs no
            mask.
        token_types: (B, T) int64 segments, or None.
        classes: (B,) int64 right class of each example, -1 if it is unknown, in a classification. Otherwise None.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor
    position_ids: torch.Tensor | None = None
    attention_mask: torch.Tensor | None = None
    token_types: torch.Tensor | None = None
    classes: torch.Tensor | None = None

    def to(self, device: torch.device, dtype: torch.dtype) -> ExampleBatch:
        """Returns the batch on ``device``, with its weights in the model's ``dtype``."""

        def moved(tensor: torch.Tensor | None) -> torch.Tensor | None:
            return None if tensor is None else tensor.to(device)

        return ExampleBatch(
            self.inputs.to(device),
            self.labels.to(device),
            self.weights.to(device, dtype),
            moved(self.position_ids),
            moved(self.attention_mask),
            moved(self.token_types),
            moved(self.classes),
        )

    def model_inputs(self) -> dict[str, torch.Tensor]:
        """Returns the keyword arguments of a model of ``transformers``."""
        named = {
            "input_ids": self.inputs,
            "position_ids": self.position_ids,
            "attention_mask": self.attention_mask,
            "token_type_ids": self.token_types,
        }
        return {name: tensor for name, tensor in named.items() if tensor is not None}


class Examples(Protocol):
    """Interface of the examples of steps: `Records`, or `pipelines.training.data.task_examples.TaskRecords`.

    Attributes:
        ids: token ids of every example.
        num_targets: (N,) number of targets of each example. 0 for an example whose loss is always zero.
        num_truncated: number of examples that were cut at the context length.
        is_private: marks of ids, 1 for private text and 0 otherwise. None if nothing is marked.
    """

    @property
    def ids(self) -> RaggedArray: ...  # noqa: D102

    @property
    def num_targets(self) -> IntArray: ...  # noqa: D102

    @property
    def num_outputs(self) -> IntArray:
        """(N,) number of outputs of each example. Output t is about the token after the t-th input."""
        ...

    @property
    def num_truncated(self) -> int: ...  # noqa: D102

    @property
    def is_private(self) -> RaggedArray | None: ...  # noqa: D102

    def __len__(self) -> int: ...

    def collate(self, rows: IntArray) -> ExampleBatch:
        """Pads the chosen examples, at least one, to the longest of them."""
        ...


@dataclass(frozen=True, kw_only=True)
class Records:
    """Encoded records in training order.

    Attributes:
        ids: token ids of every record.
        num_targets: (N,) number of targets of each record. 0 for a wholly masked record.
        num_truncated: number of records that were cut at the context length.
        control: control tokens.
        is_private: marks of ids, 1 for private text and 0 otherwise. None if nothing is marked. Control tokens are
            public.
    """

    ids: RaggedArray
    num_targets: IntArray
    num_truncated: int
    control: ControlTokens
    is_private: RaggedArray | None = None

    def __len__(self) -> int:
        return len(self.num_targets)

    @property
    def num_outputs(self) -> IntArray:
        """(N,) number of outputs of each record. The last token is a target and no input."""
        return np.maximum(self.ids.lengths - 1, 0)

    def collate(self, rows: IntArray) -> ExampleBatch:
        """Pads the chosen records to the longest of them.

        Padding follows the text, so with causal attention no real position ever sees it, and no attention mask is
        needed.
        """
        longest = max(2, int(self.ids.lengths[rows].max()))
        ids = np.full((len(rows), longest), self.control.pad, dtype=np.int64)
        weights = np.zeros((len(rows), longest), dtype=np.float64)
        for at, row in enumerate(rows):
            record = np.asarray(self.ids[int(row)], dtype=np.int64)
            ids[at, : len(record)] = record
            targets = target_positions(record, self.control)
            if targets.any():
                weights[at, : len(record)] = targets / targets.sum()
        labels = np.where(weights[:, 1:] > 0, ids[:, 1:], 0)
        return ExampleBatch(
            torch.from_numpy(np.ascontiguousarray(ids[:, :-1])),
            torch.from_numpy(np.ascontiguousarray(labels)),
            torch.from_numpy(np.ascontiguousarray(weights[:, 1:])),
        )
