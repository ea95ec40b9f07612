"""Artifacts that cells share (models, corpora), in a work folder, under a key of what they are made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DONE = "cached.json"


def content_key(made_from: Mapping[str, Any]) -> str:
    """Equal for equal contents, on every machine."""
    text = json.dumps(made_from, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cached(parent: Path, key: str, make: Callable[[Path], Mapping[str, Any] | None]) -> Path | None:
    """The folder of an artifact.

    Args:
        parent: of the folders of its kind.
        key: its content key.
        make: fills the folder and returns what is known of it, or None if it is not complete; called again, it goes on.

    Returns:
        The folder, or None while it is not complete.
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
    """Writes a file as a whole, so that a kill leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    new.replace(path)
