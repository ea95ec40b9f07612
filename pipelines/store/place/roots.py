"""The two folders of a store: the private root, which may hold secrets, and the public root, which must not."""

from __future__ import annotations

import errno
import functools
import os
import pwd
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.artifacts import Source
from pipelines.encryption.sources import KeySource
from pipelines.errors import PrivacyGateError, StoreError
from pipelines.files import read_file, write_first
from pipelines.stage import Root
from pipelines.store.place.identity import check_identity, read_identity
from pipelines.store.place.unlocking import unlock, use_secret

REBUILDABLE = "made_again"
"""The folder of `Roots.cache` for files that stages can make again (`pipelines.context.Output.cache`)."""
RENDEZVOUS = "trainings"
"""The folder of `Roots.cache` through which machines that train together find each other."""
SAMPLE_EXAMPLES = "first_look"
"""The folder of the private root where ``reticent run --sample`` writes examples."""
_SECRET_BYTES = 32
_METADATA_FOLDERS = ("manifests", "locks", "quarantine", "runs", "cache", "failures")


@dataclass(frozen=True)
class Roots:
    """The two folders of a store. Both paths are absolute, and neither folder contains the other.

    Attributes:
        private, public: the folders.
        secret: secret of the store.
        state: folder of the user, outside the store, that keeps witnesses of ledgers (`store.place.location`).
    """

    private: Path
    public: Path
    secret: bytes = field(repr=False)
    state: Path | None = None

    def of(self, root: Root) -> Path:
        """Returns the folder of a root."""
        return self.private if root == "private" else self.public

    def shown_here(self, outputs: Mapping[str, str]) -> dict[str, str]:
        """Returns the present paths of a run's outputs below a ``latest``. The store may have moved since the run."""
        present = dict(outputs)
        for name, path in outputs.items():
            head, latest, rest = path.rpartition("/latest/")
            for root in (self.private, self.public):
                if latest and Path(head).name == root.name and self.private.name != self.public.name:
                    present[name] = str(root / "latest" / rest)
        return present

    def object_dir(self, root: Root, stage: str, key: str) -> Path:
        """Returns the folder of a published artifact's files in one root."""
        return self.of(root) / "objects" / stage / key

    def private_files(self, stage: str, key: str) -> Source:
        """Returns a reader of the private files of a published artifact."""
        return Source(folder=self.object_dir("private", stage, key))

    def work_dir(self, root: Root, key: str) -> Path:
        """Returns the folder in which an artifact is built. It belongs to the holder of the key's lock."""
        return self.of(root) / "work" / key

    def manifest_path(self, stage: str, key: str) -> Path:
        """Returns the path of the joint manifest. An artifact exists if and only if this file does."""
        return self.private / "manifests" / stage / f"{key}.json"

    @property
    def locks(self) -> Path:
        """Folder of the key locks."""
        return self.private / "locks"

    @property
    def quarantine(self) -> Path:
        """Folder of damaged artifacts, kept for inspection."""
        return self.private / "quarantine"

    @property
    def runs(self) -> Path:
        """Folder of the run specifications and records."""
        return self.private / "runs"

    @property
    def cache(self) -> Path:
        """Folder of digest caches and of `REBUILDABLE` files. It is safe to delete."""
        return self.private / "cache"


def make_readable(folder: Path) -> None:
    """Makes a folder of the public root that everyone can read, or opens an existing one, whatever the umask."""
    folder.mkdir(exist_ok=True)
    _set_mode(folder, 0o755)


def make_closed(folder: Path) -> None:
    """Makes a folder that only its owner can enter, for files that are not published."""
    folder.mkdir(mode=0o700, exist_ok=True)
    _set_mode(folder, 0o700)


def _set_mode(folder: Path, mode: int) -> None:
    status = folder.stat()
    if stat.S_IMODE(status.st_mode) != mode and status.st_uid == os.geteuid():
        try:
            folder.chmod(mode)
        except OSError as error:
            if error.errno != errno.EROFS:  # `reticent plan` still works on a read-only store
                raise


