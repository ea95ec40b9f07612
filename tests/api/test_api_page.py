"""docs/api/ is what the docstrings say, names everything that is public, and every public name is documented."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import reticent
from flows.docs.api import FOLDER, pages

MODULES = [
    importlib.import_module(info.name)
    for info in pkgutil.walk_packages(reticent.__path__, "reticent.")
    if not info.name.rpartition(".")[2].startswith("_")
]


def public() -> Iterator[tuple[str, Any]]:
    """Names with what they stand for."""
    for module in MODULES:
        for name in getattr(module, "__all__", ()):
            yield f"{module.__name__}.{name}", getattr(module, name)


def test_the_pages_are_not_stale() -> None:
    assert {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()} == pages(), "run `make docs`"


def test_every_public_name_stands_on_the_page_of_its_module() -> None:
    made = pages()
    assert [name for name, _ in public() if f"## {name}\n" not in made[f"{name.split('.')[1]}.md"]] == []
    assert [name for name in reticent.__all__ if f"`reticent.{name}`" not in made["README.md"]] == []


@pytest.mark.parametrize(("name", "found"), [pytest.param(*pair, id=pair[0]) for pair in public()])
def test_public_names_are_documented_and_typed(name: str, found: Any) -> None:
    if not (inspect.isclass(found) or inspect.isfunction(inspect.unwrap(found))):
        return  # a constant, or another name of a type
    assert inspect.getdoc(found)
    members = [found] if not inspect.isclass(found) else [m for n, m in vars(found).items() if n[0] != "_"]
    functions = [m.fget if isinstance(m, property) else m for m in members]
    for function in filter(inspect.isfunction, functions):
        if function.__name__ == "<lambda>":
            continue  # the default of a field
        assert inspect.getdoc(function), f"{name}: {function.__name__}"
        signature = inspect.signature(function)
        bare = [
            p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls")
        ]
        assert bare == []
        assert signature.return_annotation is not signature.empty


def test_arguments_of_public_functions_are_explained() -> None:
    missing = []
    for name, found in public():
        if callable(found) and inspect.isfunction(inspect.unwrap(found)):
            needs = len(inspect.signature(found).parameters) > 1
            if needs and "Args:" not in (inspect.getdoc(found) or ""):
                missing.append(name)
    assert missing == []
