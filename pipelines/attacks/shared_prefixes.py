"""Losses of many records with shared beginnings, which the model reads once.

Records are ordered by their tokens and read as a radix tree. An edge is a run of tokens that the same records share, so
any tokenizer works, even one that merges digits. The tree is read depth first in batches: a batch continues the cached
keys and values (LSTM and GRU: the states) of its parents, and a cache is dropped once its last child was read. The
last token of a record is scored and never read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from transformers import DynamicCache

from pipelines.dp.language import PLAIN_HEADS, base_of, token_losses
from pipelines.errors import ConfigError
from pipelines.training.devices import cpu_threads_for
from pipelines.training.encoded import EncodedRecords, FloatArray, IntArray
from pipelines.training.models.adaptation import count_parameters
from pipelines.training.models.recurrent import RecurrentLanguageModel

_MOST_TOKENS: Final = 2_048
_MOST_LOGITS: Final = 2**25
_MOST_CACHED: Final = 2**27
"""Most numbers in the caches of one batch."""
_MOST_SIBLINGS: Final = 5
_NO_TOKEN: Final = -1

Cache = list[torch.Tensor]
"""Tensors whose first dimension is the row of a batch."""


@contextlib.contextmanager
def one_pass_activations(model: Any) -> Iterator[None]:
    """Runs the body with GPT-2's activation computed in one pass over memory instead of eight in transformers.

    The function is the same except for rounding. It saves a fifth of the time of a small model.
    """
    swapped = [
        (module, name)
        for module in model.modules()
        for name, child in module.named_children()
        if type(child).__name__ == "NewGELUActivation"
    ]
    before = [getattr(module, name) for module, name in swapped]
    for module, name in swapped:
        setattr(module, name, torch.nn.GELU(approximate="tanh"))
    try:
        yield
    finally:
        for (module, name), activation in zip(swapped, before, strict=True):
            setattr(module, name, activation)


def shared_prefix_losses(model: Any, encoded: EncodedRecords) -> FloatArray:
    """Returns the loss of each record, as `pipelines.training.trained.TrainedModel.losses` except for rounding.

    Args:
        model: a causal language model of transformers that caches keys and values, with or without a trained prefix, or
            an LSTM or GRU.
        encoded: encoded records.

    Returns:
        (N,) float64 sums over the target tokens, in nats, in the order of the records.

    Raises:
        ConfigError: the model gives no keys and values to continue from.
    """
    if not len(encoded):
        return np.zeros(0)
    tree = _Tree(encoded)
    with torch.no_grad(), cpu_threads_for(count_parameters(model)[1]):
        return _Walk(model, tree).losses()


@dataclass(frozen=True)
class _Edges:
    """Edges of the tree that leave nodes of one batch, all at one depth.

    Attributes:
        first, end: (E,) half-open range of ordered records behind each edge.
        upto: (E,) end of the edge, in tokens from the beginning of the record.
        is_leaf: (E,) true if all records behind it are the same.
        parent: (E,) row of the node in its batch.
    """

    first: IntArray
    end: IntArray
    upto: IntArray
    is_leaf: npt.NDArray[np.bool_]
    parent: IntArray

    def __getitem__(self, chosen: Any) -> _Edges:
        columns = (self.first, self.end, self.upto, self.is_leaf, self.parent)
        return _Edges(*(column[chosen] for column in columns))


class _Tree:
    """Records ordered by their tokens. The target flag is part of a token, so it is the same along an edge."""

    def __init__(self, encoded: EncodedRecords) -> None:
        lengths = encoded.lengths
        longest, num = int(lengths.max()), len(encoded)
        tokens = np.full((num, longest), _NO_TOKEN, dtype=np.int64)
        rows = np.repeat(np.arange(num), lengths)
        columns = np.arange(len(encoded.ids)) - np.repeat(encoded.offsets[:-1], lengths)
        tokens[rows, columns] = encoded.ids.astype(np.int64) * 2 + encoded.is_target
        self.order = np.lexsort(tokens.T[::-1])
        self.tokens, self.lengths = tokens[self.order], lengths[self.order]
        differs = self.tokens[1:] != self.tokens[:-1]
        alike = np.where(differs.any(axis=1), differs.argmax(axis=1), self.lengths[:-1])
        self.shared = np.append(alike, 0)
        """(N,) number of tokens that a record shares with the next one."""

    def edges(self, first: IntArray, end: IntArray, depth: int) -> _Edges:
        """Returns the edges that leave nodes: (B,) half-open ranges of records that share ``depth`` tokens."""
        sizes = end - first
        parent = np.repeat(np.arange(len(first)), sizes)
        rows = np.arange(len(parent)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(first, sizes)
        goes_on = self.lengths[rows] > depth
        rows, parent = rows[goes_on], parent[goes_on]
        if not len(rows):
            nothing = np.zeros(0, dtype=np.int64)
            return _Edges(nothing, nothing, nothing, nothing.astype(np.bool_), nothing)
        begins = np.ones(len(rows), dtype=np.bool_)
        begins[1:] = (parent[1:] != parent[:-1]) | (self.shared[rows[1:] - 1] <= depth)
        starts = np.flatnonzero(begins)
        is_last = np.append(begins[1:], True)
        upto = np.minimum.reduceat(np.where(is_last, self.lengths[rows], self.shared[rows]), starts)
        longest = np.maximum.reduceat(self.lengths[rows], starts)
        return _Edges(rows[starts], rows[is_last] + 1, upto, upto == longest, parent[starts])


class _Pending(NamedTuple):
    """Edges of equal length to read in one batch, with the state that they continue.

    Attributes:
        edges: E edges.
        depth: number of tokens before them.
        so_far: (E,) losses up to the first token of each edge, from the parent's logits.
        cache: cache of the parents.
    """

    edges: _Edges
    depth: int
    so_far: FloatArray
    cache: Cache | None


class _Walk:
    """A walk that reads a tree, depth first."""

    def __init__(self, model: Any, tree: _Tree) -> None:
        self._tree = tree
        self._device = next(model.parameters()).device
        self._reader = (
            _RecurrentReader(model) if isinstance(model, RecurrentLanguageModel) else _TransformerReader(model)
        )
        self._found = np.zeros(len(tree.order))
        self._pending: list[_Pending] = []

    def losses(self) -> FloatArray:
        """Returns (N,) losses in the order of the records."""
        everything = np.zeros(1, dtype=np.int64), np.asarray([len(self._tree.order)])
        roots = self._tree.edges(*everything, 0)
        self._add(roots, 0, np.zeros(len(roots.first)), None)
        while self._pending:
            self._read(self._pending.pop())
        in_order = np.empty_like(self._found)
        in_order[self._tree.order] = self._found
        return in_order

    def _add(self, edges: _Edges, depth: int, so_far: FloatArray, cache: Cache | None) -> None:
        """Queues edges, those of equal length in batches."""
        num_read = edges.upto - depth - edges.is_leaf
        for kind in np.unique(2 * num_read + edges.is_leaf):
            chosen = np.flatnonzero(2 * num_read + edges.is_leaf == kind)
            if kind == 1:  # only the last token of each record, whose loss is known
                self._note(edges[chosen], so_far[chosen])
                continue
            size = self._reader.batch_size(int(kind) // 2, cache)
            for start in range(0, len(chosen), size):
                batch = chosen[start : start + size]
                self._pending.append(_Pending(edges[batch], depth, so_far[batch], cache))

    def _note(self, edges: _Edges, losses: FloatArray) -> None:
        """Sets the losses of the records that end at the end of an edge."""
        sizes = edges.end - edges.first
        rows = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(edges.first, sizes)
        ends = self._tree.lengths[rows] == np.repeat(edges.upto, sizes)
        self._found[rows[ends]] = np.repeat(losses, sizes)[ends]

    def _read(self, batch: _Pending) -> None:
        edges, depth = batch.edges, batch.depth
        is_leaf = bool(edges.is_leaf[0])
        upto = int(edges.upto[0])
        tokens = self._tree.tokens[edges.first, depth:upto]  # (E, L)
        ids = torch.from_numpy(tokens >> 1).to(self._device)
        given = ids[:, :-1] if is_leaf else ids
        rows = torch.from_numpy(edges.parent).to(self._device)
        logits, cache = self._reader.read(given, rows, batch.cache, keeps=not is_leaf)  # (E, L or L - 1, V)
        asked = ids[:, 1:]
        losses = batch.so_far
        if asked.shape[1]:
            each = token_losses(logits[:, : asked.shape[1]], asked).cpu().numpy().astype(np.float64)
            losses = losses + (each * (tokens[:, 1:] & 1)).sum(axis=1)
        self._note(edges, losses)
        if is_leaf:
            return
        below = self._tree.edges(edges.first, edges.end, upto)
        if not len(below.first):
            return
        first = self._tree.tokens[below.first, upto]
        last = logits[:, -1]
        of_first = torch.logsumexp(last, dim=-1)[below.parent] - last[below.parent, torch.from_numpy(first >> 1)]
        so_far = losses[below.parent] + of_first.cpu().numpy().astype(np.float64) * (first & 1)
        self._add(below, upto, so_far, cache)


class _TransformerReader:
    def __init__(self, model: Any) -> None:
        self._model, self._base = model, base_of(model)
        self._vocab_size: int = self._base.get_output_embeddings().weight.shape[0]
        attention = getattr(self._base.config, "_attn_implementation", None)
        self._packs = type(self._base).__name__ in PLAIN_HEADS and attention in ("sdpa", "eager")

    def batch_size(self, length: int, cache: Cache | None) -> int:
        cached = sum(part[0].numel() for part in cache or ())
        sizes = _MOST_TOKENS // length, _MOST_LOGITS // (length * self._vocab_size), _MOST_CACHED // max(1, cached)
        return max(1, min(sizes))

    def read(
        self, ids: torch.Tensor, rows: torch.Tensor, cache: Cache | None, *, keeps: bool
    ) -> tuple[torch.Tensor, Cache | None]:
        if cache is None:  # a trained prefix enters here
            output = self._model(input_ids=ids, use_cache=True)
        elif keeps or not self._packs:
            output = self._base(input_ids=ids, past_key_values=_past(cache, rows), use_cache=True)
        else:
            return self._read_packed(ids, rows, cache), None
        past = output.past_key_values
        if not isinstance(past, DynamicCache):
            raise ConfigError(f"{type(self._base).__name__} gives no keys and values to continue from")
        return output.logits, [part for layer in past for part in layer[:2]]

    def _read_packed(self, ids: torch.Tensor, rows: torch.Tensor, cache: Cache) -> torch.Tensor:
        """Reads siblings as one row, hidden from each other, so that their past is copied once."""
        num, length = ids.shape
        _, sizes = torch.unique_consecutive(rows, return_counts=True)
        number = torch.arange(num, device=ids.device) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        is_new = number % _MOST_SIBLINGS == 0
        row, place = is_new.cumsum(0) - 1, number % _MOST_SIBLINGS
        width = int(place.max()) + 1
        packed = ids.new_zeros((int(row[-1]) + 1, width, length))
        packed[row, place] = ids
        seen = cache[0].shape[2]
        of_sibling = torch.arange(width * length, device=ids.device) // length
        step = torch.arange(width * length, device=ids.device) % length
        is_own = (of_sibling[:, None] == of_sibling) & (step[:, None] >= step)
        bias = torch.zeros((width * length, seen + width * length), dtype=cache[0].dtype, device=ids.device)
        bias[:, seen:].masked_fill_(~is_own, torch.finfo(bias.dtype).min)
        output = self._base(
            input_ids=packed.flatten(1),
            past_key_values=_past(cache, rows[is_new]),
            attention_mask=bias.expand(len(packed), 1, -1, -1),
            position_ids=(seen + step).expand(len(packed), -1),
        )
        logits: torch.Tensor = output.logits.unflatten(1, (width, length))
        is_full = len(packed) * width == num
        return logits.flatten(0, 1) if is_full else logits[row, place]


def _past(cache: Cache, rows: torch.Tensor) -> DynamicCache:
    chosen = [part.index_select(0, rows) for part in cache]
    return DynamicCache(zip(chosen[::2], chosen[1::2], strict=True))


class _RecurrentReader:
    def __init__(self, model: RecurrentLanguageModel) -> None:
        self._model = model

    def batch_size(self, length: int, cache: Cache | None) -> int:
        del cache
        return max(1, min(_MOST_TOKENS // length, _MOST_LOGITS // (length * self._model.decoder.out_features)))

    def read(
        self, ids: torch.Tensor, rows: torch.Tensor, cache: Cache | None, *, keeps: bool
    ) -> tuple[torch.Tensor, Cache | None]:
        del keeps
        state = None if cache is None else tuple(values[rows] for values in cache)
        output = self._model(ids, state=state)
        return output.logits, list(output.state)
