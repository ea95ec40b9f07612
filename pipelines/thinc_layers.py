"""Remembers the first part of spaCy's token vectors, which depends only on each word.

A model's token vectors start with hashed features of the word (its norm, prefix, suffix, shape), which a layer mixes.
Only then do windows read the neighbours. Words repeat, so the first part is computed once for each set of features and
looked up afterwards. The bits are the same, because a row of these layers does not depend on other rows. That holds for
the matrix products of every kernel that we have tried (thinc's default on CPU, blis).

Only this module knows thinc's layers inside spaCy's models. It is written for spaCy 3.8 and thinc 8.3. It relies on
the names of layers (``extract_features`` … ``ragged2list``, ``hashembed``, ``…listener``), on the parts of an
embedding, and on ``Model.replace_node``. With other names nothing would be remembered, and redaction would be slower.
``tests/policies/test_policies_thinc_layers.py`` notices that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from thinc.api import Model

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

MAX_ROWS: Final = 32_768
"""The number of remembered sets of features. With the usual width of 96 that is 12 MiB a model."""

_ROW_WISE: Final = frozenset({"ints-getitem", "hashembed", "maxout", "layernorm", "dropout"})


class RowMemory:
    """A memory for the results of a function that computes each row from its own features.

    Args:
        compute: function of features, shape ``(n, num_features)``, that returns rows, shape ``(n, width)``. Each row
            depends only on its own features.
        max_rows: largest number of rows. If more would be held, all are forgotten.
    """

    def __init__(self, compute: Any, max_rows: int = MAX_ROWS) -> None:
        self._compute = compute
        self._max_rows = max_rows
        self._places: dict[bytes, int] = {}
        self._rows = np.empty((0, 0), dtype=np.float32)

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Returns one row for each row of features, shape ``(n, width)``."""
        num_bytes = features.shape[1] * features.itemsize
        keys = np.ascontiguousarray(features).view(np.dtype((np.void, num_bytes)))[:, 0].tolist()
        places = self._places
        new = {key: i for i, key in enumerate(keys) if key not in places}
        if len(places) + len(new) > self._max_rows:
            places.clear()
            new = {key: i for i, key in enumerate(keys)}
            if len(new) > self._max_rows:
                return np.asarray(self._compute(features))
        if new:
            computed = self._compute(features[list(new.values())])
            if not self._rows.size:
                self._rows = np.empty((self._max_rows, computed.shape[1]), dtype=computed.dtype)
            self._rows[len(places) : len(places) + len(new)] = computed
            places.update(zip(new, range(len(places), len(places) + len(new)), strict=True))
        return self._rows[[places[key] for key in keys]]


def remember_embeddings(nlp: Language) -> None:
    """Adds a memory to every embedding of a pipeline that has only row-wise layers.

    Other embeddings (transformers, static vectors, characters) and embeddings on a GPU stay as they are.
    """
    for _, component in nlp.pipeline:
        model = getattr(component, "model", None)
        if model is None:
            continue
        for node in list(model.walk()):
            if _is_row_wise(node):
                model.replace_node(node, _remembering(node))


def reads_shared_vectors(nlp: Language, name: str) -> bool:
    """Returns True if a component reads the shared token vectors instead of making its own."""
    model = getattr(nlp.get_pipe(name), "model", None)
    return model is not None and any("listener" in node.name.lower() for node in model.walk())


def _is_row_wise(node: Model[Any, Any]) -> bool:
    """Returns True if a node is spaCy's embedding by features: extract, embed each, mix, cut by document."""
    names = [layer.name.partition("(")[0] for layer in node.layers]
    if names != ["extract_features", "list2ragged", "with_array", "with_array", "ragged2list"]:
        return False
    leaves = (leaf for layer in node.layers[2:4] for leaf in layer.layers[0].walk() if not leaf.layers)
    return node.ops.name == "numpy" and all(leaf.name in _ROW_WISE for leaf in leaves)


def _remembering(node: Model[Any, Any]) -> Model[Any, Any]:
    """Makes a layer with a memory and the same outputs as the embedding ``node``."""
    columns = node.layers[0].attrs["columns"]
    embed, mix = node.layers[2].layers[0], node.layers[3].layers[0]
    memory = RowMemory(lambda features: mix.predict(embed.predict(features)))

    def forward(model: Model[Any, Any], docs: list[Doc], is_train: bool) -> Any:
        if is_train:
            return model.layers[0](docs, is_train=True)
        features = [doc.to_array(columns).reshape(len(doc), len(columns)) for doc in docs]
        rows = memory.rows(np.concatenate(features))
        ends = np.cumsum([len(doc) for doc in docs])
        return np.split(rows, ends[:-1]), lambda gradient: []

    return Model("remembered", forward, layers=[node], dims={"nO": node.get_dim("nO")})
