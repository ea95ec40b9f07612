"""Runs the preparation without Prefect, with worker processes, so that a test can kill it. Arguments: settings file."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flows.lifecycle import running
from flows.spec import PREPARATION, begin
from pipelines.graph import GRAPH, SOURCE
from pipelines.store.execute import Outcome
from pipelines.store.session import open_session
from tasks.builders import builder_of


def prepare(config: Path) -> list[Outcome]:
    """Every preparation stage, partitions side by side."""
    run = begin(config, os.environ)
    session = open_session(run)
    outcomes: dict[tuple[str, str | None], Outcome] = {}
    with running(run), ThreadPoolExecutor(8) as threads:
        for name in PREPARATION:
            stage = GRAPH[name]

            def build(partition: str | None, stage=stage) -> Outcome:
                inputs = {}
                for edge in stage.inputs:
                    if edge.stage != SOURCE:
                        names = (partition,) if edge.partitions == "same" else session.partition_names(edge.stage)
                        inputs[edge.stage] = tuple((p, outcomes[(edge.stage, p)].key or "") for p in names)
                return builder_of(run).build(stage.name, partition, inputs)

            for outcome in threads.map(build, session.partition_names(name)):
                outcomes[(name, outcome.partition)] = outcome
    return list(outcomes.values())


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
