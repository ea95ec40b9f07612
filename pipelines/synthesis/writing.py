"""Writes rows of a plan with a trained model: in batches, keys and values kept, and rows that have ended left out.

A batch shrinks as its rows end: once a quarter of those in it have ended, their keys and values are dropped, where
``generate`` of ``transformers`` goes on computing them until the last row of the batch has ended. Which token comes
next is drawn by a number of the row's own (`pipelines.synthesis.plan`).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from pipelines.dp.language import base_of, has_prefix
from pipelines.errors import ConfigError
from pipelines.synthesis.plan import Turn
from pipelines.training.encoded import MemoryEncoder, Record
from pipelines.training.models.drawing import drawn_at, likely
from pipelines.training.models.recurrent import RecurrentLanguageModel
from pipelines.training.scoring.generation import never_written, padded_on_the_left
from pipelines.training.trained import TrainedModel

_SHRINK_AT: Final = 0.75
"""The share of rows still to be written at which a batch drops the others: to drop them copies the rest."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """A way to choose tokens.

    Attributes:
        temperature: divisor of the logits; 0 takes the likeliest token.
        top_p: probability that the likeliest tokens have together, among which one is drawn; 1 for all.
        batch_size: rows at a time. It enters the bytes: products of matrices round by their shape.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    batch_size: int = 128


