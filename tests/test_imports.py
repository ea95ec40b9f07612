"""Scripts and examples that no quick test runs import names that exist."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from support import REPOSITORY

OURS = ("reticent", "flows", "tasks", "pipelines", "benchmarks")
FENCED = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def programs() -> Iterator[tuple[str, str]]:
    """Every script of the benchmarks and the documentation, and every Python example of a page."""
    for folder in ("benchmarks", "docs"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            yield str(path.relative_to(REPOSITORY)), path.read_text("utf-8")
    for path in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))):
        for number, (_, example) in enumerate(FENCED.findall(path.read_text("utf-8")), start=1):
            if "import " in example:
                yield f"{path.relative_to(REPOSITORY)}, example {number}", dedent(example)


def missing_names(program: str) -> Iterator[str]:
    """What a program imports from our packages, or from a neighbour in `benchmarks/`, that is not there."""
    for node in ast.walk(ast.parse(program)):
        if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
            continue
        root = node.module.split(".")[0]
        if root not in OURS and not Path(REPOSITORY, "benchmarks", f"{root}.py").exists():
            continue
        module = importlib.import_module(node.module)
        for name in (alias.name for alias in node.names):
            if not hasattr(module, name) and not (
                hasattr(module, "__path__") and importlib.util.find_spec(f"{node.module}.{name}")
            ):
                yield f"{node.module}.{name}"


@pytest.mark.parametrize(("place", "program"), [pytest.param(*one, id=one[0]) for one in programs()])
def test_what_it_imports_exists(place, program):
    assert list(missing_names(program)) == [], place


def test_a_name_that_moved_is_found():
    assert list(missing_names("from pipelines.graph import GRAPH, FIGURES")) == ["pipelines.graph.FIGURES"]
