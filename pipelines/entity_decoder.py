"""Decides the entities of many texts at once, from the weights of spaCy's entity recogniser, with the same decisions.

spaCy's recogniser reads a text from left to right. Outside an entity it decides by the vector of the next token alone:
out, a single token, or the first token of an entity. Inside one it decides by the vectors of the next token, the one
before, and the entity's first token: inside, or last. So all tokens are decided once as if no entity was open, in one
matrix product. Then the entities that begin are followed in step, one of each text at a time. Sums have the order of
spaCy's, so scores have the same bits.

Only this module knows the parts of spaCy's recogniser. It is written for spaCy 3.8. A recogniser of another kind
(beams, other features, other classes, on a GPU) stays with spaCy's own decoder.
``tests/policies/test_policies_entity_decoder.py`` compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pipelines.products import RowProduct, one_thread

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

MADE_FOR: Final = "3.8."
"""The release of spaCy whose rules of valid decisions this module has."""

Entity = tuple[int, int, str]
"""First token, end token and label."""

_BATCH_TOKENS: Final = 8_192


def decoder_of(nlp: Language) -> Decoder | None:
    """Returns a decoder for a pipeline's entity recogniser. None if it has none, or one of another kind."""
    if "ner" not in nlp.pipe_names or not version("spacy").startswith(MADE_FOR):
        return None
    component: Any = nlp.get_pipe("ner")
    model = getattr(component, "model", None)
    if model is None or model.name != "parser_model" or model.ops.name != "numpy":
        return None
    is_known = (
        component.cfg.get("beam_width") == 1
        and model.attrs["has_upper"]
        and not model.attrs["unseen_classes"]
        and (model.get_ref("lower").get_dim("nF"), model.get_ref("lower").get_dim("nP")) == (3, 2)
    )
    names = [component.moves.get_class_name(number) for number in range(component.moves.n_moves)]
    labels = [name[2:] for name in names if name.startswith("B-")]
    moves = [f"{move}-{label}" for move in "BILU" for label in labels]
    return Decoder(model, labels) if is_known and [*moves, "U-", "O"] == names else None


