"""The ring of keys of an encrypted store: random keys that seal files, wrapped under the store key.

The store key stays outside of the store (`pipelines.encryption.sources`). The ring is `FILE` in the private root. It is
useless without the store key, and a wrong store key opens no part of it (AES-256-GCM).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pipelines.encryption.places import FILE
from pipelines.encryption.sealed import KEY_ID_BYTES
from pipelines.encryption.sources import KEY_BYTES
from pipelines.errors import ConfigError, DamagedFileError, StoreError

VERSION: Final = 1
_NONCE_BYTES: Final = 12


class WrongKeyError(ConfigError):
    """The store key opens no key of the ring."""


@dataclass(frozen=True)
class KeyRing:
    """The keys that seal the files of a store.

    Attributes:
        keys: keys of `KEY_BYTES` by their ids
        current: id of the key for new files
    """

    keys: Mapping[bytes, bytes] = field(repr=False)
    current: bytes

    def file_key(self, key_id: bytes, salt: bytes) -> bytes:
        """Derives the key of one file; see `pipelines.encryption.sealed.Keys`."""
        if key_id not in self.keys:
            raise DamagedFileError("a sealed file belongs to another store, or its header is damaged")
        return HKDF(SHA256(), KEY_BYTES, salt, b"reticent sealed file").derive(self.keys[key_id])

    def renewed(self) -> KeyRing:
        """Returns the ring with a fresh key for new files."""
        fresh = secrets.token_bytes(KEY_ID_BYTES)
        return KeyRing({**self.keys, fresh: secrets.token_bytes(KEY_BYTES)}, fresh)

    def only_current(self) -> KeyRing:
        """Returns the ring without the keys of earlier files."""
        return KeyRing({self.current: self.keys[self.current]}, self.current)

    def wrapped(self, store_key: bytes) -> dict[str, Any]:
        """Returns the document of the ring, wrapped under a store key."""
        cipher, wrapped = AESGCM(store_key), {}
        for key_id, key in sorted(self.keys.items()):
            nonce = secrets.token_bytes(_NONCE_BYTES)
            wrapped[key_id.hex()] = (nonce + cipher.encrypt(nonce, key, _bound_to(key_id))).hex()
        return {"schema_version": VERSION, "current": self.current.hex(), "keys": wrapped}


def new_ring() -> KeyRing:
    """Makes a ring with one fresh key."""
    return KeyRing({}, b"").renewed()


def open_ring(document: Any, store_key: bytes) -> KeyRing:
    """Opens a ring from the document of `KeyRing.wrapped`.

    Raises:
        WrongKeyError: the ring was wrapped under another store key, or a wrapped key was changed.
        StoreError: the document is not a ring, or has another version.
    """
    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise StoreError(
            f"the ring of keys {FILE} has layout {version}, and this version of reticent reads {VERSION}; use the "
            "version that wrote it, or a newer one"
        )
    try:
        raw = {bytes.fromhex(name): bytes.fromhex(wrapped) for name, wrapped in document["keys"].items()}
        current = bytes.fromhex(document["current"])
    except (TypeError, KeyError, ValueError, AttributeError):
        raw, current = {}, b""
    if version != VERSION or current not in raw:
        raise StoreError(f"the ring of keys {FILE} is damaged; restore it from a backup of the private root")
    cipher = AESGCM(store_key)
    try:
        keys = {
            name: cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _bound_to(name))
            for name, sealed in raw.items()
        }
    except (InvalidTag, ValueError):
        raise WrongKeyError(
            "the store key is not the one that encrypts this store. Nothing was read or written. Name the right key "
            "with store.key_file, store.key_command or store.key_env"
        ) from None
    return KeyRing(keys, current)


def _bound_to(key_id: bytes) -> bytes:
    return b"reticent ring of keys\0" + key_id
