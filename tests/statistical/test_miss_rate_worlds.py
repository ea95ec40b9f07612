"""The bound of gamma covers the truth in every world of `benchmarks/miss_rate_worlds.py`; the old bound fails there."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest
from support import REPOSITORY

_SPEC = importlib.util.spec_from_file_location("miss_rate_worlds", REPOSITORY / "benchmarks" / "miss_rate_worlds.py")
worlds = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = worlds
_SPEC.loader.exec_module(worlds)

LISTS = "lists of 30 missed, 1 % of the sentences"
NOISE = 0.015  # of a coverage of 95 %, over 400 reviews or more: 1.4 standard errors


def problems(cell, name, noise=NOISE):
    found = [] if cell[f"{name}_coverage"] >= 0.94 - noise else ["coverage"]
    if cell["old_coverage"] >= worlds.CONFIDENCE and cell[f"{name}_width"] > 1.3 * cell["old_width"]:
        found.append("width")
    return found


@pytest.mark.parametrize(("world", "n"), [(LISTS, 30), ("independent, 2 %", 30)])
def test_the_bound_holds_with_lists_and_is_no_wider_without(world, n):
    cell = worlds.cell(worlds.WORLDS[world], n, 100)
    assert problems(cell, "new") == []
    assert "coverage" not in problems(cell, "unreviewed")


@pytest.mark.parametrize("n", [30, 100])
def test_the_old_bound_fails_with_lists(n):
    assert "coverage" in problems(worlds.cell(worlds.WORLDS[LISTS], n, 100), "old")


def test_a_bound_that_allows_for_everything_fails_by_its_width():
    assert problems(worlds.cell(worlds.WORLDS["independent, 2 %"], 100, 100), "unreviewed") == ["width"]


@pytest.mark.slow
@pytest.mark.parametrize("n", worlds.SAMPLES)
@pytest.mark.parametrize("world", [name for name, world in worlds.WORLDS.items() if world.is_promised])
def test_the_bound_holds_in_every_world(world, n):
    assert problems(worlds.cell(worlds.WORLDS[world], n, 400), "new") == []


def test_the_recorded_table_keeps_the_promise_and_stands_in_the_docs():
    results = json.loads((REPOSITORY / "benchmarks" / "results" / "miss_rate_worlds.json").read_text())
    for name, cells in results["worlds"].items():
        for n, cell in cells.items():
            if worlds.WORLDS[name].is_promised:
                assert problems(cell, "new", noise=0.0) == [], (name, n)
    assert worlds.table(results) in (REPOSITORY / "docs" / "reviewing.md").read_text()
