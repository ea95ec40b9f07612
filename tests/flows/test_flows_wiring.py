"""The flows wire exactly what the graph declares, and tasks stay thin."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest
from prefect import Task
from support.patches import Patch

from flows.running import wiring
from pipelines.graph import GRAPH
from pipelines.stage import OUTSIDE
from pipelines.store.place.outcome import Outcome
from tasks import stages


def test_flows_wire_exactly_the_graph(patch: Patch) -> None:
    wired: dict[str, set[str]] = {}

    def record(task: Any, inputs: Any, *, partitioned: bool) -> Any:
        assert GRAPH[task.name].partitioned is partitioned, "`each` is for partitions, `whole` for the whole corpus"
        assert task.name not in wired, "wired twice"
        assert all(value[0].stage == name for name, value in inputs.items())
        wired[task.name] = set(inputs)
        return (Outcome(stage=task.name, partition=None, state="completed", key="k"),)

    names = ("prepare", "fit", "audit", "synthesis", "train", "nightly")
    prepare, fit, audit, synthesis, train, nightly = (importlib.import_module(f"flows.{name}") for name in names)
    for module in (prepare, fit, audit, synthesis, train):
        patch(module, "whole", lambda task, run, **inputs: record(task, inputs, partitioned=False))
    for module in (prepare, synthesis):
        patch(module, "each", lambda task, run, **inputs: record(task, inputs, partitioned=True))
    patch(prepare, "require_usable_input", lambda run: None)
    patch(train, "require_no_alarm", lambda run: None)
    nightly.nightly.fn("spec.json")
    declared = {s.name: {e.stage for e in s.inputs if e.stage not in OUTSIDE} for s in GRAPH.values()}
    assert wired == declared
    assert list(wired) == list(GRAPH)


@pytest.mark.parametrize("name", list(GRAPH))
def test_a_box_is_wired_as_the_graph_declares_it(name: str, patch: Patch) -> None:
    session = SimpleNamespace(
        partition_names=lambda stage: ("a", "b") if GRAPH[stage].partitioned else (None,), outcomes=[]
    )
    patch(wiring, "open_session", lambda run: session)
    # That an optional stage is left out is no news.
    patch(wiring.runs, "record", lambda *arguments, **options: None, never_called=GRAPH[name].optional)
    skipped = tuple(Outcome(stage=name, partition=p, state="skipped", key=None) for p in session.partition_names(name))
    task = SimpleNamespace(name=name, submit=lambda run, inputs: SimpleNamespace(result=lambda: skipped))
    right, wrong = (wiring.each, wiring.whole) if GRAPH[name].partitioned else (wiring.whole, wiring.each)
    with pytest.raises(ValueError, match=f"stage {name} .* call `{right.__name__}`"):
        wrong(task, "spec.json")
    assert session.outcomes == []
    outputs = right(task, "spec.json")
    assert [outcome.partition for outcome in outputs] == list(session.partition_names(name))
    assert session.outcomes == ([] if GRAPH[name].optional else list(outputs))


def test_a_stage_is_one_task_run_however_many_partitions_it_has(patch: Patch) -> None:
    partitions = tuple(f"p{number}" for number in range(50))
    submitted: list[Any] = []

    def submit(run: str, inputs: Any) -> Any:
        submitted.append(inputs)
        made = tuple(Outcome(stage="dedup_keys", partition=p, state="completed", key="k") for p in partitions)
        return SimpleNamespace(result=lambda: made)

    session = SimpleNamespace(partition_names=lambda stage: partitions, outcomes=[])
    patch(wiring, "open_session", lambda run: session)
    patch(wiring.runs, "record", lambda *arguments, **options: None)
    read = tuple(Outcome(stage="split", partition=p, state="completed", key=f"key of {p}") for p in partitions)
    outputs = wiring.each(SimpleNamespace(name="dedup_keys", submit=submit), "spec.json", split=read)  # type: ignore[arg-type]
    assert [outcome.partition for outcome in outputs] == list(partitions)
    assert submitted == [{"split": tuple((p, f"key of {p}") for p in partitions)}]


@pytest.mark.parametrize("name", list(GRAPH))
def test_each_stage_has_one_thin_uncached_task(name: str) -> None:
    task = getattr(stages, name)
    assert task.name == name
    assert task.persist_result is False
    assert type(task.cache_policy).__name__ == "_None"
    assert task.description == task.fn.__doc__ == GRAPH[name].title


def test_the_tasks_are_those_of_the_graph_and_prefect_tells_them_apart() -> None:
    tasks = {name: value for name, value in vars(stages).items() if isinstance(value, Task)}
    assert list(tasks) == list(GRAPH)
    assert len({task.task_key for task in tasks.values()}) == len(GRAPH)


@pytest.mark.parametrize("stage", list(GRAPH.values()), ids=list(GRAPH))
def test_declared_fields_exist(stage: Any) -> None:
    for table, reference in stage.configs.items():
        module, _, name = reference.partition(":")
        model = getattr(importlib.import_module(module), name)
        assert set(stage.fields.get(table, ())) <= set(model.model_fields)
        assert set(model.UNKEYED) <= set(model.model_fields)
        assert all(field.description for field in model.model_fields.values())
