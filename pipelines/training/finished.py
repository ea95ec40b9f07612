"""A finished training: everything that its files, figures and model card report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.accounting.facts import PERSON
from pipelines.context import Spent
from pipelines.methods import registry
from pipelines.numbers import real
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.loop import TrainingOutcome
from pipelines.training.machines.network_exchanges import NetworkExchange
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
    unit: str = "record",
) -> list[str]:
    """Returns the warnings about a training that the trusted side must see."""
    warnings = []
    units, whole = "private records", "one random record"
    if unit == PERSON:
        units, whole = "people", "all of one random person's text"
    if num_private and target_delta >= 1 / num_private:
        warnings.append(
            f"target_delta {real(target_delta)} is not below 1/{num_private}, one over the number of {units}: a "
            f"mechanism that publishes {whole} would satisfy it. Lower train.target_delta."
        )
    if insecure_test_seed:
        warnings.append("insecure_test_seed is on: samples and noise can be repeated by anyone, so no guarantee holds.")
    if unprotected_by:
        warnings.append(f"the method is {unprotected_by}: original text is trained on without any protection.")
    if noise_multiplier == 0:
        warnings.append("noise_multiplier is 0: private records are trained on without protection.")
    return warnings


@dataclass(frozen=True, kw_only=True)
class FinishedTraining:
    """A finished training.

    Attributes:
        config: settings of ``[train]``.
        task: settings of the task.
        corpus: corpus that the training read.
        account: facts for the accountant.
        outcome: result of the steps.
        planned_steps, sample_rate: number and sampling rate of the planned private steps.
        noise_multiplier: noise multiplier of each private step. None without private steps.
        before: evaluation at initialisation.
        network: trained model.
        context_length: longest record, in tokens.
        head: kind of the model's output: ``causal``, ``masked`` or ``classification``.
        base: public name of the model that training began with. None if all weights began at random.
        spent: privacy cost together with earlier releases. None if no ledger was kept.
        network_exchanges: ways in which sums crossed the network between machines.
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
    network_exchanges: tuple[NetworkExchange, ...] = ()

    @property
    def unit(self) -> str:
        """Unit of privacy: kind of a record, or a person."""
        return self.config["record"] if self.corpus.owners is None else PERSON

    @property
    def num_private(self) -> int:
        """Number of records that hold private text, or of people."""
        return self.corpus.num_private

    @property
    def num_public(self) -> int:
        """Number of records of nonprivate steps that hold public rows only."""
        return len(self.corpus.nonprivate_examples) - self.corpus.num_private_without_noise

    @property
    def warnings(self) -> list[str]:
        """Warnings that the trusted side must see."""
        method = self.config["method"]
        return warnings_about(
            num_private=self.num_private,
            target_delta=self.config["target_delta"],
            insecure_test_seed=self.config["insecure_test_seed"],
            noise_multiplier=self.noise_multiplier,
            unprotected_by=method if registry.method(method).is_unprotected else None,
            unit=self.unit,
        )
