"""Runs one box of the flow, a task each: `each`, a stage of every partition, or `whole`, one of the whole corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import Task

from pipelines.graph import GRAPH
from pipelines.store.objects import runs
from pipelines.store.objects.session import open_session
from pipelines.store.place.outcome import Outcome

Outputs = tuple[Outcome, ...]
"""What became of a stage, one outcome per partition, in corpus order."""


def each(task: Task[Any, Any], run: str, **inputs: Outputs) -> Outputs:
    """Runs a stage once for every partition.

    Args:
        task: the stage's task; its name is the stage's name.
        run: path of the run's specification.
        inputs: outputs of the stages that it reads, by stage name; the graph says which.

    Raises:
        ValueError: the graph says that the stage concerns the whole corpus.
        ReticentError: a partition failed; the others were finished first.
    """
    if not GRAPH[task.name].partitioned:
        raise ValueError(f"stage {task.name} concerns the whole corpus; wire it with `whole`")
    return _run(task, run, inputs)


def whole(task: Task[Any, Any], run: str, **inputs: Outputs) -> Outputs:
    """Runs a stage once, for the whole corpus; its one outcome, in a tuple as the next box reads it.

    Args:
        task, run, inputs: as for `each`.

    Raises:
        ValueError: the graph says that the stage is partitioned.
        ReticentError: the stage failed.
    """
    if GRAPH[task.name].partitioned:
        raise ValueError(f"stage {task.name} is partitioned; wire it with `each`")
    return _run(task, run, inputs)


def _run(task: Task[Any, Any], run: str, inputs: Mapping[str, Outputs]) -> Outputs:
    session = open_session(run)
    stage = task.name
    partitions = session.partition_names(stage)
    absent = {name for name, outputs in inputs.items() if any(outcome.key is None for outcome in outputs)}
    if absent - {edge.stage for edge in GRAPH[stage].inputs if edge.optional}:
        outputs = tuple(Outcome(stage=stage, partition=p, state="skipped", key=None) for p in partitions)
    else:
        keys = {
            name: tuple((o.partition, o.key) for o in outputs if o.key is not None)
            for name, outputs in inputs.items()
            if name not in absent
        }
        outputs = task.submit(run, keys).result()
    if GRAPH[stage].optional and all(outcome.key is None for outcome in outputs):
        return outputs  # nobody asked for it, and nobody is told that it was skipped
    session.outcomes.extend(outputs)
    unfinished = {"outputs": {}, "metrics": {}, "state": "unfinished"}
    runs.record(session, session.outcomes, unfinished, make_latest=False)  # a killed run's work is not collected by gc
    return outputs
