"""Which settings a report may show. Denied unless the type proves it harmless.

A setting may hold a secret: a list of names, a regular expression made for one customer, an input path. A free
string is therefore shown only where this module names the field; everything else that is not a number, a switch or
a choice among fixed words is reduced to how many values there are.
"""

from __future__ import annotations

import enum
import math
import re
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from pipelines.config import StageConfig

# Free strings that name something built in. A value that is not a plain identifier (a plug-in's path) is still hidden.
SHOWN_STRINGS: Final = frozenset(
    {
        "corpus.format",
        "redact.policies",
        "redact.conservative",
        "redact.model",
        "split.language",
        "train.method",
        "train.model",
        "train.task",
        "train.template",
    }
)
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_HARMLESS = (bool, int, float, type(None))
_PUBLIC_SEEDS = frozenset({"hash_seed"})  # part of the recipe, and no noise is drawn from it


def shown_settings(configs: Mapping[str, BaseModel]) -> dict[str, dict[str, Any]]:
    """The settings of each table as JSON values that hold no secret.

    Returns:
        Per table and field: the value itself, ``{"num_values": n}`` for a hidden list or mapping, or
        ``{"is_set": bool}`` for any other hidden value.
    """
    return {table: _shown_model(config, table) for table, config in sorted(configs.items())}


def _shown_model(config: BaseModel, path: str) -> dict[str, Any]:
    unkeyed = config.UNKEYED | config.silent() if isinstance(config, StageConfig) else frozenset()
    return {
        name: _shown_value(getattr(config, name), field.annotation, f"{path}.{name}")
        for name, field in sorted(type(config).model_fields.items())
        if name not in unkeyed  # not in the report's key, so not in its bytes
    }


def _shown_value(value: Any, annotation: Any, path: str) -> Any:
    name = path.rpartition(".")[2]
    if "seed" in name and name not in _PUBLIC_SEEDS and not isinstance(value, bool):
        return {"is_set": value is not None}  # whoever knows the seed of the noise can subtract the noise
    if isinstance(value, BaseModel):
        return _shown_model(value, path)
    if _is_harmless(annotation) or (path in SHOWN_STRINGS and _holds_identifiers(value)):
        return _as_json(value)
    if isinstance(value, list | tuple | set | frozenset | dict):
        return {"num_values": len(value)}
    if value is None or isinstance(value, bool):
        return value
    return {"is_set": value != ""}


def _is_harmless(annotation: Any) -> bool:
    """True when no value of this type can be free text: numbers, switches, fixed words, and sequences of those."""
    origin = get_origin(annotation)
    if origin is Literal:
        return True
    if origin is Annotated:
        return _is_harmless(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return all(_is_harmless(part) for part in get_args(annotation))
    if isinstance(origin, type) and issubclass(origin, Sequence | set | frozenset):
        return all(part is Ellipsis or _is_harmless(part) for part in get_args(annotation))
    return annotation is None or (
        isinstance(annotation, type) and (annotation in _HARMLESS or issubclass(annotation, enum.Enum))
    )


def _holds_identifiers(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_holds_identifiers(item) for item in value)
    return value is None or (isinstance(value, str) and _IDENTIFIER.fullmatch(value) is not None)


def _as_json(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted((_as_json(item) for item in value), key=repr)
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
