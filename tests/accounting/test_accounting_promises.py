"""docs/sharp_edges.md, "Promises": every promise is made where the page says, in those words, and its test is there."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest
from support import REPOSITORY

_, PAGE = (REPOSITORY / "docs" / "sharp_edges.md").read_text(encoding="utf-8").split("\n## Promises\n")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "::" in line
]


@functools.cache
def words(path: Path) -> str:
    """What a file says, with single spaces: of Python its strings, f-strings without what is put into them."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        found = []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
        text = "\n".join(found)
    return re.sub(r"\s+", " ", text)


def test_the_page_has_promises_of_every_kind() -> None:
    assert len(ROWS) > 40
    files = {name for row in ROWS for name in re.findall(r"`([^`:]+)`", row[1])}
    assert {"README.md", "SECURITY.md", "docs/engine.md", "pipelines/report/report.html"} <= files


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_promise_is_made_where_the_page_says_and_its_test_is_there(row: list[str]) -> None:
    """Guards the page against promises that are worded otherwise by now, and tests that are gone."""
    promise, places, _, tests = row
    quoted = re.sub(r"\s+", " ", promise.strip('“”"'))
    for name in re.findall(r"`([^`:]+)`", places):
        assert quoted in words(REPOSITORY / name), f"{name} does not say: {quoted}"
    found = re.findall(r"`(tests/[^`:]+)::([^`]+)`", tests)
    assert found
    for file, test in found:
        assert f"def {test}(" in (REPOSITORY / file).read_text(encoding="utf-8"), test
