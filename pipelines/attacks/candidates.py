"""Ranks of canaries among all candidates of their form, or among sampled ones, on a trained model.

All candidates are scored in float32 with shared prefixes. Rounding would then decide between close candidates, and
differently in another order of computation. So candidates that are too close to a canary are scored again in float64,
and the rank is that of float64 losses. It does not depend on batches, or on shared prefixes. The limit of closeness is
measured: eight times the largest error seen.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Final

import numpy as np
import torch

from pipelines.attacks.canaries import Canary
from pipelines.attacks.exposure import TIE_NATS, FloatArray, Rank, rank_among
from pipelines.attacks.patterns import Pattern
from pipelines.attacks.shared_prefixes import one_pass_activations, shared_prefix_losses
from pipelines.errors import ConfigError
from pipelines.training.data.records import frame_of
from pipelines.training.devices import cpu_threads_for
from pipelines.training.encoded import EncodedRecords, Record, targets_of
from pipelines.training.models.adaptation import count_parameters
from pipelines.training.trained import TrainedModel

MOST_CANDIDATES: Final = 20_000_000
_BLOCK: Final = 50_000
_NUM_CHECKED: Final = 256
_SAFETY: Final = 8

Indices = Sequence[int] | range


class CandidateScorer:
    """A scorer by the log-perplexity on one model: each candidate is a record, encoded as in training.

    Args:
        model: a causal language model, or an LSTM or GRU.
        pattern: the form.
        marks_holes: true to show a model that marks private tokens where they are, as for a detected canary.
        num_threads: number of blocks of candidates at a time; None: the number of torch's threads, for a model too
            small to use more than one itself, else 1.
    """

    def __init__(
        self, model: TrainedModel, pattern: Pattern, *, marks_holes: bool = False, num_threads: int | None = None
    ) -> None:
        self.pattern, self._model, self._marks_holes = pattern, model, marks_holes
        self._num_threads = num_threads or _threads_for(model)
        self._double: torch.nn.Module | None = None

    def losses(self, indices: Indices, *, in_double: bool = False) -> FloatArray:
        """Returns (n,) losses of candidates, by their numbers, in nats, computed in float32 or float64.

        Raises:
            ConfigError: candidates are cut at the model's context length.
        """
        if in_double and self._double is None:
            self._double = copy.deepcopy(self._model.model).double()
        network = self._double if in_double else self._model.model
        blocks = [indices[start : start + _BLOCK] for start in range(0, len(indices), _BLOCK)]
        with one_pass_activations(network), ThreadPoolExecutor(self._num_threads) as pool:
            found = list(pool.map(lambda block: shared_prefix_losses(network, self._encode(block)), blocks))
        return np.concatenate(found) if found else np.zeros(0)

    def _encode(self, indices: Indices) -> EncodedRecords:
        pattern = self.pattern
        is_run = isinstance(indices, range) and indices.step == 1
        texts = list(pattern.texts(indices[0], indices[-1] + 1) if is_run else map(pattern.text, indices))
        if self._model.task == "language_modelling" and not self._marks_holes:
            encoded = self._encode_plain(texts)
        else:
            holes = [[pattern.holes(i)] if self._marks_holes else [] for i in indices]
            encoded = self._model.encode(
                Record(texts=[text], private_chars=private) for text, private in zip(texts, holes, strict=True)
            )
        if encoded.num_truncated:
            raise ConfigError(
                f"candidates are longer than the model's context of {self._model.context_length} tokens, and cannot be "
                "distinguished"
            )
        return encoded

    def _encode_plain(self, texts: Sequence[str]) -> EncodedRecords:
        """Encodes as `TrainedModel.encode`. The frame around the text is the same for all, and made once."""
        frame = frame_of(Record(texts=[""]).rows(), self._model.control)
        before, after = [*frame.before, *frame.turns[0]], list(frame.after)
        rows = [[*before, *ids, *after] for ids in self._model.vocabulary.encoder.ids(texts)]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1]))
        return EncodedRecords(
            ids=ids,
            offsets=offsets,
            is_target=targets_of(ids, offsets, self._model.control),
            num_truncated=int((lengths > self._model.context_length).sum()),
        )


class NormalisedScorer:
    """A scorer by the difference of log-perplexities on a model and on a reference model.

    It cancels what makes a candidate likely for any model of the language.

    Args:
        target, reference: scorers of one form.

    Raises:
        ConfigError: the scorers have two forms.
    """

    def __init__(self, target: Scorer, reference: Scorer) -> None:
        if target.pattern != reference.pattern:
            raise ConfigError("a reference model must score candidates of the same form")
        self._target, self._reference = target, reference

    @property
    def pattern(self) -> Pattern:
        """The form."""
        return self._target.pattern

    def losses(self, indices: Indices, *, in_double: bool = False) -> FloatArray:
        """Scores candidates, as `CandidateScorer.losses`."""
        return self._target.losses(indices, in_double=in_double) - self._reference.losses(indices, in_double=in_double)


Scorer = CandidateScorer | NormalisedScorer
"""A scorer of the candidates of one form."""


def enumerated_ranks(scorer: Scorer, canaries: Iterable[Canary], losses: FloatArray | None = None) -> dict[str, Rank]:
    """Returns the rank of each canary among all candidates of its form, by identifier.

    Args:
        scorer: scorer of the canaries' form.
        canaries: canaries of that form.
        losses: (|R|,) losses of all candidates in float32, if they were scored before.

    Raises:
        ConfigError: a canary is of another form, or there are more than `MOST_CANDIDATES`.
    """
    chosen = _by_id(scorer.pattern, canaries)
    if scorer.pattern.size > MOST_CANDIDATES:
        raise ConfigError(
            f"the form has {scorer.pattern.size:.3g} candidates; at most {MOST_CANDIDATES:,} are enumerated. Sample "
            "them"
        )
    size = scorer.pattern.size
    rough = scorer.losses(range(size)) if losses is None else losses
    if rough.shape != (size,):
        raise ConfigError(f"{size} candidates need as many losses")
    exact, margin = _exact_near(scorer, rough, sorted(set(chosen.values())))
    known, values = np.fromiter(exact, np.int64), np.fromiter(exact.values(), np.float64)
    ranks = {}
    for canary_id, index in chosen.items():
        is_near = (np.abs(rough[known] - rough[index]) <= margin) & (known != index)
        num_surely_below = int(np.count_nonzero(rough < rough[index] - margin))
        among = rank_among(exact[index], values[is_near])
        ranks[canary_id] = Rank(size=size, num_below=num_surely_below + among.num_below, num_tied=among.num_tied)
    return ranks


def _exact_near(scorer: Scorer, rough: FloatArray, indices: Sequence[int]) -> tuple[Mapping[int, float], float]:
    """Returns float64 losses of all candidates near one of the given ones, and the limit of nearness."""
    exact: dict[int, float] = {}
    wanted = {*indices, *np.linspace(0, len(rough) - 1, _NUM_CHECKED, dtype=np.int64).tolist()}
    order = np.argsort(rough, kind="stable")
    in_order = rough[order]
    while True:
        missing = sorted(wanted - exact.keys())
        exact |= zip(missing, scorer.losses(missing, in_double=True).tolist(), strict=True)
        known = np.fromiter(exact, np.int64)
        error = float(np.abs(rough[known] - np.fromiter(exact.values(), np.float64)).max())
        margin = _SAFETY * error + TIE_NATS
        for index in indices:
            first, last = np.searchsorted(in_order, (rough[index] - margin, rough[index] + margin))
            wanted.update(order[max(0, first - 1) : last + 1].tolist())
        if wanted <= exact.keys():
            return exact, margin


def canary_losses(scorer: Scorer, canaries: Iterable[Canary]) -> dict[str, float]:
    """Returns the loss of each canary, by identifier, in nats.

    Raises:
        ConfigError: a canary is of another form.
    """
    chosen = _by_id(scorer.pattern, canaries)
    return dict(zip(chosen, scorer.losses(list(chosen.values())).tolist(), strict=True))


def _threads_for(model: TrainedModel) -> int:
    threads = torch.get_num_threads()
    with cpu_threads_for(count_parameters(model.model)[1]):
        uses_one = torch.get_num_threads() == 1
    return threads if uses_one and model.device.type == "cpu" else 1


def _by_id(pattern: Pattern, canaries: Iterable[Canary]) -> dict[str, int]:
    chosen: dict[str, int] = {}
    for canary in canaries:
        if canary.pattern != pattern:
            raise ConfigError("a canary is of another form than the candidates that it is ranked among")
        if canary.id in chosen:
            raise ConfigError("two canaries have one identifier")
        chosen[canary.id] = canary.index
    return chosen
