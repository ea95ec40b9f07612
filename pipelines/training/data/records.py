"""Records: how the rows of one record become token ids, and which of them the model is asked to predict.

Everything here looks at one record only. That is what keeps one record's change from reaching another record: no block
is shared, no batch-wide count enters the loss (design, section 5, "Record" and "Training methods").
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
    """The control tokens of one record of plain language modelling, ``<BOS> ([domain] [speaker] text)+ <EOS>``.

    Between ``<BOS>`` and ``<EOS>``, the first record of a conversation starts with ``<_soc_>``, and the last ends with
    ``<_eoc_>``, where conversations have tokens.

    Attributes:
        before: what stands before all rows.
        turns: what stands before the text of each row.
        after: what stands after all rows.
    """

    before: Sequence[int]
    turns: Sequence[Sequence[int]]
    after: Sequence[int]

    def around(self, texts: Sequence[Sequence[T]], of_control: Callable[[int], T]) -> list[T]:
        """The whole record: something for each token of the rows' texts, and for each control token."""
        found = [*map(of_control, self.before)]
        for turn, text in zip(self.turns, texts, strict=True):
            found += [*map(of_control, turn), *text]
        return [*found, *map(of_control, self.after)]

    def encode(self, texts: Sequence[Sequence[int]], context_length: int) -> tuple[list[int], bool]:
        """The ids of the record, and whether it had to be cut.

        A record longer than the context loses its own end; nothing ever spills into another record.

        Args:
            texts: for each row, the ids of its text.
            context_length: the most ids of a record.
        """
        ids = self.around(texts, int)
        return ids[:context_length], len(ids) > context_length


def frame_of(record: RecordRows, control: ControlTokens) -> Frame:
    """The control tokens of a record."""
    before, after = control.around(starts=record.starts, ends=record.ends)
    turns = [control.before_turn(*names) for names in zip(record.speakers, record.domains, strict=True)]
    return Frame(before, turns, after)


def target_positions(ids: IntArray, control: ControlTokens) -> npt.NDArray[np.bool_]:
    """Which tokens of a record are targets of the loss.

    Args:
        ids: (T,) the record.
        control: its control tokens.

    Returns:
        (T,) True at text tokens; at the tokens that end a record or a conversation only if the record has a text
        token. The first token, masks, speakers, domains, the start of a conversation and padding are never targets,
        so a wholly masked record has none and its loss is zero.
    """
    targets = ~np.isin(ids, control.never_predicted)
    targets[:1] = False
    end = np.isin(ids, list(control.ends))
    if not (targets & ~end).any():
        targets[:] = False
    return targets


@dataclass(frozen=True, kw_only=True)
class Padding:
    """How a batch is padded.

    Attributes:
        pad: the id that fills up.
        first_position: the position id of a first token (RoBERTa: 2).
        pad_position: the position id of padding.
        with_attention_mask: whether the model looks both ways, and has to be told where an example ends.
        with_token_types: whether the model reads segments.
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
        labels: (B, T) int64 the id asked for at each position (0 where it is no target).
        weights: (B, T) float, 1 / (number of the record's targets) at its targets, 0 elsewhere. They sum to 1 in a
            record that has targets and to 0 in one that has none: the loss is normalised inside the example only.
        position_ids: (B, T) int64, or None for the model's own. Given for every example, so that the gradient of a
            position embedding can be told apart by example (a model's own are of shape (1, T)).
        attention_mask: (B, T) int64, 1 at real tokens; None where causal attention after which padding follows needs
            none.
        token_types: (B, T) int64 segments, or None.
        classes: (B,) int64 the right class of each example, -1 where it is unknown, in a classification; else None.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor
    position_ids: torch.Tensor | None = None
    attention_mask: torch.Tensor | None = None
    token_types: torch.Tensor | None = None
    classes: torch.Tensor | None = None

    def to(self, device: torch.device, dtype: torch.dtype) -> ExampleBatch:
        """The batch on ``device``, its weights in the model's ``dtype``."""

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
        """The keyword arguments of a model of ``transformers``."""
        named = {
            "input_ids": self.inputs,
            "position_ids": self.position_ids,
            "attention_mask": self.attention_mask,
            "token_type_ids": self.token_types,
        }
        return {name: tensor for name, tensor in named.items() if tensor is not None}


class Examples(Protocol):
    """What steps are made of: `Records`, or `pipelines.training.data.task_examples.TaskRecords`.

    Attributes:
        ids: the token ids of every example.
        num_targets: (N,) how many outputs are asked for; 0 for one whose loss is zero whatever the model says.
        num_truncated: examples that were cut at the context length.
        is_private: for each id, 1 where it stands for private text, else 0; None where nothing is marked.
    """

    @property
    def ids(self) -> RaggedArray: ...  # noqa: D102

    @property
    def num_targets(self) -> IntArray: ...  # noqa: D102

    @property
    def num_outputs(self) -> IntArray:
        """(N,) outputs of each example; output t is about the token after the t-th that is read."""
        ...

    @property
    def num_truncated(self) -> int: ...  # noqa: D102

    @property
    def is_private(self) -> RaggedArray | None: ...  # noqa: D102

    @property
    def num_without_targets(self) -> int:
        """Examples whose loss is zero whatever the model says."""
        ...

    def __len__(self) -> int: ...

    def collate(self, rows: IntArray) -> ExampleBatch:
        """Pads the chosen examples to the longest among them; at least one."""
        ...


@dataclass(frozen=True, kw_only=True)
class Records:
    """Encoded records in training order.

    Attributes:
        ids: the token ids of every record.
        num_targets: (N,) how many of its tokens are targets; 0 for a wholly masked record.
        num_truncated: records that were cut at the context length.
        control: the control tokens.
        is_private: for each id, 1 where it stands for private text, else 0; None where nothing is marked. Control
            tokens are public.
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
        """(N,) outputs of each record: the last token is asked for and not read."""
        return np.maximum(self.ids.lengths - 1, 0)

    @property
    def num_without_targets(self) -> int:
        """Records whose loss is zero whatever the model says."""
        return int((self.num_targets == 0).sum())

    def collate(self, rows: IntArray) -> ExampleBatch:
        """Pads the chosen records to the longest among them.

        Padding follows the text, so with causal attention no real position ever sees it and no attention mask is
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
