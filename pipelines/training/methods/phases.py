"""What one phase of a training hands to the next: weights, how it was made, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load, save

from pipelines.accounting.events import to_json
from pipelines.artifacts import Source, Target
from pipelines.errors import StageError
from pipelines.files import read_file, write_atomic
from pipelines.training.checkpoint import load_trained, trained_weights
from pipelines.training.crossings import NetworkExchange
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.loop import TrainingOutcome
from pipelines.training.methods.base import Account
from pipelines.training.scoring.evaluation import Evaluation

_RECORD = "phase.json"
_WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class FinishedPhase:
    """A phase as it was written.

    Attributes:
        source: where.
        record: ``variant``, ``rows``, ``event``, ``preconditions``, ``light_noise_miss_rate``, ``curve``,
            ``vocabulary``, ``seed`` of the weights that started at random, ``before``, the evaluation of the model
            that it began with, and ``crossings`` where several machines trained it.
    """

    source: Source
    record: Mapping[str, Any]

    @property
    def seed(self) -> int:
        """What the weights that started at random were drawn from. Those that are not trained are not stored."""
        return int(self.record["seed"])

    @property
    def crossings(self) -> tuple[NetworkExchange, ...]:
        """How sums crossed between machines."""
        return tuple(self.record.get("crossings", ()))

    @property
    def evaluation(self) -> Evaluation:
        """Of the model that the phase began with."""
        return Evaluation(**self.record["before"])

    def apply(self, network: torch.nn.Module, corpus: TrainingCorpus) -> None:
        """Gives the weights to a network of the same shape.

        Raises:
            StageError: it was trained with another vocabulary.
        """
        if self.record["vocabulary"] != _digest(corpus):
            raise StageError("the vocabulary is not that of phase 1; run train_phase1 again")
        load_trained(network, load(read_file(self.source.blob(_WEIGHTS))))


def write_phase(
    out: Target,
    network: torch.nn.Module,
    corpus: TrainingCorpus,
    account: Account,
    outcome: TrainingOutcome,
    before: Evaluation,
    seed: int,
    crossings: tuple[NetworkExchange, ...] = (),
) -> None:
    """Writes a finished phase. Private: losses and counts of private records are among it."""
    weights = {name: p.cpu().contiguous() for name, p in trained_weights(network).items()}
    write_atomic(out.blob(_WEIGHTS), save(weights), is_durable=False)  # the folder is flushed when it is published
    ((_, rows, event),) = account.phases
    out.json(
        _RECORD,
        {
            "variant": account.variant,
            "rows": rows,
            "event": to_json(event),
            "preconditions": list(account.preconditions),
            "light_noise_miss_rate": account.light_noise_miss_rate,
            "curve": outcome.curve,
            "vocabulary": _digest(corpus),
            "public_order": corpus.nonprivate_order,
            "seed": seed,
            "before": before.as_json(),
            **({"crossings": list(crossings)} if crossings else {}),
        },
    )


def write_no_phase(out: Target) -> None:
    """Says that the method has no phase of that kind."""
    out.json(_RECORD, {"variant": None})


def load_phase(source: Source) -> FinishedPhase:
    """Reads what `write_phase` wrote."""
    return FinishedPhase(source, source.json(_RECORD))


def _digest(corpus: TrainingCorpus) -> str:
    import hashlib

    return hashlib.sha256(corpus.vocabulary.backend.to_str().encode()).hexdigest()
