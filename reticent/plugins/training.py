"""Names for the training code of methods and tasks. They import torch, so a module with a spec must not use them."""

from pipelines.dp.sampling import PrivatePlan, plan_private_steps
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.data.row_store import RecordRows
from pipelines.training.data.task_examples import Example, causal_example
from pipelines.training.methods.base import Account, LoopTraining, TrainingSettings
from pipelines.training.programme import Segment
from pipelines.training.tasks.base import GeneratingTask, LanguageTask, Task, TaskModel
from pipelines.training.tasks.prompts import prompted_example

__all__ = [
    "Account",
    "Example",
    "GeneratingTask",
    "LanguageTask",
    "LoopTraining",
    "PrivatePlan",
    "RecordRows",
    "Segment",
    "Task",
    "TaskModel",
    "TrainingCorpus",
    "TrainingSettings",
    "causal_example",
    "plan_private_steps",
    "prompted_example",
]
