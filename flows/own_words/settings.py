"""Settings as the public report shows them: names of tables and fields, and what they can be set to."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from flows.own_words.variants import choices
from pipelines.corpus.formats import FORMATS
from pipelines.gate.own import HOLE
from pipelines.methods.registry import METHODS
from pipelines.policies.detectors.specs import SPECS
from pipelines.report.numbers import plain
from pipelines.report.settings import shown_settings
from pipelines.settings.loading import tables
from pipelines.training.models.shape import PRESETS
from pipelines.training.models.sources import WHEELS
from pipelines.training.tasks.registry import TASKS
from pipelines.training.tasks.templates import TEMPLATES

_KNOWN: Final[Mapping[str, Sequence[str]]] = {
    "corpus.format": ("auto", *FORMATS),
    "redact.policies": tuple(SPECS),
    "redact.conservative": tuple(SPECS),
    "train.method": tuple(METHODS),
    "train.task": tuple(TASKS),
    "train.model": (*PRESETS, *WHEELS),
    "train.template": tuple(TEMPLATES),
}
"""Names of built-in things, where a setting is a string (`pipelines.report.settings.SHOWN_STRINGS`)."""

_NOT_SHOWN: Final = frozenset({"report", "runtime"})
"""Tables that no report shows. What they can be set to may be a name ("ray")."""


def shown() -> Iterator[dict[str, dict[str, Any]]]:
    """Settings as the report stage hands them to the report; every value of a field is in one of them."""
    for number in range(max(len(words) for words in _words().values())):
        configs = {name: _config(name, model, number) for name, model in _shown_tables().items()}
        yield shown_settings(configs)


def _shown_tables() -> dict[str, type[BaseModel]]:
    return {name: model for name, model in tables().items() if name not in _NOT_SHOWN}


def lists() -> Iterator[str]:
    """Lists of names, as the page shows them: each name first, last, and beside each other one."""
    for words in _words().values():
        for pair in itertools.permutations(words, 2):
            yield from (plain([*pair]), plain([*pair, HOLE]), plain([HOLE, *pair]), plain([HOLE, *pair, HOLE]))


def _config(table: str, model: type[BaseModel], number: int) -> BaseModel:
    """A table with the settings of this number, and its defaults where there are fewer."""
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        words = _words().get(f"{table}.{name}", ())
        if number < len(words):
            is_list = isinstance(field.get_default(call_default_factory=True), list | tuple)
            values[name] = (words[number],) if is_list else words[number]
    return model.model_construct(**values)


@functools.cache
def _words() -> dict[str, Sequence[str]]:
    """The words that each field may be set to, by table and field."""
    found: dict[str, Sequence[str]] = dict(_KNOWN)
    for table, model in _shown_tables().items():
        for name, field in model.model_fields.items():
            if words := choices(field.annotation):
                found[f"{table}.{name}"] = words
    return found
