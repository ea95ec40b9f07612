"""Values of facts, field by field, so that a text which one fact changes is rendered both ways."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar

from pipelines.gate.own import HOLE

Facts = TypeVar("Facts")
_BY_TYPE: Mapping[Any, Sequence[Any]] = {
    bool: (False, True),
    tuple[str, ...]: ((), (HOLE,), (HOLE, HOLE)),
    int | None: (None, 1, 2),
    int: (0, 1, 2),
}
"""What is tried for a field of which nothing else is said. A new flag is thus tried of itself."""


def variants(facts: Facts, tried: Mapping[str, Sequence[Any]]) -> Iterator[Facts]:
    """The facts themselves, and all that differ from them in one field.

    Args:
        facts: an instance of a dataclass.
        tried: values by the name of the field, where its type does not say them; empty for one that is left as it is.
    """
    yield facts
    hints = typing.get_type_hints(type(facts))
    for field in fields(facts):  # type: ignore[arg-type]
        values = tried.get(field.name, _of_type(hints[field.name]))
        for value in values:
            if value != getattr(facts, field.name):
                yield replace(facts, **{field.name: value})  # type: ignore[type-var]


def _of_type(annotation: Any) -> Sequence[Any]:
    return choices(annotation) or _BY_TYPE.get(annotation, ())


def choices(annotation: Any) -> tuple[str, ...]:
    """The fixed words that an annotation allows, at any depth."""
    if typing.get_origin(annotation) is Literal:
        return tuple(value for value in typing.get_args(annotation) if isinstance(value, str))
    return tuple(word for part in typing.get_args(annotation) for word in choices(part))
