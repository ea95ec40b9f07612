"""What other packages add: names by entry point or import path, and options that they declare. Light to import."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

LAYER_RULES: Final = "reticent.layer_rules"
"""The group of entry points of the engine's rules (`pipelines.dp.rules`)."""

T = TypeVar("T")
M = TypeVar("M", bound="BaseModel")


def is_import_path(name: str) -> bool:
    """Whether ``name`` is an import path ``package.module:Name`` and not a registered name."""
    return ":" in name


def check_import_path(name: str, form: str = "package.module:Class") -> None:
    """Checks the form alone; nothing is imported.

    Raises:
        ValueError: it is none.
    """
    module, _, attribute = name.partition(":")
    if not attribute.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"'{name}' is not an import path of the form {form}")


@functools.cache
def installed(group: str) -> Mapping[str, str]:
    """``module:Name`` by name, of a group of entry points. Slow: ask only for a name that is none of ours."""
    from importlib.metadata import entry_points

    return {point.name: point.value.replace(" ", "") for point in entry_points(group=group)}


def resolve(name: str, known: Iterable[str], group: str, kind: str, attribute: str = "SPEC") -> str:
    """``module:Name`` of what another package offers.

    Args:
        name: a name in ``group``, or an import path.
        known: names of our own, for the message.
        group: of entry points.
        kind: what it is, in a word.
        attribute: what the last part of an import path usually is.

    Raises:
        ValueError: it is neither; the message gives the nearest name.
    """
    form = f"package.module:{attribute}"
    if is_import_path(name):
        check_import_path(name, form)
        return name
    found = installed(group)
    if name not in found:
        names = sorted({*known, *found})
        near = nearest(name, names)
        raise ValueError(f"unknown {kind} '{name}'; {near}known: {', '.join(names)}, or an import path {form}")
    return found[name]


def load(reference: str) -> Any:
    """What ``module:Name`` stands for.

    Raises:
        ImportError, AttributeError: there is no such module, or nothing of that name in it.
    """
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


def load_spec(name: str, known: Mapping[str, T], group: str, kind: str, of: type[T]) -> T:
    """The description of a built-in thing, or the one that another package offers, whose module is imported.

    Raises:
        ConfigError: nothing has this name, its module cannot be imported, or holds no description.
    """
    if name in known:
        return known[name]
    try:
        found = load(resolve(name, known, group, kind))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    except Exception as error:
        raise ConfigError(f"{kind} '{name}' cannot be imported ({type(error).__name__}: {error})") from error
    if not isinstance(found, of):
        raise ConfigError(f"{kind} '{name}' must be a {of.__module__}.{of.__name__}")
    return found


def own_settings(model: type[M], given: BaseModel, options: Mapping[str, Any], where: str) -> M:
    """The settings of one thing, of those that a table has for all built-in ones and of its options.

    Args:
        model: declares them.
        given: the table.
        options: of a plug-in.
        where: the options' table, for messages.

    Raises:
        ValueError: an option is unknown, wrong, or a field of the table itself.
    """
    table = type(given).model_fields
    if own := [name for name in options if name in table]:
        raise ValueError(f"{where}.{own[0]}: '{own[0]}' is a setting of the table itself; set it there")
    shared = {name: getattr(given, name) for name in model.model_fields if name in table}
    found = check_options(model, {**shared, **options}, where)
    assert isinstance(found, model)  # noqa: S101  # narrows the type
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """``did you mean 'digits'? ``, or an empty string."""
    import difflib  # slow to import, and needed only to tell of a mistake

    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.4)
    return f"did you mean '{near[0]}'? " if near else ""


def check_options(model: type[BaseModel] | None, values: Mapping[str, Any], where: str) -> BaseModel | None:
    """Options that a plug-in declares, validated.

    Args:
        model: declares them; None where there are none.
        values: as the settings give them.
        where: the settings' table, for messages.

    Returns:
        An instance of the model; None without one.

    Raises:
        ValueError: a field is unknown, missing or wrong; the message names it, and the nearest one, and no value.
    """
    fields = model.model_fields if model is not None else {}
    for name in values:
        if name not in fields:
            known = f"known: {', '.join(sorted(fields))}" if fields else "it takes no options"
            raise ValueError(f"{where}.{name}: unknown option; {nearest(name, fields)}{known}")
    if model is None:
        return None
    from pydantic import ValidationError

    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        problems = (
            f"{'.'.join((where, *map(str, e['loc'])))}: {e['msg'].removeprefix('Value error, ')}" for e in found
        )
        raise ValueError("; ".join(problems)) from None


def option_references(options: Any) -> tuple[str, ...]:
    """The modules and files that options of `check_options` say that they select; what they hold counts in keys."""
    method = getattr(options, "references", None)
    return tuple(method()) if method is not None else ()
