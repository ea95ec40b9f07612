"""Going through the graph of `pipelines.graph`: what a stage depends on, what depends on it, and all of it in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import repeat

from pipelines.config import StageConfig
from pipelines.graph import GRAPH
from pipelines.stage import OUTSIDE, Keyed, Stage


def usual() -> tuple[str, ...]:
    """The stages that are not optional."""
    return tuple(stage.name for stage in GRAPH.values() if not stage.optional)


def outermost() -> set[str]:
    """Of the usual stages those that read no other, and those that no other reads; upgrades add stages between them."""
    stages = [GRAPH[name] for name in usual()]
    read = {edge.stage for stage in stages for edge in stage.inputs}
    return {stage.name for stage in stages if stage.name not in read or all(e.stage in OUTSIDE for e in stage.inputs)}


def wanted(names: Iterable[str], configs: Mapping[str, StageConfig]) -> tuple[str, ...]:
    """The stages in ``names``, without optional ones that the settings do not ask for (`StageConfig.wants`)."""
    return tuple(name for name in names if not GRAPH[name].optional or configs[GRAPH[name].table].wants(name))


def upstream(names: Iterable[str], configs: Mapping[str, StageConfig] | None = None) -> set[str]:
    """The stages in ``names`` and every stage that one of them cannot do without; with settings, with these."""
    needed = set(names)
    for stage in reversed(list(GRAPH.values())):  # declared in topological order
        if stage.name in needed:
            edges = stage.inputs if configs is None else stage.edges_read(configs)
            needed.update(edge.stage for edge in edges if not edge.optional)
    return needed


def downstream(names: set[str]) -> set[str]:
    """The stages in ``names`` and every stage that depends on one of them."""
    reached = set(names)
    for stage in GRAPH.values():  # declared in topological order
        if any(stage.reads(name) for name in reached):
            reached.add(stage.name)
    return reached


def walk(
    partition_names: Callable[[str], Iterable[str | None]],
    visit: Callable[[Stage, str | None, dict[str, tuple[Keyed, ...]] | None], str | None],
    names: Collection[str] = GRAPH,
) -> dict[str, tuple[Keyed, ...]] | None:
    """Goes through stages in the graph's order, every partition of each.

    Args:
        partition_names: of a stage.
        visit: is given a stage, a partition, and the artifacts that it reads (None where one of them is not there), and
            gives the key of its artifact; an empty one where there is none, None to stop.
        names: the stages.

    Returns:
        The artifacts of every stage that has them all; None if it was stopped.
    """
    keys: dict[str, tuple[Keyed, ...]] = {}
    for stage in GRAPH.values():
        if stage.name not in names:
            continue
        can_read = all(edge.stage in keys or edge.optional for edge in stage.inputs if edge.stage not in OUTSIDE)
        made: list[Keyed] = []
        partitions = tuple(partition_names(stage.name))
        read = stage.input_keys(partitions, keys) if can_read else repeat(None)
        for partition, inputs in zip(partitions, read, strict=False):
            key = visit(stage, partition, inputs)
            if key is None:
                return None
            made.append((partition, key))
        if all(key for _, key in made):
            keys[stage.name] = tuple(made)
    return keys
