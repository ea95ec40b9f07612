"""docs/sharp_edges.md: every row names a test, and that test is there."""

from __future__ import annotations

import ast
import functools
import re

import pytest
from support import REPOSITORY

PAGE, _ = (REPOSITORY / "docs" / "sharp_edges.md").read_text(encoding="utf-8").split("\n## Promises\n")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| pitfall")]


@functools.cache
def functions_of(path):
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:50])
def test_every_pitfall_names_a_test_that_exists(row):
    _, pitfall, done, test, _ = re.split(r" ?(?<!\\)\| ?", row)
    assert pitfall.endswith(".")
    assert done
    path, name = test.strip("` ").split("::")
    assert name in functions_of(path)


def test_the_three_ranks_are_there():
    ranks = re.findall(r"^## (\w+)", PAGE, re.MULTILINE)
    assert ranks[:3] == ["Critical", "Theoretical", "Negligible"]
    assert len(ROWS) > 60
