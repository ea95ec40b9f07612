"""Names of persons of two dozen countries, as people write them, for training."""

from __future__ import annotations

import functools
import random
from typing import Any

from pipelines.policies.english.name_lists import LOCALES


@functools.cache
def _lists() -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    import importlib

    made = []
    for locale in LOCALES.split():
        provider: Any = importlib.import_module(f"faker.providers.person.{locale}").Provider
        parts = []
        for kind in ("first_names", "last_names"):
            found = {str(n) for a in dir(provider) if a.startswith(kind) for n in getattr(provider, a)}
            parts.append(tuple(sorted(found)))
        if all(parts):
            made.append((parts[0], parts[1]))
    return tuple(made)


def name_of(rng: random.Random) -> str:
    """A first name, a last name, or both."""
    first, last = rng.choice(_lists())
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(first)
    return rng.choice(last) if kind < 0.6 else f"{rng.choice(first)} {rng.choice(last)}"
