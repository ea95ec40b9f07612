"""Locations of the models that options of policies name: folders, and the local cache of the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.pretrained import folder_files, hub_commit, hub_folder


def identity_of(field: str, name: str | None, revision: str | None) -> dict[str, Any]:
    """Returns the part of keys that identifies a model, in addition to its files. It does not contain a path."""
    if name is None:
        return {}
    if Path(name).is_absolute():
        return {field: "a folder"}  # whose files count by content
    return {f"{field}_commit": hub_commit(name, revision)}


def files_of(name: str | None) -> tuple[str, ...]:
    """Returns the files of a model in a folder and its inner folders. A hub model has no such files."""
    if name is None or not Path(name).is_absolute():
        return ()
    inner = sorted(path for path in Path(name).rglob("*") if path.is_file() and path.parent != Path(name))
    return tuple(map(str, [*folder_files(Path(name)), *inner]))


def location_of(field: str, name: str, revision: str | None) -> tuple[str, str | None]:
    """Returns a folder, or the name and commit of a hub model, without network access.

    Raises:
        ConfigError: there is no such folder, the local cache has no such model, or a folder has a revision.
    """
    if Path(name).is_absolute():
        if revision is not None:
            raise ConfigError(f"redact.{field}_revision belongs to a model on the hub, and to no folder")
        if not Path(name).is_dir():
            raise ConfigError(f"redact.{field}: there is no folder where it says")
        return name, None
    commit = hub_commit(name, revision)
    if commit is None:
        which = "" if revision is None else f" --revision {revision}"
        raise ConfigError(
            f"redact.{field}: {name!r} is not in the local Hugging Face cache{f' at {revision}' if revision else ''}, "
            f"and redaction asks no network; fetch it once with `hf download {name}{which}`, or name a folder"
        )
    return name, commit


def folder_of(field: str, name: str, revision: str | None) -> Path:
    """Returns the folder of a model, which is in the local cache for a hub model. Raises as `location_of`."""
    location, commit = location_of(field, name, revision)
    return Path(location) if commit is None else hub_folder(name, commit) or Path(location)
