"""``reticent rotate-key``: gives an encrypted store another key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.running.spec import open_store
from pipelines.encryption.ring import WrongKeyError, open_ring
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, DamagedFileError, StoreError
from pipelines.files import read_json
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.store.place.rotation import rotate
from pipelines.store.place.unlocking import ring_path


def rotate_document(
    config: Path, environ: Mapping[str, str], *, file: Path | None, env: str | None, reencrypt: bool
) -> dict[str, Any]:
    """Gives the store of the settings another key (`pipelines.store.place.rotation.rotate`).

    Raises:
        ConfigError: neither or both are given, the store is not encrypted, or a key cannot be read.
        StoreError: a run is using the store, or a file is damaged.
    """
    if (file is None) == (env is None):
        raise ConfigError("name the new key with --new-key-file or --new-key-env")
    settings = load_settings(config, environ)
    new = KeySource(env=env) if file is None else KeySource(file=str(file.absolute()))
    try:
        roots = open_store(settings, create=False)
    except WrongKeyError:
        if not _opens(settings, new):
            raise
        raise ConfigError(
            "the store has the new key already. Name it in [store]. If --reencrypt was interrupted, run the command "
            "again after that, with the same key"
        ) from None
    try:
        done = rotate(roots, settings.store_key(), new, reencrypt=reencrypt)
    except DamagedFileError:
        raise StoreError(
            "a file is damaged, so not every file was encrypted again; the new key opens all of them. Run `reticent "
            "verify --repair` to take the damaged file out of use, then rotate again"
        ) from None
    return {**done, "reencrypted": reencrypt}


def _opens(settings: ProjectSettings, key: KeySource) -> bool:
    """Checks if a key is the store's present key."""
    try:
        open_ring(read_json(ring_path(settings.roots()[0])), key.read())
    except WrongKeyError:
        return False
    return True


def rotate_text(document: Mapping[str, Any]) -> str:
    """Formats the result for people."""
    sealed = f"; {document['num_files']} files were encrypted again" if document["reencrypted"] else ""
    return f"the store has the new key{sealed}. Name it in [store] now. Earlier back-ups need the old key"
