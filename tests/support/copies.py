"""Copies of finished projects to work on. To the store a copy would be a second one that spends."""

from __future__ import annotations

import shutil
from pathlib import Path

from flows.running.spec import open_store
from pipelines.files import read_json
from pipelines.settings.loading import load_settings
from pipelines.store.place.location import MARKER
from pipelines.store.place.seals import SEAL, write_sealed


def copied(project: Path, target: Path) -> Path:
    """Copies a project whose store then lives in the copy, as one of a version that did not note where it lives."""
    shutil.copytree(project, target, symlinks=True)
    roots = open_store(load_settings(target / "reticent.toml", {}), create=False)
    path = roots.private / "store.json"
    if path.exists():
        document = {name: value for name, value in read_json(path).items() if name not in (SEAL, "home")}
        write_sealed(path, document, "store", roots.secret)
        (roots.private / MARKER).unlink(missing_ok=True)
    return target
