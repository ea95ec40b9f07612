"""Walks of the graph of `pipelines.graph`: the dependencies of stages, their dependents, and all stages in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter

from pipelines.config import StageConfig
from pipelines.graph import GRAPH
from pipelines.stage import OUTSIDE, Input, Keyed, PartitionNames, Stage, Step


def default_stages() -> tuple[str, ...]:
    """Returns the stages that are not optional."""
    return tuple(stage.name for stage in GRAPH.values() if not stage.optional)


def source_and_sink_stages() -> set[str]:
    """Returns the default stages that read no stage or that no stage reads. Upgrades add stages only in between."""
    stages = [GRAPH[name] for name in default_stages()]
    read = {edge.stage for stage in stages for edge in stage.inputs}
    return {stage.name for stage in stages if stage.name not in read or all(e.stage in OUTSIDE for e in stage.inputs)}


def enabled_stages(names: Iterable[str], configs: Mapping[str, StageConfig]) -> tuple[str, ...]:
    """Returns the stages in ``names`` without the optional stages that the settings do not enable."""
    return tuple(name for name in names if not GRAPH[name].optional or configs[GRAPH[name].table].wants(name))


def upstream(names: Iterable[str], configs: Mapping[str, StageConfig] | None = None) -> set[str]:
    """Returns the stages in ``names`` and every stage that they need, given the settings if there are any."""
    needed = set(names)
    for stage in reversed(list(GRAPH.values())):  # declared in topological order
        if stage.name in needed:
            edges = stage.inputs if configs is None else stage.edges_read(configs)
            needed.update(edge.stage for edge in edges if not edge.optional)
    return needed


def downstream(names: set[str]) -> set[str]:
    """Returns the stages in ``names`` and every stage that depends on one of them."""
    reached = set(names)
    for stage in GRAPH.values():  # declared in topological order
        if any(stage.reads(name) for name in reached):
            reached.add(stage.name)
    return reached


def walk(
    partition_names: PartitionNames,
    visit: Callable[[Stage, tuple[Step, ...]], Iterable[str | None] | None],
    names: Collection[str] = GRAPH,
    edges_of: Callable[[Stage], Iterable[Input]] = attrgetter("inputs"),
) -> dict[str, tuple[Keyed, ...]] | None:
    """Visits stages in the graph's order, each once its inputs were visited.

    Args:
        partition_names: function that returns the partitions of a stage.
        visit: function that is given a stage and its steps. It returns the key of each step's artifact (None if there
            is no artifact), or None to end the walk.
        names: stages to visit.
        edges_of: function that returns the edges of a stage to follow.

    Returns:
        The artifacts of each stage, without the missing ones; None if ``visit`` ended the walk.
    """
    known: dict[str, tuple[Keyed, ...]] = {}
    for stage in GRAPH.values():
        if stage.name in names:
            steps = tuple(stage.steps(partition_names, known, edges_of(stage)))
            keys = visit(stage, steps)
            if keys is None:
                return None
            known[stage.name] = tuple((step.partition, key) for step, key in zip(steps, keys, strict=True) if key)
    return known
