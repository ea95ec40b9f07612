"""Remembers token vectors of spaCy's models that depend only on a word, or on a word and its neighbours.

A model's token vectors start with hashed features of the word (its norm, prefix, suffix, shape), which a layer mixes.
Then layers of windows read the vectors of the neighbours, one further word on each side per layer. Words repeat, and so
do windows, most of all when a sentence is read again with placeholders. So each row is computed once for each set of
features, or for each three rows of the layer below, and looked up afterwards. The bits are the same, because a row of
these layers does not depend on other rows. That holds for the matrix products of every kernel that we have tried
(thinc's default on CPU, blis).

Only this module knows thinc's layers inside spaCy's models. It is written for spaCy 3.8 and thinc 8.3. It relies on
the names of layers (``extract_features`` … ``ragged2list``, ``hashembed``, ``residual``, ``…listener``), on the parts
of an embedding, on ``Model.replace_node`` and ``Model._func``. With other names nothing would be remembered, and
redaction would be slower. ``tests/policies/test_policies_thinc_layers.py`` notices that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pipelines.products import BLOCK, RowProduct, one_thread, own

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from thinc.api import Model

MAX_ROWS: Final = 32_768
"""The number of remembered rows of a layer. With the usual width of 96 that is 12 MiB a layer."""

_BATCH_TOKENS: Final = 4_096
"""The number of tokens that are looked up together."""

_ROW_WISE: Final = frozenset({"ints-getitem", "hashembed"})
_EMBEDDING: Final = ["extract_features", "list2ragged", "with_array", "with_array", "ragged2list"]
_OUTSIDE: Final = bytes(8)
_MIX: Final = ["maxout", "layernorm", "dropout"]
_WINDOW: Final = ["expand_window", *_MIX]


def _numbers() -> dict[Any, int]:
    """Returns a mapping that numbers keys in the order in which they are first asked for."""
    return defaultdict(count().__next__)


class RowMemory:
    """A memory for the results of a function that computes each row from its own key.

    Args:
        compute: function of a list of keys that returns their rows, shape ``(n, width)``. Each row depends only on its
            own key.
        max_rows: largest number of rows.
    """

    def __init__(self, compute: Callable[[list[Any]], np.ndarray], max_rows: int = MAX_ROWS) -> None:
        self._compute = compute
        self._max_rows = max_rows
        self._places = _numbers()
        self.rows = np.empty((0, 0), dtype=np.float32)
        """All remembered rows, at the places that `places` returns."""

    def has_room(self, num_keys: int) -> bool:
        """Returns true if so many new keys can be remembered."""
        return len(self._places) + num_keys <= self._max_rows

    def forget(self) -> None:
        """Forgets all rows."""
        self._places = _numbers()

    def places(self, keys: Sequence[Any]) -> np.ndarray:
        """Returns the places of the rows of keys. The caller has made room for them."""
        known = len(self._places)
        places = np.fromiter(map(self._places.__getitem__, keys), dtype=np.int64, count=len(keys))
        if num_new := len(self._places) - known:
            at = np.flatnonzero(places >= known)[::-1]
            first = np.empty(num_new, dtype=np.int64)
            first[places[at] - known] = at  # of several places of a key, the first one is written last
            computed = self._compute([keys[number] for number in first.tolist()])
            if not self.rows.size:
                self.rows = np.empty((self._max_rows, computed.shape[1]), dtype=computed.dtype)
            self.rows[known : known + num_new] = computed
        return places


class VectorMemory:
    """A memory for token vectors: an embedding of features, and layers that each read one neighbour on both sides.

    A key of a layer is three places of the layer below, in one integer. What lies outside a text has vectors of zeros
    below the first layer, and is computed as a token is above it.

    Args:
        embed: function of features, shape ``(n, num_features)``, that returns vectors, shape ``(n, width)``.
        layers: functions of three vectors side by side, shape ``(n, 3 * width)``, that return vectors, ``(n, width)``.
            A layer's result is added to the vector in the middle.
        num_features: number of features.
        max_rows: largest number of rows of each layer, below 2²¹.
    """

    def __init__(
        self,
        embed: Callable[[np.ndarray], np.ndarray],
        layers: Sequence[Callable[[np.ndarray], np.ndarray]],
        num_features: int,
        max_rows: int = MAX_ROWS,
    ) -> None:
        self._features = np.dtype((np.void, num_features * 8))

        def embedded(keys: list[bytes]) -> np.ndarray:
            features = np.frombuffer(b"".join(key or _OUTSIDE * num_features for key in keys), dtype=np.uint64)
            rows = np.asarray(embed(features.reshape(len(keys), num_features)))
            rows[[number for number, key in enumerate(keys) if not key]] = 0
            return rows

        self._memories = [RowMemory(embedded, max_rows)]
        for layer in layers:
            self._memories.append(RowMemory(self._windows(self._memories[-1], layer), max_rows))

    @staticmethod
    def _windows(below: RowMemory, layer: Callable[[np.ndarray], np.ndarray]) -> Callable[[list[int]], np.ndarray]:
        def compute(keys: list[int]) -> np.ndarray:
            packed = np.array(keys, dtype=np.int64)
            places = np.stack([packed >> 42, (packed >> 21) & 0x1FFFFF, packed & 0x1FFFFF], axis=1)
            made = np.empty((len(keys), below.rows.shape[1]), dtype=below.rows.dtype)
            for at in range(0, len(keys), BLOCK):
                rows = below.rows.take(places[at : at + BLOCK].ravel(), axis=0).reshape(-1, 3 * made.shape[1])
                made[at : at + BLOCK] = layer(rows)
                made[at : at + BLOCK] += rows[:, made.shape[1] : 2 * made.shape[1]]
            return made

        return compute

    def vectors(self, features: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the vectors of each text.

        Args:
            features: features of the tokens of each text, shape ``(num_tokens, num_features)``. Some text has a token.
        """
        try:
            with one_thread():
                return [vectors for batch in _batches(features) for vectors in self._batch(batch)]
        except BaseException:
            self._forget()  # numbers without rows would stay behind
            raise

    def _forget(self) -> None:
        for memory in self._memories:
            memory.forget()

    def _batch(self, features: Sequence[np.ndarray]) -> list[np.ndarray]:
        reach = len(self._memories) - 1
        # Texts lie behind each other, with so many places between them that none reaches into another one.
        ends = list(accumulate(reach + len(text) for text in features))
        size = ends[-1] + reach
        if not all(memory.has_room(size + 1) for memory in self._memories):
            self._forget()
        is_token = np.zeros(size, dtype=bool)
        for end, text in zip(ends, features, strict=True):
            is_token[end - len(text) : end] = True
        wanted = [is_token]  # from the last layer to the first
        for _ in self._memories[2:]:
            above = wanted[-1]
            wanted.append(above.copy())
            wanted[-1][1:] |= above[:-1]
            wanted[-1][:-1] |= above[1:]
        outside = int(self._memories[0].places([b""])[0])
        places = np.full(size, outside, dtype=np.int64)
        joined = np.ascontiguousarray(np.concatenate(features))
        places[is_token] = self._memories[0].places(joined.view(self._features)[:, 0].tolist())
        for memory, needed in zip(self._memories[1:], reversed(wanted), strict=False):
            at = np.flatnonzero(needed)
            keys = (places[at - 1] << 42) | (places[at] << 21) | places[at + 1]
            places = np.zeros(size, dtype=np.int64)
            places[at] = memory.places(keys.tolist())
        rows = self._memories[-1].rows
        return [rows[places[end - len(text) : end]] for end, text in zip(ends, features, strict=True)]


