"""``reticent export``: copies files of the private root without encryption, for the trusted side."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.commands.inspect import tables_of
from flows.running.spec import open_store
from pipelines.errors import ConfigError, DamagedFileError, StoreError
from pipelines.files import copy_file
from pipelines.settings.loading import load_settings
from pipelines.store.place.disk import remove_tree
from pipelines.store.place.locks import store_lock
from pipelines.store.place.roots import Roots, private_umask


def export_document(config: Path, environ: Mapping[str, str], name: str, out: Path) -> dict[str, Any]:
    """Copies a table, a folder of ``latest/``, or any file or folder of the private root without encryption.

    The copy appears complete or not at all.

    Returns:
        A dictionary of ``exported`` (paths in the private root), ``out`` and ``num_files``.

    Raises:
        ConfigError: nothing has that name, or ``out`` exists or is in the store.
        StoreError: a file is damaged.
    """
    roots = open_store(load_settings(config, environ), create=False)
    out = out_path(roots, out)
    with store_lock(roots.private), private_umask():
        sources = _sources(roots, name)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            made = work / "whole"
            if len(sources) == 1:
                num_files = _copy(sources[0], made)
            else:
                made.mkdir()
                num_files = sum(_copy(source, made / source.name) for source in sources)
            made.rename(out)
        except DamagedFileError:
            raise StoreError(
                f"a file of {name} is damaged, so nothing was exported; `reticent verify` names the file"
            ) from None
        finally:
            remove_tree(work)
    return {"exported": [str(source) for source in sources], "out": str(out), "num_files": num_files}


def export_text(document: Mapping[str, Any]) -> str:
    """Formats the document for people."""
    return (
        f"wrote {document['out']}: {document['num_files']} unencrypted files from the private root. They hold private "
        "data, and Reticent neither encrypts nor deletes them there"
    )


def out_path(roots: Roots, out: Path) -> Path:
    """Checks that a file or folder can be created outside of the store, and returns its absolute path.

    Raises:
        ConfigError: it exists already, is in the store, or its parent is missing.
    """
    out = out.absolute()
    for root in (roots.private, roots.public):
        if out.resolve().is_relative_to(root.resolve()):
            raise ConfigError("--out is in the store; choose a place outside of it")
    if out.exists() or out.is_symlink():
        raise ConfigError(f"--out {out} exists already; choose another name")
    if not out.parent.is_dir():
        raise ConfigError(f"--out: the folder {out.parent} does not exist; create it")
    return out


def _sources(roots: Roots, name: str) -> list[Path]:
    path = Path(name)
    latest = roots.private / "latest"
    if len(path.parts) > 1:
        path = (roots.private / path).resolve()
        if not path.is_relative_to(roots.private.resolve()) or not path.exists():
            raise ConfigError(f"{name} is no file or folder below the private root {roots.private}")
        return [path]
    if (latest / name).exists():
        return [latest / name]
    if (roots.public / "latest" / name).exists():
        raise ConfigError(f"{name} is public and unencrypted: copy it from {roots.public / 'latest' / name}")
    try:
        tables = tables_of(name)
    except ConfigError:
        if not (roots.private / name).exists():
            raise
        return [roots.private / name]
    found = [latest / table.name for table in tables if table.root == "private"]
    if missing := [path.name for path in found if not path.exists()]:
        raise ConfigError(f"table {missing[0]} was not built yet; run `reticent run` first")
    if not found:
        raise ConfigError(f"{name} has no private table; its public ones are in {roots.public / 'latest'}, unencrypted")
    return found


def _copy(source: Path, target: Path) -> int:
    """Copies a file, or a folder with the targets of its links, and returns the number of files."""
    if source.is_file():
        copy_file(source, target)
        return 1
    target.mkdir()
    return sum(_copy(path, target / path.name) for path in sorted(source.iterdir()))
