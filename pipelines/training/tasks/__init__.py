"""Tasks by name, one module each: what a model is asked to do. A module offers ``make_task(model, options)``.

Every task turns records into examples, one record into one example and looking at nothing else, so that a changed
record changes one example. What they are made of has ``len``, ``ids.lengths``, ``num_targets`` and ``collate``
(`pipelines.training.data.records.Examples`). The loss of each example may be differentiated example by example: it
depends on no other example, not even through padding.

Modules are named, not imported, so that settings can be checked without torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Final

_HERE = "pipelines.training.tasks"
TASKS: Final[Mapping[str, str]] = {
    "language_modelling": f"{_HERE}.language_modelling",
    "dialogue": f"{_HERE}.dialogue",
    "response": f"{_HERE}.responses",
    "table_to_text": f"{_HERE}.table_to_text",
    "classification": f"{_HERE}.classification",
}
RECORDS: Final[Mapping[str, str]] = {"dialogue": "dialogue", "response": "dialogue"}
"""What a record is, for tasks that fix it; a row elsewhere, or in language modelling what the settings say."""

SPEAKERS: Final[Mapping[str, tuple[str, ...]]] = {"response": ("PARTNER", "PARTNER_PERSONA", "PERSONA", "SELF")}
"""Speakers that have a control token whatever the public rows say: those that ``corpus.format`` gives."""

HAVE_SPEAKERS: Final = frozenset({"language_modelling", "dialogue", "response"})
"""Tasks whose records have speakers."""

GENERATES: Final = frozenset({"response", "table_to_text"})
"""Tasks whose scores are those of generated text."""


def load_task(name: str) -> ModuleType:
    """Imports the module of a task.

    Raises:
        KeyError: no task has this name.
    """
    return importlib.import_module(TASKS[name])
