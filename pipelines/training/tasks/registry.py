"""Finds tasks by name: tasks of this package, whose modules are not imported, and tasks of other packages."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from pipelines.plugins import load_spec, resolve
from pipelines.training.tasks.spec import ClassificationSettings, GenerationSettings, TaskSpec

_HERE = "pipelines.training.tasks"

TASKS: Final[Mapping[str, TaskSpec]] = {
    spec.name: spec
    for spec in (
        TaskSpec(
            name="language_modelling",
            module=f"{_HERE}.language_modelling",
            reads="any rows; `record` as set",
            learns="every text token",
            scores="perplexity and accuracy by token and by word",
            layout="One record is {begin}, {marks} where there is one, the text, {end}; no blank between them.",
            record=None,
            has_speakers=True,
            takes_lstm=True,
        ),
        TaskSpec(
            name="dialogue",
            module=f"{_HERE}.dialogue",
            reads="a dialogue a record, with speakers",
            learns="every turn, each with an end",
            scores="perplexity",
            layout="One record is {begin}, and for each turn {marks}, the text, {end}; no blank between them.",
            record="dialogue",
            has_speakers=True,
        ),
        TaskSpec(
            name="response",
            module=f"{_HERE}.responses",
            reads='`corpus.format = "personachat"`, a dialogue a record',
            learns="the turns of `SELF`",
            scores="perplexity of replies; F1 and the others below of generated ones; hits@1",
            layout="One record is {begin}, the persona and the turns so far, each {marks}, the text, {end}; "
            "after `<SELF>` the model writes a reply.",
            record="dialogue",
            settings=GenerationSettings,
            has_speakers=True,
            speakers=("PARTNER", "PARTNER_PERSONA", "PERSONA", "SELF"),  # those that ``corpus.format`` gives
        ),
        TaskSpec(
            name="table_to_text",
            module=f"{_HERE}.table_to_text",
            reads="`e2e`, `dart`; a row a record",
            learns="the description",
            scores="perplexity of descriptions; BLEU, ROUGE-1, -2 and -L, NIST, METEOR, CIDEr-D of generated ones",
            layout="One record is {begin}, the table as `key : value | key : value`, {begin}, its text, {end}.",
            settings=GenerationSettings,
        ),
        TaskSpec(
            name="classification",
            module=f"{_HERE}.classification",
            reads="`glue`, a row a record; or any format with labels, a sentence a record",
            learns="the class",
            scores="accuracy, by class too",
            layout="One record is {begin}, the text or the two with {end} between them, {end}{blank}.",
            settings=ClassificationSettings,
            writes_text=False,
            needs_pretrained=True,
        ),
    )
}
"""Built-in tasks by name."""

ENTRY_POINTS: Final = "reticent.tasks"
"""Group of entry points under which installed packages offer their own tasks."""


class SettingsOfTasks(GenerationSettings, ClassificationSettings):
    """Settings of all tasks, as ``[train]`` has them."""


def module_of(name: str) -> str:
    """Returns the module that describes a task.

    Raises:
        ValueError: no task has this name. The message gives the nearest.
    """
    return f"{_HERE}.registry" if name in TASKS else resolve(name, TASKS, ENTRY_POINTS, "task").partition(":")[0]


@functools.cache
def task(name: str) -> TaskSpec:
    """Returns the description of a task (`pipelines.plugins.load_spec`)."""
    return load_spec(name, TASKS, ENTRY_POINTS, "task", TaskSpec)