class Decoder:
    """Finds entities as spaCy's recogniser does, in Docs without preset entities.

    Args:
        model: model of the recogniser.
        labels: labels, in the order of the model's classes.
    """

    def __init__(self, model: Any, labels: Sequence[str]) -> None:
        lower, upper = model.get_ref("lower"), model.get_ref("upper")
        self._vectors = model.get_ref("tok2vec")
        self._gemm = model.ops.gemm
        self._labels = labels
        # Shapes (features, hidden, pieces, width) to (features, pieces, hidden, width): the pieces are then halves.
        weights = lower.get_param("W").transpose(0, 2, 1, 3)
        self._lower = RowProduct(weights.reshape(-1, weights.shape[-1]), model.ops.gemm)
        self._padding = np.ascontiguousarray(lower.get_param("pad")[0].transpose(0, 2, 1)).reshape(3, -1)
        self._bias = np.ascontiguousarray(lower.get_param("b").T).ravel()
        number = len(labels)
        outside = [*range(number), *range(3 * number, 4 * number), 4 * number + 1]
        inside = slice(number, 3 * number)
        matrix, bias = upper.get_param("W"), upper.get_param("b")
        self._outside = np.ascontiguousarray(matrix[outside]), np.ascontiguousarray(bias[outside])
        self._inside = np.ascontiguousarray(matrix[inside]), np.ascontiguousarray(bias[inside])

    def find(self, docs: Sequence[Doc]) -> list[list[Entity]]:
        """Returns the entities of each Doc. No entity crosses a border of sentences that a Doc has."""
        found: list[list[Entity]] = []
        batch: list[Doc] = []
        size = 0
        for doc in docs:
            if batch and size + len(doc) > _BATCH_TOKENS:
                found += self._find(batch)
                batch, size = [], 0
            batch.append(doc)
            size += len(doc)
        return found + self._find(batch) if batch else found

    def _find(self, docs: Sequence[Doc]) -> list[list[Entity]]:
        ends = np.cumsum([len(doc) for doc in docs])
        size = int(ends[-1])
        if not size:
            return [[] for _ in docs]
        is_space, starts = np.concatenate([doc.to_array(["IS_SPACE", "SENT_START"]) for doc in docs]).T
        # After such a token an entity cannot go on.
        is_last = np.append(starts[1:] == 1, True)
        is_last[ends[ends > 0] - 1] = True
        with one_thread():
            features = self._lower(self._vectors.predict(docs)).reshape(size, 3, -1)
        single, first = self._outside_of(features, is_space != 0, is_last)
        entities = self._followed(features, first, is_last, ends)
        covered = np.zeros(size + 1, dtype=np.int64)
        for start, end, _ in entities:
            covered[start] += 1
            covered[end] -= 1
        is_open = np.cumsum(covered)[:size] == 0
        entities += [(at, at + 1, int(single[at])) for at in np.flatnonzero(is_open & (single >= 0)).tolist()]
        of_docs: list[list[Entity]] = [[] for _ in docs]
        owners = np.searchsorted(ends, [start for start, _, _ in entities], side="right").tolist()
        before = [0, *ends.tolist()]
        for (start, end, label), owner in sorted(zip(entities, owners, strict=True)):
            of_docs[owner].append((start - before[owner], end - before[owner], self._labels[label]))
        return of_docs

    def _hidden(self, summed: np.ndarray) -> np.ndarray:
        summed += self._bias
        width = summed.shape[1] // 2
        hidden: np.ndarray = np.maximum(summed[:, :width], summed[:, width:])
        return hidden

    def _outside_of(
        self, features: np.ndarray, is_space: np.ndarray, is_last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns for each token the label of a single one, and that of a first one. It is -1 if it is none."""
        summed = features[:, 0] + self._padding[1]
        summed += self._padding[2]
        matrix, bias = self._outside
        scores = self._gemm(self._hidden(summed), matrix, trans2=True)
        scores += bias
        number = len(self._labels)
        scores[is_last, :number] = -np.inf
        scores[is_space, :-1] = -np.inf
        best = scores.argmax(axis=1)
        is_single = (best >= number) & (best < 2 * number)
        return np.where(is_single, best - number, -1), np.where(best < number, best, -1)

    def _followed(
        self, features: np.ndarray, first: np.ndarray, is_last: np.ndarray, ends: np.ndarray
    ) -> list[tuple[int, int, int]]:
        """Returns the entities of several tokens."""
        size = len(first)
        # The next token at which an entity begins, from each place.
        following = np.where(first >= 0, np.arange(size), size)
        following = np.append(np.minimum.accumulate(following[::-1])[::-1], size)
        matrix, bias = self._inside
        number = len(self._labels)
        starts = np.unique(following[np.concatenate([[0], ends[:-1]])])
        found: list[tuple[int, int, int]] = []
        last = np.searchsorted(ends, starts, side="right")
        is_live = starts < size
        starts, last = starts[is_live], ends[last[is_live]]
        at = starts + 1
        while len(starts):
            summed = features[at, 0] + features[starts, 1]
            summed += features[at - 1, 2]
            scores = self._gemm(self._hidden(summed), matrix, trans2=True)
            scores += bias
            labels = first[starts]
            rows = np.arange(len(starts))
            is_end = is_last[at] | (scores[rows, labels + number] > scores[rows, labels])
            found += zip(starts[is_end].tolist(), (at[is_end] + 1).tolist(), labels[is_end].tolist(), strict=True)
            at += 1
            starts[is_end] = following[at[is_end]]
            at[is_end] = starts[is_end] + 1
            is_live = starts < last
            starts, at, last = starts[is_live], at[is_live], last[is_live]
        return found
