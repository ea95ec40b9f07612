"""Causal language modelling of sentences, blocks of whole sentences, and dialogues: every text token is a target."""

from __future__ import annotations

import torch

from pipelines.context import Progress
from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.data.held_out import HeldOut
from pipelines.training.data.records import ExampleBatch
from pipelines.training.models.losses import example_losses
from pipelines.training.scoring.evaluation import Evaluation, evaluate
from pipelines.training.tasks.base import TaskModel, TaskScores
from pipelines.training.tasks.spec import TaskSettings


class LanguageModelling(RecordEncoder):
    """Task of causal language modelling (`pipelines.training.tasks.base.Task`)."""

    def example_losses(self, model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
        """Returns (B,) the mean cross-entropy over each record's targets."""
        return example_losses(model, batch)

    def evaluate(self, model: torch.nn.Module, held_out: HeldOut) -> Evaluation:
        """Returns perplexity and accuracy, by token and by word."""
        return evaluate(model, held_out)

    def scores(self, model: torch.nn.Module, held_out: HeldOut, progress: Progress) -> TaskScores:
        """Returns no further scores."""
        return TaskScores()


def make_task(model: TaskModel, settings: TaskSettings) -> LanguageModelling:
    """Makes the task for a model."""
    del settings
    return LanguageModelling(model.vocabulary, model.context_length)
