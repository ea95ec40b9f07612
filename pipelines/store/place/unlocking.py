"""Opens an encrypted store with its key before anything else in it is read, and recognises a store in plain.

A store is encrypted from its beginning, and as a whole. Its private root then holds the ring of keys
(`pipelines.encryption.ring`), sealed files, and empty files such as locks. A process that has opened the store reads
and writes plaintext through `pipelines.files`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pipelines.context import derived_key
from pipelines.encryption import places
from pipelines.encryption.places import FILE, Place
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, StoreError
from pipelines.files import encode_json, read_json, write_first

_KEYS: Final = "store.key_file, store.key_command or store.key_env"
_MADE_EARLY: Final = ("store.json", "secret")
"""The files that a store has from its beginning."""
_opened: dict[tuple[str, KeySource], Any] = {}
"""The ring's document that a key opened, by private root and source of the key."""


def ring_path(private: Path) -> Path:
    """Returns the path of the ring of keys of an encrypted store."""
    return private / FILE


def is_encrypted(private: Path) -> bool:
    """Returns True if a private root belongs to an encrypted store."""
    return ring_path(private).exists()


def in_plain(path: Path) -> list[str]:
    """Returns a line that says how to read an encrypted file that a command names; no line for a file in plain."""
    root = next((folder for folder in path.parents if is_encrypted(folder)), None)
    if root is None:
        return []
    return [f"  it is encrypted: `reticent export {path.relative_to(root).as_posix()} --out FILE` gives it in plain"]


def private_root_of(shown: Path) -> Path:
    """Returns the private root of a path below its ``latest``; for other paths, one that is no encrypted root."""
    return next((folder.parent for folder in shown.parents if folder.name == "latest"), shown)


def unlock(private: Path, source: KeySource | None, *, create: bool) -> None:
    """Makes the files of an encrypted private root readable in this process, and begins such a store if there is none.

    Args:
        private: the private root.
        source: source of the store key; None for a store in plain, or one that this process has opened before.
        create: true if a store may be begun.

    Raises:
        ConfigError: the key is missing, is no key, or is not this store's. Or the store is encrypted and no key is
            named, or the other way round.
        StoreError: the ring of keys is missing or damaged.
    """
    if not is_encrypted(private):
        _unlock_none(private, source, create=create)
        return
    if source is None:
        if places.place_of(private / "any") is None:
            raise ConfigError(f"the store in {private} is encrypted; name where its key is with {_KEYS}")
        return
    document = read_json(ring_path(private))
    if _opened.get((str(private), source)) != document or places.place_of(private / "any") is None:
        _enter(private, source, document)


def _unlock_none(private: Path, source: KeySource | None, *, create: bool) -> None:
    made = [private / name for name in _MADE_EARLY if (private / name).exists()]
    if any(_is_sealed(path) for path in made):
        raise StoreError(
            f"the ring of keys {ring_path(private)} is missing, and nothing of this encrypted store can be read "
            "without it; restore it from a backup of the private root"
        )
    if source is None:
        return
    if made:
        raise ConfigError(
            f"the store in {private} is not encrypted, and a key is named ({_KEYS}). A store is encrypted from its "
            "beginning: choose another folder with store.root and run there (see docs/encryption.md), or name no key"
        )
    store_key = source.read()  # read now, because a run without its key must not begin
    if create:
        from pipelines.encryption.ring import new_ring

        write_first(ring_path(private), encode_json(new_ring().wrapped(store_key)))
        _enter(private, source, read_json(ring_path(private)))


def _enter(private: Path, source: KeySource, document: Any) -> None:
    from pipelines.encryption.ring import open_ring

    ring = open_ring(document, source.read())
    known = places.place_of(private / "any")
    places.enter(private, Place(ring, None if known is None else known.digest_key))
    _opened[(str(private), source)] = document


def use_secret(private: Path, secret: bytes) -> None:
    """Keys the digests of an encrypted store by its secret."""
    place = places.place_of(private / "any")
    if place is not None:
        places.enter(private, Place(place.keys, derived_key(secret, "digests of files")))


def _is_sealed(path: Path) -> bool:
    from pipelines.encryption.sealed import HEADER_BYTES, is_sealed

    with path.open("rb") as file:
        return is_sealed(file.read(HEADER_BYTES))
