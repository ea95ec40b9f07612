"""Lists of words, as data. They have their own package, because data count as code of every module in their folder."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources


@functools.cache
def word_lists(name: str) -> Mapping[str, frozenset[str]]:
    """Returns the lists of ``NAME.toml``, by name."""
    text = resources.files(__name__).joinpath(f"{name}.toml").read_text("utf-8")
    return {key: frozenset(words.split()) for key, words in tomllib.loads(text).items()}


@functools.cache
def listed_words() -> frozenset[str]:
    """Returns the words of all lists but that of given names."""
    files = (file.name for file in resources.files(__name__).iterdir() if file.name.endswith(".toml"))
    names = (name.removesuffix(".toml") for name in files)
    return frozenset[str]().union(
        *(words for name in names if name != "given_names" for words in word_lists(name).values())
    )
