"""Artifacts that cells share (models, corpora), in a work folder, under a key of their contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DONE = "cached.json"


def content_key(made_from: Mapping[str, Any]) -> str:
    """Returns a key that is equal for equal contents, on every machine."""
    text = json.dumps(made_from, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cached(parent: Path, key: str, make: Callable[[Path], Mapping[str, Any] | None]) -> Path | None:
    """Returns the folder of an artifact, which is made if it is missing; None while it is not complete.

    Args:
        parent: folder of the artifacts of its kind.
        key: content key of the artifact.
        make: function that fills the folder and returns its document, or None if the folder is not complete; the next
            call continues.
    """
    folder = (parent / key).absolute()
    if not (folder / DONE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        about = make(folder)
        if about is None:
            return None
        write_json(folder / DONE, about)
    return folder


def write_json(path: Path, content: Any) -> None:
    """Writes a file as a whole, so that a kill leaves the old file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    new.replace(path)
