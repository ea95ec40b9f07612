"""Records outside a store: texts encoded in memory for a trained model's task, and the model's losses on them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from pipelines.errors import ConfigError
from pipelines.training.data.control import ControlTokens
from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.data.records import frame_of
from pipelines.training.data.row_store import RecordRows
from pipelines.training.data.task_examples import IGNORED
from pipelines.training.data.vocabulary import Vocabulary
from pipelines.training.tasks import registry
from pipelines.training.tasks.base import LanguageTask, TaskModel
from pipelines.training.tasks.dialogue import turns_of
from pipelines.training.tasks.prompts import prompt_ids

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_ENCODED_AT_ONCE: Final = 4_096


@dataclass(frozen=True, kw_only=True)
class Record:
    """Input of a model: one text, or the turns of a dialogue.

    Attributes:
        texts: text of each row.
        speakers, domains: speaker and domain of each row. Empty if there are none.
        private_chars: half-open ranges of private characters of each row, for models that mark tokens
            (``sdpsgd_lstm``). Empty if nothing is private.
        starts, ends: true if the record begins, or ends, its conversation. Used by models that have tokens for it.
    """

    texts: Sequence[str]
    speakers: Sequence[str | None] = ()
    domains: Sequence[str | None] = ()
    private_chars: Sequence[Sequence[tuple[int, int]]] = ()
    starts: bool = False
    ends: bool = False

    def rows(self) -> RecordRows:
        """Returns the record in the form that training reads.

        Raises:
            ConfigError: there is no text, or the fields have different lengths.
        """
        num = len(self.texts)
        if isinstance(self.texts, str) or not num:
            raise ConfigError("a record needs a list of at least one text")
        if any(len(given) not in (0, num) for given in (self.speakers, self.domains, self.private_chars)):
            raise ConfigError("speakers, domains and private_chars of a record must be as many as its texts, or none")
        return RecordRows(
            texts=list(self.texts),
            speakers=list(self.speakers or [None] * num),
            domains=list(self.domains or [None] * num),
            labels=[None] * num,
            private_chars=[list(ranges) for ranges in self.private_chars or [()] * num],
            starts=self.starts,
            ends=self.ends,
        )


@dataclass(frozen=True, kw_only=True)
class EncodedRecords:
    """Records as token ids. T is the sum of their lengths.

    Attributes:
        ids: (T,) int32 token ids of all records in order, with control tokens.
        offsets: (N + 1,) int64 start of each record in the flat arrays.
        is_target: (T,) true for tokens that the model is asked to predict. Never true for the first token of a record.
        num_truncated: number of records that were cut at the context length.
    """

    ids: npt.NDArray[np.int32]
    offsets: IntArray
    is_target: BoolArray
    num_truncated: int = 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """(N,) number of tokens of each record."""
        return np.diff(self.offsets)


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Losses of a model on records, in nats. T is the sum of the records' lengths.

    Attributes:
        per_record: (N,) float64 sum over the targets of each record. 0 for a record without targets.
        num_tokens: (N,) int64 number of targets of each record.
        per_token: (T,) float64 loss of each token of all records in order. 0 for a token that is not a target.
        is_likeliest: (T,) true for targets that the model ranks first.
        records: scored records: ids, offsets and targets.
    """

    per_record: FloatArray
    num_tokens: IntArray
    per_token: FloatArray
    is_likeliest: BoolArray
    records: EncodedRecords

    def of(self, record: int) -> FloatArray:
        """Returns (T_record,) the losses of one record's tokens."""
        return self.per_token[self.records.offsets[record] : self.records.offsets[record + 1]]

    @property
    def mean(self) -> FloatArray:
        """(N,) mean loss per token. NaN for a record without targets."""
        with np.errstate(invalid="ignore"):
            return self.per_record / np.where(self.num_tokens > 0, self.num_tokens, np.nan)

    @property
    def perplexity(self) -> float:
        """Exponential of the mean loss over all targets, as in ``figures.json``. NaN without targets."""
        total = int(self.num_tokens.sum())
        return float(np.exp(self.per_record.sum() / total)) if total else float("nan")


