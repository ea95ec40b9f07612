"""Plug-ins of other packages: names by entry point or import path, and declared options. Light to import."""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from pipelines.errors import ConfigError

LAYER_RULES: Final = "reticent.layer_rules"
"""The group of entry points for the engine's rules (`pipelines.dp.rules`)."""

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


def check_import_path(name: str, form: str = "package.module:Class") -> None:
    """Checks the form of an import path, and imports nothing.

    Raises:
        ValueError: the name is not an import path.
    """
    module, _, attribute = name.partition(":")
    if not attribute.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"'{name}' is not an import path of the form {form}")


@functools.cache
def installed(group: str) -> Mapping[str, str]:
    """Returns ``module:Name`` by name for a group of entry points. Slow, so use it only for names that are not ours."""
    return {point.name: point.value.replace(" ", "") for point in entry_points(group=group)}


def resolve(name: str, known: Iterable[str], group: str, kind: str, attribute: str = "SPEC") -> str:
    """Returns ``module:Name`` of a plug-in.

    Args:
        name: name in ``group``, or an import path.
        known: our own names, for the message.
        group: group of entry points.
        kind: kind of the plug-in, in a word.
        attribute: usual last part of an import path.

    Raises:
        ValueError: the name is neither. The message gives the nearest name.
    """
    form = f"package.module:{attribute}"
    if ":" in name:
        check_import_path(name, form)
        return name
    offered = installed(group)
    if name not in offered:
        names = sorted({*known, *offered})
        near = nearest(name, names)
        raise ValueError(f"unknown {kind} '{name}'; {near}known: {', '.join(names)}, or an import path {form}")
    return offered[name]


def load(reference: str) -> Any:
    """Imports ``module:Name``.

    Raises:
        ImportError, AttributeError: there is no such module, or the module has no such name.
    """
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


def load_spec(name: str, known: Mapping[str, T], group: str, kind: str, of: type[T]) -> T:
    """Returns the description of a built-in or of another package's plug-in, whose module it imports.

    Raises:
        ConfigError: there is no such name, its module cannot be imported, or the module holds no description.
    """
    if name in known:
        return known[name]
    try:
        spec = load(resolve(name, known, group, kind))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    except Exception as error:
        raise ConfigError(f"{kind} '{name}' cannot be imported ({type(error).__name__}: {error})") from error
    if not isinstance(spec, of):
        raise ConfigError(f"{kind} '{name}' must be a {of.__module__}.{of.__name__}")
    return spec


def own_settings(model: type[M], given: BaseModel, options: Mapping[str, Any], where: str) -> M:
    """Returns the settings of one plug-in or built-in, from the shared settings of a table and from its options.

    Raises:
        ValueError: an option is unknown, wrong, or a field of the table itself.
    """
    table = type(given).model_fields
    if own := [name for name in options if name in table]:
        raise ValueError(f"{where}.{own[0]}: '{own[0]}' is a setting of the table itself; set it there")
    shared = {name: getattr(given, name) for name in model.model_fields if name in table}
    checked = check_options(model, {**shared, **options}, where)
    assert isinstance(checked, model)  # noqa: S101  # narrows the type
    return checked


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns ``did you mean 'digits'? ``, or an empty string."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.4)
    return f"did you mean '{near[0]}'? " if near else ""


def check_options(model: type[BaseModel] | None, values: Mapping[str, Any], where: str) -> BaseModel | None:
    """Validates the options of a plug-in, and returns an instance of its model; None without a model.

    Raises:
        ValueError: a field is unknown, missing or wrong. The message names the field and the nearest one, and no value.
    """
    fields = model.model_fields if model is not None else {}
    for name in values:
        if name not in fields:
            known = f"known: {', '.join(sorted(fields))}" if fields else "it takes no options"
            raise ValueError(f"{where}.{name}: unknown option; {nearest(name, fields)}{known}")
    if model is None:
        return None
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        problems = (
            f"{'.'.join((where, *map(str, e['loc'])))}: {e['msg'].removeprefix('Value error, ')}" for e in errors
        )
        raise ValueError("; ".join(problems)) from None


def option_references(options: Any) -> tuple[str, ...]:
    """Returns the modules and files that options of `check_options` select. Their content counts in keys."""
    method = getattr(options, "references", None)
    return tuple(method()) if method is not None else ()
