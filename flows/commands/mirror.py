"""``reticent mirror``: what is published, on object storage. Every run that is to be published ends with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flows.running.mirroring import mirror_published
from pipelines.context import Progress, silent
from pipelines.errors import ConfigError
from pipelines.settings.loading import load_settings


def mirror_document(config: Path, environ: Mapping[str, str], progress: Progress = silent) -> dict[str, int]:
    """What was copied and removed, as JSON.

    Raises:
        ConfigError: the settings name no place.
        StoreError: as `pipelines.store.upkeep.mirror.mirror`.
    """
    done = mirror_published(load_settings(config, environ), progress)
    if done is None:
        raise ConfigError("store.mirror_url is not set; give it a URL such as s3://bucket/folder")
    return vars(done).copy()


def mirror_text(document: Mapping[str, int]) -> str:
    """The same for people."""
    return (
        f"copied {document['num_copied']} artifacts, {document['num_bytes'] / 1e6:.1f} MB; removed "
        f"{document['num_removed']} that are not published any more"
    )
