"""A released folder: a manifest of its files, and a signature that anybody can check without the store.

``release.json`` lists every other file with its size and SHA-256. ``release.sig`` is the Ed25519 signature over its
bytes, and ``release.pem`` is the public key that checks it. Other tools can check it as well::

    openssl pkeyutl -verify -pubin -inkey release.pem -rawin -in release.json -sigfile release.sig
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pipelines.errors import ConfigError
from pipelines.files import encode_json
from pipelines.signatures import fingerprint_of, is_signed, public_pem, read_public_key

SCHEMA_VERSION: Final = 1
MANIFEST: Final = "release.json"
SIGNATURE: Final = "release.sig"
PUBLIC_KEY: Final = "release.pem"
OWN: Final = (MANIFEST, SIGNATURE, PUBLIC_KEY)
"""Files that carry the signature. The manifest lists all other files."""
OF_THE_HUB: Final = (".git", ".gitattributes", ".cache")
"""Entries that git and the hub's client put into a folder. No loader reads them, so they are not compared."""
MOST_ENTRIES: Final = 100_000
"""Largest number of files, folders and other entries."""
MOST_FOLDERS_DEEP: Final = 32
MOST_MANIFEST_BYTES: Final = 1 << 25
MOST_BYTES: Final = 1 << 38
"""Largest total size of all files."""
_MOST_KEY_BYTES: Final = 1 << 12
_PART_BYTES: Final = 1 << 20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK: Final = "a link, which may lead out of the folder"
_NO_FILE: Final = "neither a file nor a folder"


def sign_folder(folder: Path, about: Mapping[str, Any], key: Ed25519PrivateKey) -> str:
    """Writes manifest, signature and public key of a finished folder, and returns the key's fingerprint.

    Raises:
        ConfigError: the folder holds something other than regular files and folders, or too many of them.
    """
    fingerprint = fingerprint_of(key.public_key())
    with _descriptor(folder) as root:
        tree = _tree(root)
        if tree.refused:
            name, why = min(tree.refused.items())
            raise ConfigError(f"{name} of the folder to sign is refused: {why}")
        files = {name: _entry(root, name) for name in sorted(tree.files - set(OWN))}
    document = {"schema_version": SCHEMA_VERSION, **about, "signed_by": fingerprint, "files": files}
    data = encode_json(document)
    (folder / MANIFEST).write_bytes(data)
    (folder / SIGNATURE).write_bytes(key.sign(data))
    (folder / PUBLIC_KEY).write_bytes(public_pem(key))
    return fingerprint


def verify_folder(folder: Path) -> dict[str, Any]:
    """Compares a folder with its manifest, and the manifest with its signature.

    Opens only regular files, follows no link, and reads no more than the manifest states. So the folder's maker can
    neither make the check read without end nor lead it out of the folder.

    Returns:
        A dictionary of ``missing``, ``added`` and ``changed`` (names of files); ``refused`` (reasons by name, for
        entries that are not regular files or cannot be read); ``num_files`` in the manifest; ``signed_by`` (fingerprint
        of the key that signed the manifest; None without a valid signature); ``problem`` (of the signature, or None);
        ``about`` (the manifest's other fields); and ``is_whole`` (true if nothing differs or is refused, and the
        signature fits).

    Raises:
        ConfigError: the folder holds no release, or a release of a version that this program does not read.
    """
    with _descriptor(folder) as root:
        return _verify(root)


