"""A training that is done, as its files, figures and card tell of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.context import Spent
from pipelines.methods import registry
from pipelines.training.crossings import NetworkExchange
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.loop import TrainingOutcome
from pipelines.training.methods.base import Account
from pipelines.training.scoring.evaluation import Evaluation
from pipelines.training.tasks.spec import TaskSettings


def warnings_about(
    *,
    num_private: int,
    target_delta: float,
    insecure_test_seed: bool,
    noise_multiplier: float | None,
    unprotected_by: str | None = None,
) -> list[str]:
    """What the trusted side should hear loudly about a run."""
    found = []
    if num_private and target_delta >= 1 / num_private:
        found.append(
            f"target_delta {target_delta:g} is not below 1/{num_private}, one over the number of private records: "
            "a mechanism that publishes one random record would satisfy it. Lower train.target_delta."
        )
    if insecure_test_seed:
        found.append("insecure_test_seed is on: samples and noise can be repeated by anyone, so no guarantee holds.")
    if unprotected_by:
        found.append(f"the method is {unprotected_by}: original text is trained on without any protection.")
    if noise_multiplier == 0:
        found.append("noise_multiplier is 0: private records are trained on without protection.")
    return found


@dataclass(frozen=True, kw_only=True)
class FinishedTraining:
    """A training that is done.

    Attributes:
        config: the settings of ``[train]``.
        task: those of its task.
        corpus: what it read.
        account: what the accountant has to know.
        outcome: what it did.
        planned_steps, sample_rate: the private steps as they were planned.
        noise_multiplier: of each; None without private steps.
        before: the evaluation at initialisation.
        network: the model.
        context_length: the longest record.
        head: what the model computes: ``causal``, ``masked`` or ``classification``.
        base: the model that it began with, as the public may call it; None where its weights began at random.
        spent: what it costs together with earlier releases; None where no ledger was kept.
        crossings: how sums crossed between machines.
    """

    config: Mapping[str, Any]
    task: TaskSettings
    corpus: TrainingCorpus
    account: Account
    outcome: TrainingOutcome
    planned_steps: int
    sample_rate: float
    noise_multiplier: float | None
    before: Evaluation
    network: Any
    context_length: int
    head: str = "causal"
    base: str | None = None
    spent: Spent | None = None
    crossings: tuple[NetworkExchange, ...] = ()

    @property
    def num_private(self) -> int:
        """Records that hold private text."""
        return self.corpus.num_private

    @property
    def num_public(self) -> int:
        """Records of public rows alone that were trained on."""
        return len(self.corpus.nonprivate_examples) - self.corpus.num_nonprivate_with_private_text

    @property
    def warnings(self) -> list[str]:
        """What the trusted side should hear loudly."""
        method = self.config["method"]
        return warnings_about(
            num_private=self.num_private,
            target_delta=self.config["target_delta"],
            insecure_test_seed=self.config["insecure_test_seed"],
            noise_multiplier=self.noise_multiplier,
            unprotected_by=method if registry.method(method).is_unprotected else None,
        )
