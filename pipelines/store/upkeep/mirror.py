"""A copy of the public root on object storage, for readers on other machines (`store.mirror_url`, by fsspec).

The store itself stays on disks, because object storage has no locks and cannot rename in one step. Only published
artifacts are copied, below names that never change. ``latest.json`` goes last. It lists the files of ``latest/``, and
the digest of every file. Files that left the public root are removed from the copy too. Models stay in both.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pipelines.context import Progress, silent
from pipelines.errors import ConfigError, StoreError
from pipelines.files import encode_json
from pipelines.store.objects.anchors import release_stages
from pipelines.store.objects.manifest import MANIFEST, load
from pipelines.store.place import versions
from pipelines.store.place.disk import sha256_file
from pipelines.store.place.locks import key_lock, store_lock
from pipelines.store.place.roots import Roots

LATEST: Final = "latest.json"
_LOCK: Final = "mirror"
_WITHOUT_FOLDERS: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oci", "oss", "hf"})
_COPYING: Final = "copying published files"


@dataclass(frozen=True, kw_only=True)
class Mirrored:
    """The result of a copy.

    Attributes:
        num_copied, num_removed: number of artifacts whose files were copied, or that were removed from the copy.
        num_bytes: size of the copied files.
    """

    num_copied: int
    num_removed: int
    num_bytes: int


def require_protocol(url: str) -> None:
    """Refuses a mirror whose protocol is not installed. Does not connect.

    Raises:
        ConfigError: fsspec, or its package for the protocol, is not installed.
    """
    _Place(url)


def mirror(roots: Roots, url: str, progress: Progress = silent) -> Mirrored:
    """Makes the folder at ``url`` a copy of the published artifacts. Files that are there already are not copied again.

    Raises:
        ConfigError: the package for the protocol is not installed.
        StoreError: the folder cannot be read or written, belongs to another store, or a published file is damaged.
    """
    place = _Place(url)
    with store_lock(roots.private), key_lock(roots.locks, _LOCK):
        place.require_own(_name_of(roots))
        published = _published(roots)
        num_copied = num_bytes = 0
        for number, (name, files) in enumerate(published.items()):
            copied = _copy(place, roots.public, name, files)
            num_copied, num_bytes = num_copied + (copied > 0), num_bytes + copied
            progress(number + 1, len(published), _COPYING)
        place.write(LATEST, encode_json(_latest(roots, published)))
        kept = release_stages()
        gone = [name for name in place.artifacts() if name not in published and name.split("/")[1] not in kept]
        for name in gone:
            place.remove(name)
    return Mirrored(num_copied=num_copied, num_removed=len(gone), num_bytes=num_bytes)


def _name_of(roots: Roots) -> str:
    """Returns a name that differs between stores and reveals nothing about the secret."""
    return hmac.new(roots.secret, b"mirror of the public root", hashlib.sha256).hexdigest()[:32]


Files = Mapping[str, Mapping[str, Any]]
"""The size and digest of each file, by its path below an artifact's public folder."""


def _published(roots: Roots) -> dict[str, Files]:
    """Returns whole artifacts in the public root, by the path of their folder below it."""
    artifacts: dict[str, Files] = {}
    for path in sorted((roots.public / "objects").glob(f"*/*/{MANIFEST}")):
        stage, key = path.parent.parent.name, path.parent.name
        if (manifest := load(roots, stage, key)) is not None:
            files = {f.removeprefix("public/"): e for f, e in manifest.files.items() if f.startswith("public/")}
            artifacts[f"objects/{stage}/{key}"] = files
    return artifacts


def _copy(place: _Place, public: Path, name: str, files: Files) -> int:
    """Copies an artifact's missing files, its manifest last, and returns the number of copied bytes.

    A file of the same size counts as copied. It is not read again, because that would be as much traffic as copying it,
    every night. Readers compare digests, which ``latest.json`` lists.
    """
    own = (public / name / MANIFEST).read_bytes()
    is_known = place.read(f"{name}/{MANIFEST}") == own
    there = place.sizes(name) if is_known else {}
    wanted = {file: entry for file, entry in files.items() if there.get(file) != int(entry["size"])}
    if is_known and not wanted:
        return 0
    for file, entry in sorted(wanted.items()):
        path = f"{name}/{file}"
        if not (public / path).is_file() or sha256_file(public / path) != entry["sha256"]:
            raise StoreError(f"{path} of the public root is damaged; `reticent verify --repair`, then run again")
        place.copy(public / path, path)
    place.write(f"{name}/{MANIFEST}", own)
    return len(own) + sum(int(entry["size"]) for entry in wanted.values())


