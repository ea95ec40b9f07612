"""The flows wire exactly what the graph declares, and tasks stay thin."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest

from pipelines.graph import GRAPH, OUTSIDE
from pipelines.store.execute import Outcome

REPOSITORY = Path(__file__).parents[2]


def test_flows_wire_exactly_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    wired: dict[str, set[str]] = {}

    def record(task: Any, run: str, **inputs: Any) -> Any:
        assert task.name not in wired, "wired twice"
        assert all(value[0].stage == name for name, value in inputs.items())
        wired[task.name] = set(inputs)
        return (Outcome(stage=task.name, partition=None, state="completed", key="k"),)

    prepare, train, nightly = (importlib.import_module(f"flows.{name}") for name in ("prepare", "train", "nightly"))
    for module in (prepare, train):
        monkeypatch.setattr(module, "whole", record)
    monkeypatch.setattr(prepare, "each", record)
    monkeypatch.setattr(prepare, "require_usable_input", lambda run: None)
    nightly.nightly.fn("spec.json")
    declared = {s.name: {e.stage for e in s.inputs if e.stage not in OUTSIDE} for s in GRAPH.values()}
    assert wired == declared
    assert list(wired) == list(GRAPH)


@pytest.mark.parametrize("name", list(GRAPH))
def test_each_stage_has_one_thin_uncached_task(name: str) -> None:
    task = getattr(importlib.import_module(f"tasks.{name}"), name)
    assert task.name == name
    assert task.persist_result is False
    assert type(task.cache_policy).__name__ == "_None"
    tree = ast.parse((REPOSITORY / "tasks" / f"{name}.py").read_text())
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    assert len(functions) == 1
    assert len(functions[0].body) == 2  # docstring and one call of the store


@pytest.mark.parametrize("stage", list(GRAPH.values()), ids=list(GRAPH))
def test_declared_fields_exist(stage: Any) -> None:
    for table, reference in stage.configs.items():
        module, _, name = reference.partition(":")
        model = getattr(importlib.import_module(module), name)
        assert set(stage.fields.get(table, ())) <= set(model.model_fields)
        assert set(model.UNKEYED) <= set(model.model_fields)
        assert all(field.description for field in model.model_fields.values())
