"""Draws names of persons of two dozen countries, as people write them, for training."""

from __future__ import annotations

import functools
import random

from pipelines.policies.english.name_lists import LOCALES, names_of


@functools.cache
def _lists() -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    by_locale = (
        (tuple(sorted(set(names_of(locale, "first_names")))), tuple(sorted(set(names_of(locale, "last_names")))))
        for locale in LOCALES.split()
    )
    return tuple((first, last) for first, last in by_locale if first and last)


def draw_name(rng: random.Random) -> str:
    """Draws a first name, a last name, or both."""
    first, last = rng.choice(_lists())
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(first)
    return rng.choice(last) if kind < 0.6 else f"{rng.choice(first)} {rng.choice(last)}"
