"""Causal language modelling of sentences, blocks of whole sentences, and dialogues: every text token is a target."""

from __future__ import annotations

from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.tasks.base import Task, TaskModel
from pipelines.training.tasks.spec import TaskSettings


class LanguageModelling(RecordEncoder, Task):
    """Task of causal language modelling."""


def make_task(model: TaskModel, settings: TaskSettings) -> LanguageModelling:
    """Makes the task for a model."""
    del settings
    return LanguageModelling(model.vocabulary, model.context_length)
