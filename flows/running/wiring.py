"""Runs a stage in a flow: `each` once per partition, `whole` once for the whole corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import Task

from pipelines.graph import GRAPH
from pipelines.store.objects import runs
from pipelines.store.objects.session import open_session
from pipelines.store.place.outcome import Outcome, outcomes_to_record, skipped_outcomes

Outputs = tuple[Outcome, ...]
"""The outcomes of a stage, one per partition, in corpus order."""


def each(task: Task[Any, Any], run: str, **inputs: Outputs) -> Outputs:
    """Runs a stage once for every partition.

    Args:
        task: the stage's task; its name is the stage's name.
        run: path of the run's specification.
        inputs: outputs of the stage's input stages, by stage name.

    Raises:
        ValueError: the graph says that the stage concerns the whole corpus.
        ReticentError: a partition failed; the others were finished first.
    """
    if not GRAPH[task.name].partitioned:
        raise ValueError(f"stage {task.name} has no partitions; call `whole` instead of `each`")
    return _run(task, run, inputs)


def whole(task: Task[Any, Any], run: str, **inputs: Outputs) -> Outputs:
    """Runs a stage once, for the whole corpus, and returns its one outcome in a tuple, as the next stage reads it.

    Raises:
        ValueError: the graph says that the stage is partitioned.
        ReticentError: the stage failed.
    """
    if GRAPH[task.name].partitioned:
        raise ValueError(f"stage {task.name} has partitions; call `each` instead of `whole`")
    return _run(task, run, inputs)


def _run(task: Task[Any, Any], run: str, inputs: Mapping[str, Outputs]) -> Outputs:
    session = open_session(run)
    stage = GRAPH[task.name]
    known = {name: tuple((o.partition, o.key) for o in outputs if o.key) for name, outputs in inputs.items()}
    steps = tuple(stage.steps(session.partition_names, known))
    outputs: Outputs = skipped_outcomes(stage, steps) or task.submit(run, known).result()
    if recorded := outcomes_to_record(stage, outputs):
        session.outcomes.extend(recorded)
        unfinished = {"outputs": {}, "metrics": {}, "state": "unfinished"}
        # The record keeps `reticent gc` from deleting finished artifacts if this run is killed.
        runs.record(session, session.outcomes, unfinished, make_latest=False)
    return outputs
