"""Runs one box of the flow: a task per partition, or one task for the whole corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import Task
from prefect.futures import PrefectFuture

from pipelines.graph import GRAPH
from pipelines.store import runs
from pipelines.store.execute import Outcome, PartitionKeys
from pipelines.store.session import open_session

Outputs = tuple[Outcome, ...]
"""What became of a stage, one outcome per partition, in corpus order."""


def each(task: Task[Any, Any], run: str, **inputs: Outputs) -> Outputs:
    """Runs a stage for every partition, or once if it concerns the whole corpus.

    Args:
        task: the stage's task; its name is the stage's name.
        run: path of the run's specification.
        inputs: outputs of the stages that it reads, by stage name; the graph says which.

    Raises:
        ReticentError: a partition failed; the others were finished first.
    """
    session = open_session(run)
    stage = task.name
    partitions = session.partition_names(stage)
    if any(outcome.key is None for outputs in inputs.values() for outcome in outputs):
        outputs = tuple(Outcome(stage=stage, partition=p, state="skipped", key=None) for p in partitions)
    else:
        futures = [task.submit(run, p, _inputs_of(stage, p, inputs)) for p in partitions]
        outputs = _results(futures)
    session.outcomes.extend(outputs)
    unfinished = {"outputs": {}, "metrics": {}, "state": "unfinished"}
    runs.record(session, session.outcomes, unfinished, make_latest=False)  # a killed run's work is not collected by gc
    return outputs


whole = each
"""The same, named for boxes that concern the whole corpus, so that the flows read well."""


def _results(futures: list[PrefectFuture[Any]]) -> Outputs:
    found: list[Outcome] = []
    first_error: BaseException | None = None
    for future in futures:
        try:
            found.append(future.result())
        except Exception as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error
    return tuple(found)


def _inputs_of(stage: str, partition: str | None, inputs: Mapping[str, Outputs]) -> dict[str, PartitionKeys]:
    edges = {edge.stage: edge for edge in GRAPH[stage].inputs}
    return {
        name: tuple(
            (o.partition, o.key)
            for o in outputs
            if o.key is not None and (edges[name].partitions != "same" or o.partition == partition)
        )
        for name, outputs in inputs.items()
    }
