"""The two folders of a store: the private root, where secrets may be, and the public root, where none may be."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import PrivacyGateError, StoreError
from pipelines.graph import Root
from pipelines.store.files import read_json, write_atomic, write_json

SCHEMA_VERSION = 1
MADE_AGAIN = "made_again"
"""The folder of `Roots.cache` that stages are handed (`pipelines.context.StageContext.cache_dir`)."""
_SECRET_BYTES = 32


@dataclass(frozen=True)
class Roots:
    """Where a store lives. Both folders are absolute and neither contains the other."""

    private: Path
    public: Path
    secret: bytes

    def of(self, root: Root) -> Path:
        """The folder of a root."""
        return self.private if root == "private" else self.public

    def object_dir(self, root: Root, stage: str, key: str) -> Path:
        """Where a published artifact's files of one root are."""
        return self.of(root) / "objects" / stage / key

    def work_dir(self, root: Root, key: str) -> Path:
        """Where an artifact is built; owned by the holder of the key's lock."""
        return self.of(root) / "work" / key

    def manifest_path(self, stage: str, key: str) -> Path:
        """The joint manifest: an artifact exists if and only if this file does."""
        return self.private / "manifests" / stage / f"{key}.json"

    @property
    def locks(self) -> Path:
        """Folder of the key locks."""
        return self.private / "locks"

    @property
    def quarantine(self) -> Path:
        """Folder of damaged artifacts, kept for a look."""
        return self.private / "quarantine"

    @property
    def runs(self) -> Path:
        """Folder of the run specifications and records."""
        return self.private / "runs"

    @property
    def cache(self) -> Path:
        """Folder of digest caches, and of what stages can make again (`MADE_AGAIN`); safe to delete."""
        return self.private / "cache"


def _make_private(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077 and folder.stat().st_uid == os.geteuid():
        folder.chmod(0o700)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        raise PrivacyGateError(
            f"the private root {folder} can be read by others and does not belong to this user; "
            "give it mode 0700 or choose another folder with store.private_root"
        )


def _read_secret(path: Path) -> bytes:
    try:
        text = path.read_text("ascii").strip()
        secret = bytes.fromhex(text)
    except (OSError, ValueError):
        raise StoreError(f"the store's secret {path} cannot be read as hexadecimal text") from None
    if len(secret) < 16:
        raise StoreError(f"the store's secret {path} is shorter than 16 bytes")
    return secret


def open_roots(private: Path, public: Path, secret_file: Path | None = None) -> Roots:
    """Opens a store, creating it on first use.

    Args:
        private, public: the two root folders.
        secret_file: hexadecimal secret shared between stores, so that their keys and doc ids agree; by default a
            fresh one is drawn and kept in the private root with mode 0600.

    Raises:
        PrivacyGateError: the private root is readable by others, or the roots overlap.
        StoreError: a folder cannot be written, or the store has another layout version.
    """
    private, public = (Path(os.path.abspath(root)) for root in (private, public))  # noqa: PTH100  (drops ..)
    real_private, real_public = private.resolve(), public.resolve()
    if real_private == real_public or real_private in real_public.parents or real_public in real_private.parents:
        raise PrivacyGateError(f"the private root {private} and the public root {public} must not overlap")
    try:
        _make_private(private)
        for root in (private, public):
            for name in ("objects", "work", "views", "latest"):
                (root / name).mkdir(parents=True, exist_ok=True)
        for name in ("manifests", "locks", "quarantine", "runs", "cache", "failures"):
            (private / name).mkdir(exist_ok=True)
        layout = private / "store.json"
        if (found := read_json(layout)) is None:
            write_json(layout, {"schema_version": SCHEMA_VERSION})
        elif found.get("schema_version") != SCHEMA_VERSION:
            raise StoreError(f"{layout} has layout {found.get('schema_version')}, this version reads {SCHEMA_VERSION}")
        path = secret_file or private / "secret"
        if not path.exists() and secret_file is None:
            _create_secret(path)
    except OSError as error:
        raise StoreError(f"the store in {private} cannot be written: {error.strerror}") from None
    return Roots(private, public, _read_secret(path))


def _create_secret(path: Path) -> None:
    temporary = path.with_name(f"secret.{os.getpid()}")
    write_atomic(temporary, secrets.token_hex(_SECRET_BYTES).encode() + b"\n")
    try:
        os.link(temporary, path)  # fails if another process was first: its secret counts
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


@contextmanager
def private_umask() -> Iterator[None]:
    """Files made inside are readable by their owner only."""
    old = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(old)
