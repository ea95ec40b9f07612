"""Names for specs of tasks. Packages offer tasks under entry points of the group ``reticent.tasks``."""

from pipelines.training.tasks.spec import GenerationSettings, TaskSettings, TaskSpec

__all__ = ["GenerationSettings", "TaskSettings", "TaskSpec"]