def _verify(root: int) -> dict[str, Any]:
    tree = _tree(root)
    for name in OWN:
        if name in tree.refused:
            raise ConfigError(
                f"there is no release in that folder: {name} is refused because it is {tree.refused[name]}"
            )
    if MANIFEST not in tree.files:
        why = tree.refused.get(".", f"it has no {MANIFEST}")
        raise ConfigError(f"there is no release in that folder: {why}")
    try:
        data = _small(root, MANIFEST, MOST_MANIFEST_BYTES)
        problem, key = _signature_problem(root, tree.files, data)
    except OSError as error:
        raise ConfigError(f"there is no release in that folder: a file of it {_cannot_be_read(error)}") from None
    try:
        document = json.loads(data)
        listed = {str(name): (entry["size"], entry["sha256"]) for name, entry in document["files"].items()}
        version, stated = document["schema_version"], document["signed_by"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        document, listed, version, stated = {}, {}, SCHEMA_VERSION, None
        problem = problem or f"{MANIFEST} is not a manifest"
    if problem is None and version != SCHEMA_VERSION:
        raise ConfigError(
            f"{MANIFEST} has version {version!a}, and this reticent reads version {SCHEMA_VERSION}; check the folder "
            "with the version that wrote it"
        )
    signed_by = None if key is None or problem is not None else fingerprint_of(key)
    if signed_by is not None and stated != signed_by:
        signed_by, problem = None, f"{MANIFEST} names another key than the one that signed it"
    there = tree.files - set(OWN)
    refused, changed, num_bytes = dict(tree.refused), [], 0
    for name in sorted(there & listed.keys()):
        size, digest = listed[name]
        num_bytes += size if isinstance(size, int) and size > 0 else 0
        try:
            if num_bytes > MOST_BYTES:
                refused[name] = f"the files together are larger than {MOST_BYTES:,} bytes"
            elif tuple(_entry(root, name, size).values()) != (size, digest):
                changed.append(name)
        except OSError as error:
            refused[name] = _cannot_be_read(error)
    differs = {
        "missing": sorted(listed.keys() - there - refused.keys()),
        "added": sorted(there - listed.keys()),
        "changed": changed,
        "refused": dict(sorted(refused.items())),
    }
    return {
        **differs,
        "num_files": len(listed),
        "signed_by": signed_by,
        "problem": problem,
        "about": {name: value for name, value in document.items() if name not in ("files", "signed_by")},
        "is_whole": signed_by is not None and not any(differs.values()),
    }


def _signature_problem(root: int, found: Set[str], data: bytes) -> tuple[str | None, Ed25519PublicKey | None]:
    """Returns the reason why the manifest counts as unsigned (or None), and the folder's key."""
    if absent := [name for name in (SIGNATURE, PUBLIC_KEY) if name not in found]:
        return f"{absent[0]} is missing", None
    try:
        key = read_public_key(_small(root, PUBLIC_KEY, _MOST_KEY_BYTES))
    except ValueError:
        return f"{PUBLIC_KEY} is not an Ed25519 public key", None
    if not is_signed(data, _small(root, SIGNATURE, _MOST_KEY_BYTES), key):
        return f"{SIGNATURE} does not fit {MANIFEST} and {PUBLIC_KEY}: one of the three was changed", key
    return None, key


@dataclass
class _Tree:
    """The entries below a folder, found without opening files or following links.

    Attributes:
        files: relative paths of regular files
        refused: reasons for refusing other entries, by relative path
        num_entries: number of entries that were looked at
    """

    files: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    num_entries: int = 0


def _tree(root: int) -> _Tree:
    """Lists a folder, given by its descriptor, without entries of git and the hub's client."""
    tree = _Tree()
    try:
        _look(root, "", 0, tree)
    except OSError as error:
        tree.refused["."] = _cannot_be_read(error)
    return tree


def _look(folder: int, prefix: str, depth: int, tree: _Tree) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not prefix and entry.name in OF_THE_HUB:
                continue
            tree.num_entries += 1
            if tree.num_entries > MOST_ENTRIES:
                tree.refused[prefix or "."] = f"more than {MOST_ENTRIES:,} files: the rest was not looked at"
                return
            name = f"{prefix}{entry.name}"
            if entry.is_file(follow_symlinks=False):
                tree.files.add(name)
            elif not entry.is_dir(follow_symlinks=False):
                tree.refused[name] = _LINK if entry.is_symlink() else _NO_FILE
            elif depth == MOST_FOLDERS_DEEP:
                tree.refused[name] = f"folders lie in folders, more than {MOST_FOLDERS_DEEP} deep"
            else:
                _look_into(folder, entry.name, name, depth, tree)


def _look_into(folder: int, own_name: str, name: str, depth: int, tree: _Tree) -> None:
    try:
        below = os.open(own_name, _FOLDER, dir_fd=folder)
        try:
            _look(below, f"{name}/", depth + 1, tree)
        finally:
            os.close(below)
    except OSError as error:
        tree.refused[name] = _cannot_be_read(error)


@contextmanager
def _opened(root: int, name: str) -> Iterator[IO[bytes]]:
    """Opens a regular file below a folder. Never blocks and follows no link, even if a link was just put there.

    Raises:
        OSError: the entry is not a regular file, or cannot be read.
    """
    *folders, last = name.split("/")
    with ExitStack() as stack:
        at = root
        for folder in folders:
            at = os.open(folder, _FOLDER, dir_fd=at)
            stack.callback(os.close, at)
        file = stack.enter_context(open(os.open(last, _FILE, dir_fd=at), "rb"))  # noqa: PTH123  (a descriptor)
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, _NO_FILE)
        yield file


def _small(root: int, name: str, most_bytes: int) -> bytes:
    """Reads a file that is ours or claims to be. Raises `ConfigError` if the file is too large."""
    with _opened(root, name) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ConfigError(f"{name} is larger than {most_bytes:,} bytes: this is not a release of reticent")
    return data


def _entry(root: int, name: str, size: int | None = None) -> dict[str, Any]:
    """Returns size and digest of a file. Does not read a file whose size is unexpected."""
    with _opened(root, name) as file:
        found = os.fstat(file.fileno()).st_size
        if size is not None and found != size:
            return {"size": found, "sha256": ""}
        digest, num_read = hashlib.sha256(), 0
        while num_read <= found and (part := file.read(_PART_BYTES)):
            digest.update(part)
            num_read += len(part)
        return {"size": num_read, "sha256": digest.hexdigest()}


def _cannot_be_read(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"


@contextmanager
def _descriptor(folder: Path) -> Iterator[int]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be opened: {error.strerror}") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