@dataclass(frozen=True, kw_only=True)
class MemoryEncoder:
    """Encodes records as the training of a causal language model did.

    Attributes:
        vocabulary: vocabulary of the model.
        context_length: longest record, in tokens.
        task: task that the model was trained for.
        marks_tokens: true if private pieces are encoded separately.
    """

    vocabulary: Vocabulary
    context_length: int
    task: str
    marks_tokens: bool

    def encode(self, records: Iterable[str | Record | RecordRows]) -> EncodedRecords:
        """Encodes records, cut at the context length. Raises like `Record.rows` and the task."""
        rows = map(rows_of, records)
        parts: list[tuple[list[list[int]], list[list[bool]] | None, int]] = []
        while chunk := list(islice(rows, _ENCODED_AT_ONCE)):
            parts.append(self._plain(chunk) if self.task == "language_modelling" else self._of_task(chunk))
        lengths = [len(ids) for rows_ids, _, _ in parts for ids in rows_ids]
        ids = np.fromiter((i for rows_ids, _, _ in parts for ids in rows_ids for i in ids), np.int32, sum(lengths))
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        if self.task == "language_modelling":
            is_target = targets_of(ids, offsets, self.vocabulary.control)
        else:
            is_target = np.fromiter(
                (t for _, asked, _ in parts for row in asked or () for t in row), np.bool_, len(ids)
            )
        return EncodedRecords(
            ids=ids, offsets=offsets, is_target=is_target, num_truncated=sum(truncated for _, _, truncated in parts)
        )

    def _plain(self, chunk: Sequence[RecordRows]) -> tuple[list[list[int]], None, int]:
        encoder = RecordEncoder(self.vocabulary, self.context_length)
        encoded = list(encoder.encode_chunk(chunk, self.marks_tokens))
        return [ids for ids, _, _ in encoded], None, sum(is_cut for _, _, is_cut in encoded)

    def _of_task(self, chunk: Sequence[RecordRows]) -> tuple[list[list[int]], list[list[bool]], int]:
        model = TaskModel(vocabulary=self.vocabulary, context_length=self.context_length)
        spec = registry.task(self.task)
        task = importlib.import_module(spec.module).make_task(model, spec.settings(task=self.task))
        assert isinstance(task, LanguageTask)  # noqa: S101  # the task of a causal model
        ids, asked, num_truncated = [], [], 0
        for example in map(task.example, chunk):
            # An example holds all but its last token. The target of its last output is that last token.
            is_asked = [label != IGNORED for label in example.labels]
            ids.append([*example.ids, *(example.labels[-1:] if is_asked[-1:] == [True] else ())])
            asked.append([False, *is_asked][: len(ids[-1])])
            num_truncated += example.is_cut
        return ids, asked, num_truncated

    def prompt(self, record: str | Record | RecordRows) -> list[int]:
        """Returns the ids of a record whose last text the model will continue."""
        rows, control = rows_of(record), self.vocabulary.control
        if self.task == "table_to_text":
            (table,) = self.vocabulary.encoder.ids(rows.texts[:1])
            return prompt_ids(table, control, len(table) + 2)
        if self.task == "language_modelling":
            frame = frame_of(rows, control)
            joined = ((" " if at and not frame.turns[at] else "") + text for at, text in enumerate(rows.texts))
            turns = zip(frame.turns, self.vocabulary.encoder.ids(joined), strict=True)
            return [*frame.before, *(token for marks, text in turns for token in (*marks, *text))]
        ids, _ = control.around(starts=rows.starts, ends=False)
        for turn, text in zip(turns_of(rows, control), self.vocabulary.encoder.ids(rows.texts), strict=True):
            ids += [*turn.marks, *text, control.eos]
        return ids[:-1]


def targets_of(ids: npt.NDArray[np.int32], offsets: IntArray, control: ControlTokens) -> BoolArray:
    """Returns the targets of records of plain language modelling, all records at once.

    Args:
        ids: (T,) whole records in order, none of them empty.
        offsets: (N + 1,) start of each record.
        control: control tokens.

    Returns:
        (T,) the same targets as `pipelines.training.data.records.target_positions` gives for each record.
    """
    if len(ids) == 0:
        return np.zeros(0, dtype=np.bool_)
    size = max(int(ids.max()), *control.never_text.tolist()) + 1
    is_asked, is_end = np.ones(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    is_asked[control.never_predicted] = False
    is_end[list(control.ends)] = True
    targets: BoolArray = is_asked[ids]
    targets[offsets[:-1]] = False
    has_text = np.logical_or.reduceat(targets & ~is_end[ids], offsets[:-1])
    targets &= np.repeat(has_text, np.diff(offsets))
    return targets


def padded(encoded: EncodedRecords, rows: IntArray, pad: int) -> tuple[IntArray, BoolArray, IntArray]:
    """Returns some of the records as a batch, padded at the end to the longest length T.

    Returns:
        (B, T) ids, (B, T - 1) targets among the tokens after the first, and (B, T) positions in the flat arrays.
    """
    lengths = encoded.lengths[rows]
    steps = np.arange(int(lengths.max()))
    at = np.minimum(encoded.offsets[rows, None] + steps, len(encoded.ids) - 1)
    is_real = steps < lengths[:, None]
    return np.where(is_real, encoded.ids[at], pad).astype(np.int64), (is_real & encoded.is_target[at])[:, 1:], at


def sums_of(values: npt.NDArray[np.generic], offsets: IntArray) -> FloatArray:
    """Returns (N,) sums over the records, none of which is empty."""
    if len(offsets) == 1:
        return np.zeros(0)
    return np.add.reduceat(values.astype(np.float64), offsets[:-1])


def rows_of(record: str | Record | RecordRows) -> RecordRows:
    """Returns a record in the form that training reads."""
    if isinstance(record, str):
        return RecordRows([record], [None], [None], [None], [[]])
    return record.rows() if isinstance(record, Record) else record
