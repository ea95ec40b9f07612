"""Deprecation of parts of the public API. A deprecated part still works, and its warning names the replacement.

The policy is in ``docs/api/``: a part that is deprecated in a minor version works, with a warning, in the next minor
version too. The version after that may remove it. A patch version removes nothing.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(*, since: str, removed_in: str, instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Marks a function, a method or a class as deprecated: a call warns, and works as before.

    Args:
        since: first version with the warning.
        removed_in: first version without the deprecated part.
        instead: replacement, as a user writes it.

    Returns:
        A decorator. It adds a note to the docstring, and a class stays a class.

    Raises:
        ValueError: the removal comes too early. It needs two minor versions, or a major one.
    """
    (major, minor), removed = _parts(since), _parts(removed_in)
    if removed < (major, minor + 2):
        raise ValueError(
            f"a part that is deprecated since {since} can be removed in {major}.{minor + 2}.0 at the earliest"
        )

    def decorate(target: Callable[P, R]) -> Callable[P, R]:
        message = f"{target.__qualname__} is deprecated since {since} and goes in {removed_in}; use {instead}"
        doc = inspect.cleandoc(target.__doc__ or "")
        note = f"{doc}\n\nDeprecated since {since}, removed in {removed_in}: use {instead}."
        if isinstance(target, type):
            original = target.__init__  # type: ignore[misc]

            @functools.wraps(original)
            def warn_and_init(self: object, *args: P.args, **kwargs: P.kwargs) -> None:
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                original(self, *args, **kwargs)

            target.__init__ = warn_and_init  # type: ignore[misc]
            target.__doc__ = note
            return target

        @functools.wraps(target)
        def warn_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return target(*args, **kwargs)

        warn_and_call.__doc__ = note
        return warn_and_call

    return decorate


def _parts(version: str) -> tuple[int, int]:
    major, minor, _ = (int(part) for part in version.split("."))
    return major, minor
