"""Files that one phase of a training leaves for the next: its weights, its record and its privacy cost."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from safetensors.torch import load, save

from pipelines.accounting.events import to_json
from pipelines.artifacts import Source, Target
from pipelines.errors import StageError
from pipelines.files import read_file, write_atomic
from pipelines.training.checkpoint import load_trained, trained_weights
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.loop import TrainingOutcome
from pipelines.training.machines.network_exchanges import NetworkExchange
from pipelines.training.methods.base import Account
from pipelines.training.scoring.evaluation import Evaluation

_RECORD = "phase.json"
_WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class FinishedPhase:
    """A finished phase, read from its artifact.

    Attributes:
        source: artifact of the phase.
        record: ``variant``, ``rows``, ``event``, ``preconditions``, ``light_noise_miss_rate``, ``curve``,
            ``vocabulary``, ``seed`` of the random initial weights, ``before``, the evaluation of the initial model, and
            ``crossings`` if several machines trained it.
    """

    source: Source
    record: Mapping[str, Any]

    @property
    def seed(self) -> int:
        """Seed of the random initial weights. Weights that are not trained are not stored."""
        return int(self.record["seed"])

    @property
    def network_exchanges(self) -> tuple[NetworkExchange, ...]:
        """Ways in which sums crossed the network between machines."""
        return tuple(self.record.get("crossings", ()))

    @property
    def evaluation(self) -> Evaluation:
        """Evaluation of the initial model."""
        return Evaluation(**self.record["before"])

    def apply(self, network: torch.nn.Module, corpus: TrainingCorpus) -> None:
        """Copies the weights into a network of the same shape.

        Raises:
            StageError: the phase was trained with another vocabulary.
        """
        if self.record["vocabulary"] != _digest(corpus):
            raise StageError("the vocabulary is not that of phase 1. Run train_phase1 again")
        load_trained(network, load(read_file(self.source.blob(_WEIGHTS))))


def write_phase(
    out: Target,
    network: torch.nn.Module,
    corpus: TrainingCorpus,
    account: Account,
    outcome: TrainingOutcome,
    before: Evaluation,
    seed: int,
    network_exchanges: tuple[NetworkExchange, ...] = (),
) -> None:
    """Writes a finished phase. Private, because it holds losses and counts of private records."""
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
            "before": asdict(before),
            **({"crossings": list(network_exchanges)} if network_exchanges else {}),
        },
    )


def write_no_phase(out: Target) -> None:
    """Records that the method has no first phase."""
    out.json(_RECORD, {"variant": None})


def load_phase(source: Source) -> FinishedPhase:
    """Reads a phase that `write_phase` wrote."""
    return FinishedPhase(source, source.json(_RECORD))


def _digest(corpus: TrainingCorpus) -> str:
    return hashlib.sha256(corpus.vocabulary.backend.to_str().encode()).hexdigest()