@dataclass(frozen=True, kw_only=True)
class Written:
    """A row's text, without white space around it, and its length in tokens."""

    text: str
    num_tokens: int


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A prompt that is to be continued.

    Attributes:
        prompt: token ids, one at least.
        fewest, most: tokens to write; the end token is not counted.
        uniforms: (most,) in [0, 1); unused at temperature 0.
    """

    prompt: Sequence[int]
    fewest: int
    most: int
    uniforms: Any


def write(model: TrainedModel, turns: Sequence[Turn], how: Decoding) -> Iterator[tuple[Turn, Written]]:
    """Writes whole records, turn by turn, each turn given those before it; in the order of turns, then of records.

    Args:
        model: model of any task that writes text after a speaker and a domain.
        turns: all turns of some records.
        how: the decoding.

    Raises:
        ConfigError: a record leaves no room for a turn in the model's context.
    """
    before: dict[int, list[tuple[Turn, str]]] = {}
    num_turns = 1 + max((turn.turn for turn in turns), default=-1)
    for number in range(num_turns):
        asked = [turn for turn in turns if turn.turn == number]
        prompts = [
            prompt_ids(model, _record(before.get(turn.record, []), turn, starts=num_turns > 1)) for turn in asked
        ]
        rows = [
            Asked(prompt=prompt, fewest=turn.fewest, most=turn.most, uniforms=turn.uniforms)
            for prompt, turn in zip(prompts, asked, strict=True)
        ]
        for turn, ids in zip(asked, continued(model, rows, how), strict=True):
            text = str(model.vocabulary.tokenizer.decode(ids).strip())
            before.setdefault(turn.record, []).append((turn, text))
            yield turn, Written(text=text, num_tokens=len(ids))


def prompt_ids(model: TrainedModel, record: Record) -> list[int]:
    """Returns the ids of a record whose last text is still to be written."""
    encoder = MemoryEncoder(
        vocabulary=model.vocabulary,
        context_length=model.context_length,
        task=model.task,
        marks_tokens=False,  # of which a prompt has none
    )
    return encoder.prompt(record)


def _record(before: Sequence[tuple[Turn, str]], turn: Turn, *, starts: bool) -> Record:
    given = [*before, (turn, "")]
    return Record(
        texts=[text for _, text in given],
        speakers=[one.speaker for one, _ in given],
        domains=[one.domain for one, _ in given],
        starts=starts,
    )


def continued(model: TrainedModel, rows: Sequence[Asked], how: Decoding) -> list[list[int]]:
    """Returns the ids that follow each prompt, without the end token.

    Raises:
        ConfigError: a prompt leaves no room for what is asked for.
    """
    for row in rows:
        if len(row.prompt) + row.most > model.context_length:
            raise ConfigError(
                f"synthesize: a prompt of {len(row.prompt)} tokens leaves no room for {row.most} more in a context of "
                f"{model.context_length}; lower synthesize.max_new_tokens, or synthesize.turns"
            )
    order = sorted(range(len(rows)), key=lambda at: (rows[at].most, len(rows[at].prompt)))  # those that end together
    found: list[list[int]] = [[] for _ in rows]
    with torch.no_grad(), _one_thread():
        for first in range(0, len(order), how.batch_size):
            places = order[first : first + how.batch_size]
            for place, ids in zip(places, _batch(model, [rows[at] for at in places], how), strict=True):
                found[place] = ids
    return found


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Limits torch to one thread: their number changes how products of matrices round. Pieces go side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _batch(model: TrainedModel, rows: Sequence[Asked], how: Decoding) -> list[list[int]]:
    device, end = model.device, model.control.eos
    steps = _RecurrentSteps if isinstance(model.model, RecurrentLanguageModel) else _TransformerSteps
    state: _Steps = steps(model, [row.prompt for row in rows])
    most = torch.tensor([row.most for row in rows], device=device)
    fewest = torch.tensor([row.fewest for row in rows], device=device)
    longest = int(most.max())
    uniforms = torch.zeros((len(rows), longest), dtype=torch.float64)
    for line, row in enumerate(rows):
        uniforms[line, : row.most] = torch.from_numpy(np.asarray(row.uniforms[: row.most], dtype=np.float64))
    uniforms = uniforms.to(device)
    forbidden = never_written(model.control)
    lines = torch.arange(len(rows), device=device)  # the row that each line of the batch writes
    is_over = torch.zeros(len(rows), dtype=torch.bool, device=device)
    written = torch.full((len(rows), longest), end, device=device)
    for step in range(longest):
        logits = state.logits.float()
        logits[:, forbidden] = -torch.inf
        logits[:, end] = logits[:, end].masked_fill(fewest[lines] > step, -torch.inf)
        if how.temperature == 0:
            token = logits.argmax(dim=-1)
        else:
            token = drawn_at(likely(logits, temperature=how.temperature, top_p=how.top_p), uniforms[lines, step])
        token = token.masked_fill(is_over, end)
        written[lines, step] = token
        is_over = is_over | (token == end) | (most[lines] <= step + 1)
        left = int((~is_over).sum())
        if left == 0:
            break
        if left <= _SHRINK_AT * len(lines):
            kept = (~is_over).nonzero()[:, 0]
            state.keep(kept)
            lines, token, is_over = lines[kept], token[kept], is_over[kept]
        state.step(token)
    return [ids[: ids.index(end)] if end in ids else ids for ids in written.tolist()]


class _Steps(Protocol):
    """A model in the middle of a batch. ``logits``: (B, V), of the next token of each line."""

    logits: torch.Tensor

    def step(self, tokens: torch.Tensor) -> None:
        """Reads a token on each line."""

    def keep(self, lines: torch.Tensor) -> None:
        """Drops the other lines."""


class _TransformerSteps:
    """Prompts are padded on the left; positions count from each one's first token, as in training."""

    def __init__(self, model: TrainedModel, prompts: Sequence[Sequence[int]]) -> None:
        self._model = base_of(model.model)
        ids, mask = padded_on_the_left(prompts, model.control.pad)
        mask = mask.to(model.device)
        self._cache: Any = None
        before = 0
        if has_prefix(model.model):
            self._cache = model.model.get_prompt(len(prompts))
            before = int(model.model.active_peft_config.num_virtual_tokens)
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0) + before
        self._mask = torch.cat([mask.new_ones((len(prompts), before)), mask], dim=1)
        self._next = positions[:, -1:] + 1
        self._takes_positions = "position_ids" in inspect.signature(self._model.forward).parameters
        self._read(ids.to(model.device), positions)

    def _read(self, ids: torch.Tensor, positions: torch.Tensor) -> None:
        told = {"position_ids": positions} if self._takes_positions else {}
        output = self._model(
            input_ids=ids, attention_mask=self._mask, past_key_values=self._cache, use_cache=True, **told
        )
        self._cache = output.past_key_values
        self.logits = output.logits[:, -1]

    def step(self, tokens: torch.Tensor) -> None:
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(tokens), 1))], dim=1)
        self._read(tokens[:, None], self._next)
        self._next = self._next + 1

    def keep(self, lines: torch.Tensor) -> None:
        self._cache.batch_select_indices(lines)
        self._mask, self._next = self._mask[lines], self._next[lines]


class _RecurrentSteps:
    def __init__(self, model: TrainedModel, prompts: Sequence[Sequence[int]]) -> None:
        self._model = model.model
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=model.device)
        ids = pad_sequence([torch.tensor(list(prompt)) for prompt in prompts], batch_first=True)
        output = self._model(ids.to(model.device), lengths=lengths.cpu())
        self.logits = output.logits[torch.arange(len(prompts), device=model.device), lengths - 1]
        self._state = output.state

    def step(self, tokens: torch.Tensor) -> None:
        output = self._model(tokens[:, None], state=self._state)
        self.logits, self._state = output.logits[:, -1], output.state

    def keep(self, lines: torch.Tensor) -> None:
        self._state = tuple(values[lines] for values in self._state)
