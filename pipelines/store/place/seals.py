"""Seals on the store's own documents, by which Reticent notices a change that it did not make.

A seal is HMAC-SHA256 under the store's secret, over the kind of the document and all of its other fields. Whoever can
read the secret can forge a seal. Seals guard against a disk, a person or a program that changes a file.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pipelines.errors import StoreError
from pipelines.files import canonical_json, read_file, write_json

Kind = Literal["store", "ledger line", "run", "latest run", "training", "release", "forgotten", "home", "witness"]

SEAL: Final = "seal"
_CHARACTERS: Final = 32


class SealError(StoreError):
    """A document of the store was changed."""


def fingerprint(secret: bytes) -> str:
    """Returns 16 hexadecimal characters that differ between secrets and reveal nothing else about the secret."""
    return hmac.new(secret, b"reticent secret", hashlib.sha256).hexdigest()[:16]


def seal_of(document: Mapping[str, Any], kind: Kind, secret: bytes) -> str:
    """Computes the seal of a document of this kind, over all of its fields but the seal."""
    plain = {name: value for name, value in document.items() if name != SEAL}
    message = b"reticent seal\0" + kind.encode() + b"\0" + canonical_json(plain)
    return hmac.new(secret, message, hashlib.sha256).hexdigest()[:_CHARACTERS]


def sealed(document: Mapping[str, Any], kind: Kind, secret: bytes) -> dict[str, Any]:
    """Returns the document with its seal."""
    return {**document, SEAL: seal_of(document, kind, secret)}


def bears_seal(document: Mapping[str, Any], kind: Kind, secret: bytes) -> bool:
    """Checks that a document bears its right seal."""
    found = document.get(SEAL)
    return isinstance(found, str) and hmac.compare_digest(found, seal_of(document, kind, secret))


def write_sealed(path: Path, document: Mapping[str, Any], kind: Kind, secret: bytes) -> None:
    """Writes a document with its seal, like `write_json`."""
    write_json(path, sealed(document, kind, secret))


def read_sealed(path: Path, kind: Kind, secret: bytes, *, unsealed_versions: tuple[int | None, ...] = ()) -> Any:
    """Reads a document that `write_sealed` wrote; None if there is no such file.

    Args:
        unsealed_versions: schema versions from before there were seals; None for a document without a version.

    Raises:
        SealError: the file holds no JSON object, or was changed. The message names the file.
    """
    try:
        document = json.loads(read_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError):
        raise SealError(f"{path} is damaged: it is not valid JSON") from None
    if not isinstance(document, dict):
        raise SealError(f"{path} is damaged: it holds no JSON object")
    if SEAL not in document and document.get("schema_version") in unsealed_versions:
        return document
    if not bears_seal(document, kind, secret):
        raise SealError(f"{path} is not as it was written: its seal does not fit")
    return document
