"""``reticent mirror``: copies the published files to object storage. Every run that publishes ends with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flows.running.mirroring import mirror_published
from pipelines.context import Progress, silent
from pipelines.errors import ConfigError
from pipelines.settings.loading import load_settings


def mirror_document(config: Path, environ: Mapping[str, str], progress: Progress = silent) -> dict[str, int]:
    """Mirrors the published files, and returns counts of copied and removed ones.

    Raises:
        ConfigError: the settings name no mirror.
        StoreError: see `pipelines.store.upkeep.mirror.mirror`.
    """
    done = mirror_published(load_settings(config, environ), progress)
    if done is None:
        raise ConfigError("store.mirror_url is not set; give it a URL such as s3://bucket/folder")
    return vars(done).copy()


def mirror_text(document: Mapping[str, int]) -> str:
    """Formats the counts for people."""
    return (
        f"copied {document['num_copied']} artifacts, {document['num_bytes'] / 1e6:.1f} MB; removed "
        f"{document['num_removed']} that are no longer published"
    )
