"""What a task says of itself. Packages offer tasks under entry points of ``reticent.tasks``."""

from pipelines.training.tasks.spec import GenerationSettings, TaskSettings, TaskSpec

__all__ = ["GenerationSettings", "TaskSettings", "TaskSpec"]
