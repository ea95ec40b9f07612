"""What other packages add: names by entry point or import path, and options that they declare. Light to import."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel


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


def load(reference: str) -> Any:
    """What ``module:Name`` stands for.

    Raises:
        ImportError, AttributeError: there is no such module, or nothing of that name in it.
    """
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


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
