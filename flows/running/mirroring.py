"""Copies the public root at the end of a run (`store.mirror_url`)."""

from __future__ import annotations

from flows.running.spec import open_store
from pipelines.context import Progress, silent
from pipelines.settings.loading import ProjectSettings
from pipelines.store.upkeep.mirror import Mirrored, mirror


def mirror_published(settings: ProjectSettings, progress: Progress = silent) -> Mirrored | None:
    """Makes `store.mirror_url` a copy of the public root. Returns None if the settings name no mirror.

    Raises:
        ConfigError, StoreError: see `pipelines.store.upkeep.mirror.mirror`.
    """
    if settings.store.mirror_url is None:
        return None
    return mirror(open_store(settings), settings.store.mirror_url, progress)