def _batches(texts: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Yields texts with some `_BATCH_TOKENS` tokens together."""
    batch: list[np.ndarray] = []
    size = 0
    for text in texts:
        if batch and size + len(text) > _BATCH_TOKENS:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def remember_vectors(nlp: Language) -> None:
    """Adds a memory to the token vectors of a pipeline, if they have only layers that are known here.

    Other vectors (transformers, static vectors, characters) and vectors on a GPU stay as they are.
    """
    for _, component in nlp.pipeline:
        model = getattr(component, "model", None)
        if model is None:
            continue
        for node in list(model.walk()):
            if _is_embedding_with_windows(node):
                node._func = _remembering(node, node._func)


def reads_shared_vectors(nlp: Language, name: str) -> bool:
    """Returns True if a component reads the shared token vectors instead of making its own."""
    model = getattr(nlp.get_pipe(name), "model", None)
    return model is not None and any("listener" in node.name.lower() for node in model.walk())


def _is_embedding_with_windows(node: Model[Any, Any]) -> bool:
    """Returns True if a node is an embedding by features (extract, embed each, mix), and windows that read it."""
    if len(node.layers) != 2 or node.ops.name != "numpy":
        return False
    embedding, windows = node.layers
    if _names(embedding) != _EMBEDDING or not windows.name.startswith("with_array(residual("):
        return False
    embed, mix = embedding.layers[2:4]
    layers = _windows_of(windows)
    is_known = all(leaf.name in _ROW_WISE for leaf in _leaves(embed)) and [leaf.name for leaf in _leaves(mix)] == _MIX
    return is_known and all(
        layer.name.startswith("residual(")
        and [leaf.name for leaf in _leaves(layer)] == _WINDOW
        and layer.layers[0].layers[0].attrs["window_size"] == 1
        for layer in layers
    )


def _leaves(node: Model[Any, Any]) -> list[Any]:
    """Returns the innermost layers of a node, in the order in which they compute."""
    return [leaf for leaf in node.walk(order="dfs_pre") if not leaf.layers]


def _names(node: Model[Any, Any]) -> list[str]:
    return [layer.name.partition("(")[0] for layer in node.layers]


def _windows_of(node: Model[Any, Any]) -> list[Model[Any, Any]]:
    inner = node.layers[0]
    return [inner] if inner.name.startswith("residual(expand_window") and len(inner.layers) == 1 else inner.layers


def _mixed(layer: Model[Any, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the function of a layer of maxout and normalisation, shape ``(n, inputs)`` to ``(n, width)``."""
    maxout, norm, _ = _leaves(layer)[-len(_MIX) :]
    width, pieces, _ = maxout.get_param("W").shape
    # The pieces of all outputs stand in blocks, so that the largest piece is found by whole blocks.
    weights = np.asarray(maxout.get_param("W")).transpose(1, 0, 2).reshape(width * pieces, -1)
    bias = np.asarray(maxout.get_param("b")).reshape(width, pieces).T.reshape(-1, 1)
    scale, shift = norm.get_param("G")[:, None], norm.get_param("b")[:, None]
    product = RowProduct(weights, maxout.ops.gemm)

    def mixed(rows: np.ndarray) -> np.ndarray:
        outputs = product.columns(rows)
        outputs += bias
        best: np.ndarray = outputs[:width]
        for piece in range(1, pieces):
            best = np.maximum(best, outputs[piece * width : (piece + 1) * width])
        best = best - best.mean(axis=0)
        variance = (best * best).sum(axis=0) / np.float32(width) + 1e-08
        best *= variance ** (-1.0 / 2.0)
        best *= scale
        best += shift
        return own(best, len(rows)).T

    def compute(rows: np.ndarray) -> np.ndarray:
        return np.concatenate([mixed(rows[at : at + BLOCK]) for at in range(0, len(rows), BLOCK)])

    return compute


def _remembering(node: Model[Any, Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the function of a layer with a memory, and the same outputs as the layer ``node``."""
    embedding, windows = node.layers
    columns = embedding.layers[0].attrs["columns"]
    embed, mix = embedding.layers[2].layers[0], _mixed(embedding.layers[3])

    memory = VectorMemory(
        lambda features: mix(embed.predict(features)),
        [_mixed(layer) for layer in _windows_of(windows)],
        len(columns),
    )

    def forward(model: Model[Any, Any], docs: list[Doc], is_train: bool) -> Any:
        if is_train or not 0 < max(map(len, docs), default=0) <= _BATCH_TOKENS:
            return plain(model, docs, is_train)
        features = [doc.to_array(columns).reshape(len(doc), len(columns)) for doc in docs]
        return memory.vectors(features), lambda gradient: []

    return forward