def _latest(roots: Roots, published: Mapping[str, Files]) -> dict[str, Any]:
    files = {f"{name}/{file}": entry for name, own in published.items() for file, entry in own.items()}
    views = {
        link.name: shown
        for link in sorted((roots.public / "latest").iterdir())
        if (shown := [path for path in _shown(roots, link) if path in files])
    }
    return {"schema_version": versions.MIRROR, "store": _name_of(roots), "views": views, "files": files}


def _shown(roots: Roots, link: Path) -> Iterator[str]:
    """Yields the paths, below the public root, of the files behind a link of ``latest/``, sorted by name.

    A link that leads out of the public root shows nothing: its target is not read.
    """
    public, shown = roots.public.resolve(), link.resolve()
    for path in sorted(shown.rglob("*")) if shown.is_relative_to(public) else ():
        if path.is_file() and (target := path.resolve()).is_relative_to(public):
            yield target.relative_to(public).as_posix()


class _Place:
    """A folder on some storage. Errors name only their type, because their messages may quote credentials."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec import get_filesystem_class
            from fsspec.core import url_to_fs
        except ImportError:
            raise ConfigError("store.mirror_url needs fsspec; install reticent[object-storage]") from None
        self._scheme = scheme = urlsplit(url).scheme
        try:
            get_filesystem_class(scheme)
        except ImportError:
            raise ConfigError(
                f"store.mirror_url: {scheme}:// needs a package of fsspec that is not installed (s3fs, gcsfs, adlfs, …)"
            ) from None
        except ValueError:
            raise ConfigError(f"store.mirror_url: fsspec knows no protocol {scheme}://") from None
        try:
            with _reaching(ValueError):
                # Listings are not remembered: another machine may have written since.
                self._system, root = url_to_fs(url, use_listings_cache=False)
        except ValueError:
            raise ConfigError(
                f"store.mirror_url: the package of {scheme}:// lacks something that it needs, such as an account or a "
                "connection string; it reads them from the environment (adlfs: AZURE_STORAGE_CONNECTION_STRING, or "
                "AZURE_STORAGE_ACCOUNT_NAME and a key)"
            ) from None
        self._root = root.rstrip("/")

    def require_own(self, name: str) -> None:
        """Refuses a folder with another store's copy, or with other files.

        Raises:
            StoreError: the folder is not this store's.
        """
        latest = self.read(LATEST)
        if latest is None:
            return
        try:
            other = json.loads(latest)["store"]
        except (ValueError, KeyError, TypeError):
            other = None
        if other != name:
            raise StoreError(
                f"store.mirror_url: the {LATEST} there is not of this store; choose another folder, or empty that one"
            )

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError), _reaching(FileNotFoundError):
            return bytes(self._system.cat_file(self._at(name)))
        return None

    def write(self, name: str, data: bytes) -> None:
        with _reaching():
            self._make_folder(name)
            self._system.pipe_file(self._at(name), data)

    def copy(self, source: Path, name: str) -> None:
        with _reaching():
            self._make_folder(name)
            self._system.put_file(str(source), self._at(name))

    def sizes(self, name: str) -> dict[str, int]:
        """Returns the sizes of the files below a folder, by their paths below it."""
        files: Mapping[str, Any] = {}
        with suppress(FileNotFoundError), _reaching(FileNotFoundError):
            files = self._system.find(self._at(name), detail=True)
        start = f"{self._at(name)}/"
        return {path.removeprefix(start): int(about["size"]) for path, about in files.items() if path.startswith(start)}

    def artifacts(self) -> list[str]:
        """Returns the folders of the form ``objects/STAGE/KEY``, whole or not."""
        files: Sequence[str] = ()
        with suppress(FileNotFoundError), _reaching(FileNotFoundError):
            files = self._system.find(self._at("objects"))
        at = re.compile(re.escape(self._root) + r"/(objects/[a-z0-9_]+/[0-9a-f]+)/")
        return sorted({match[1] for path in files if (match := at.match(path))})

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError), _reaching(FileNotFoundError):
            self._system.rm(self._at(name), recursive=True)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _make_folder(self, name: str) -> None:
        """Makes a file's folder. Not on object storage, where fsspec would make the bucket."""
        if self._scheme in _WITHOUT_FOLDERS:
            return
        self._system.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)


@contextmanager
def _reaching(*others: type[Exception]) -> Iterator[None]:
    """Makes an error of the storage one of ours. The caller deals with the kinds of errors in ``others``."""
    try:
        yield
    except others:
        raise
    except Exception as error:
        raise StoreError(
            f"the copy at store.mirror_url could not be made ({type(error).__name__}); the store itself is as it was, "
            "and what was copied is kept: `reticent mirror` goes on"
        ) from None