def _make_public(folder: Path) -> None:
    """Makes the public root and its missing parents. Existing folders keep the mode that their owner chose."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        make_readable(path)
    for name in ("objects", "views", "latest"):
        make_readable(folder / name)
    make_closed(folder / "work")


def _require_own(private: Path) -> None:
    """Refuses a private root that belongs to another user. Files written there would lock its owner out.

    Raises:
        PrivacyGateError: the root belongs to another user, or this user may not read its folder.
    """
    try:
        status = private.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError:
        raise PrivacyGateError(
            f"the private root {private} is closed to this user; run as the user whose store it is, or choose another "
            "folder with store.private_root"
        ) from None
    user = os.geteuid()
    # Some network disks show another owner than the user who made the folder. A user with full access counts as owner.
    if status.st_uid != user and (user == 0 or not os.access(private, os.R_OK | os.W_OK | os.X_OK)):
        raise PrivacyGateError(
            f"the private root {private} belongs to another user ({_user_name(status.st_uid)}); run as that user, or "
            "choose another folder with store.private_root"
        )


def _user_name(user: int) -> str:
    try:
        return f"{pwd.getpwuid(user).pw_name}, id {user}"
    except KeyError:
        return f"id {user}"


def _close(private: Path) -> None:
    if stat.S_IMODE(private.stat().st_mode) & 0o077 and private.stat().st_uid == os.geteuid():
        private.chmod(0o700)
    if stat.S_IMODE(private.stat().st_mode) & 0o077:
        raise PrivacyGateError(
            f"the private root {private} can be read by others and does not belong to this user; "
            "give it mode 0700 or choose another folder with store.private_root"
        )


def _read_secret(path: Path) -> bytes:
    try:
        text = read_file(path).decode("ascii").strip()
        secret = bytes.fromhex(text)
    except FileNotFoundError:
        raise StoreError(f"the store's secret {path} is missing; restore it from a backup") from None
    except PermissionError:
        raise StoreError(f"the store's secret {path} cannot be read by this user; change its owner or mode") from None
    except (OSError, ValueError):
        raise StoreError(f"the store's secret {path} is not hexadecimal text; restore it from a backup") from None
    if len(secret) < 16:
        raise StoreError(f"the store's secret {path} is shorter than 16 bytes; restore it from a backup")
    return secret


def open_roots(
    private: Path,
    public: Path,
    secret_file: Path | None = None,
    *,
    create: bool = True,
    is_checked: bool = True,
    store_key: KeySource | None = None,
    state: Path | None = None,
) -> Roots:
    """Opens a store.

    Args:
        private, public: the two root folders.
        secret_file: file of a hexadecimal secret that stores share, so that their keys and doc ids agree. By default a
            fresh secret is drawn and kept in the private root with mode 0600.
        create: true to make what is missing. Otherwise nothing is written, and a missing store looks empty.
        is_checked: true to compare the store with its secret. False only to acknowledge damage to just that.
        store_key: source of the key of an encrypted store (see `unlock`).
        state: see `Roots`.

    Raises:
        ConfigError: the store is encrypted and the key is not its own, or it is not encrypted and a key is named.
        PrivacyGateError: the private root is another user's or readable by others, the roots overlap, or the secret or
            ``store.json`` is not what the store was made with.
        StoreError: a folder cannot be written, or the store is damaged or has another layout version.
    """
    private, public = (Path(os.path.abspath(root)) for root in (private, public))  # noqa: PTH100  (drops ..)
    real_private, real_public = private.resolve(), public.resolve()
    if real_private == real_public or real_private in real_public.parents or real_public in real_private.parents:
        raise PrivacyGateError(
            f"the private root {private} and the public root {public} must not overlap; choose two folders beside each "
            "other with store.private_root and store.public_root"
        )
    _require_own(private)
    secret = secret_file or private / "secret"
    try:
        if create:
            _make_public(public)  # first, or parents of both roots would be closed
            private.mkdir(parents=True, exist_ok=True, mode=0o700)
        if private.is_dir():
            _close(private)
        unlock(private, store_key, create=create)
        if create:
            for name in ("objects", "work", "views", "latest", *_METADATA_FOLDERS):
                (private / name).mkdir(exist_ok=True)
        is_store = private.is_dir() and read_identity(private) is not None  # raises where it cannot be read
        if secret_file is None and private.is_dir() and not secret.exists():
            if is_checked and (is_store or any((private / "manifests").glob("*/*.json"))) and not secret.exists():
                raise PrivacyGateError(  # looked for twice: another process may have made both just now
                    f"the store's secret {secret} is missing; put it back from a backup, or name its file with "
                    "store.secret_file if it is shared"
                )
            if create:
                write_first(secret, secrets.token_hex(_SECRET_BYTES).encode() + b"\n")
        if is_checked and private.is_dir() and secret.exists():
            check_identity(private, _read_secret(secret), create=create)
    except OSError as error:
        raise StoreError(f"the store in {private} cannot be written: {error.strerror}") from None
    is_none = not create and secret_file is None and not secret.exists()
    roots = Roots(private, public, _secret_of_no_store() if is_none else _read_secret(secret), state)
    use_secret(private, roots.secret)
    return roots


@functools.cache
def _secret_of_no_store() -> bytes:
    """Returns a secret for the names of partitions before there is a store. Nothing keeps such a name."""
    return secrets.token_bytes(_SECRET_BYTES)


@contextmanager
def private_umask() -> Iterator[None]:
    """Makes files inside the ``with`` block readable by their owner only."""
    old = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(old)
