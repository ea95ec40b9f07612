"""Gets the output of a stage without an orchestrator: from the store, or by running the needed stages here."""

from __future__ import annotations

from typing import Any

from flows.running.spec import make_spec, open_store, read_corpus
from flows.running.temporary import temporary_files
from pipelines.graph_names import FIGURES
from pipelines.settings.loading import ProjectSettings
from pipelines.stage import Stage, Step
from pipelines.store.building.execute import execute
from pipelines.store.objects.session import Session, make_session
from pipelines.store.place.outcome import PartitionKeys
from pipelines.walks import upstream, walk

Keys = dict[str, PartitionKeys]
"""The artifacts of each stage, in corpus order."""


def fetch(settings: ProjectSettings, *stages: str) -> tuple[Session, Keys]:
    """Returns a session and the artifacts of stages, which are brought up to date in this process.

    Raises:
        ReticentError: a stage raised it.
    """

    def get(stage: Stage, steps: tuple[Step, ...]) -> list[str | None]:
        return [execute(session, stage.name, step.partition, step.inputs).key for step in steps]

    with temporary_files():
        session = make_session(make_spec(settings, read_corpus(settings, open_store(settings), read=True)))
        keys = walk(session.partition_names, get, upstream(stages)) or {}
        session.stat_cache.save()
    return session, keys


def figures_of(settings: ProjectSettings, stage: str) -> dict[str, Any]:
    """Brings a whole-corpus stage up to date and returns its ``figures.json``."""
    session, keys = fetch(settings, stage)
    ((_, key),) = keys[stage]
    figures: dict[str, Any] = session.roots.private_files(stage, key).json(FIGURES)
    return figures
