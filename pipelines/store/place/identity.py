"""``store.json``: the fingerprint of a store's secret, the length of its privacy ledger, and its location.

With another secret, a store would find none of its artifacts again, take every file for a new one, and spend a privacy
budget twice. So the secret's fingerprint is written when the store is made, and compared whenever it is opened.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import PrivacyGateError, StoreError
from pipelines.files import canonical_json, encode_json, read_file, read_json, write_first, write_json
from pipelines.store.place import versions
from pipelines.store.place.ledger_file import WAY_OUT, Anchor
from pipelines.store.place.seals import bears_seal, fingerprint, sealed, write_sealed

FILE = "store.json"
_NUM_LOOKED_AT = 20
_REMEDY = "restore it from a backup; or remove it, and `reticent ledger --acknowledge-damage REASON` goes on without it"


def key_of_ingredients(ingredients: Mapping[str, Any], secret: bytes) -> str:
    """Returns the HMAC-SHA256 of an artifact's ingredients under the store's secret, in 40 hexadecimal characters."""
    return hmac.new(secret, canonical_json(ingredients), hashlib.sha256).hexdigest()[:40]


def read_identity(private: Path) -> dict[str, Any] | None:
    """Reads the document; None if there is none.

    Raises:
        StoreError: the file cannot be parsed, is no object, or is of a newer version. It is never rewritten then.
    """
    path = private / FILE
    if not os.path.lexists(path):
        return None
    try:
        document = json.loads(read_file(path))
    except (FileNotFoundError, ValueError, RecursionError):  # a link to nothing; not JSON
        raise StoreError(f"{path} is damaged: it is not valid JSON; {_REMEDY}") from None
    if not isinstance(document, dict):
        raise StoreError(f"{path} is damaged: it holds no JSON object; {_REMEDY}")
    if document.get("schema_version") not in (1, versions.STORE):
        found = document.get("schema_version")
        raise StoreError(
            f"{path} has layout {found}, and this version of reticent reads 1 to {versions.STORE}; use the version "
            "that wrote it, or a newer one"
        )
    return document


def check_identity(private: Path, secret: bytes, *, create: bool = True) -> None:
    """Compares the store with its secret, or writes the fingerprint if there is none yet.

    Args:
        private: the private root.
        secret: secret that the store has now.
        create: true to write what is missing; otherwise nothing is written.

    Raises:
        PrivacyGateError: the secret is not the one that the store was made with, or ``store.json`` was changed.
        StoreError: see `read_identity`.
    """
    document = read_identity(private)
    if document is not None and document["schema_version"] == versions.STORE:
        if document.get("secret") != fingerprint(secret):
            raise _other_secret(private)
        if not bears_seal(document, "store", secret):
            raise PrivacyGateError(f"{private / FILE} is not as it was written: its seal does not fit. {WAY_OUT}")
        return
    if document is None and (private / "home").exists():
        raise PrivacyGateError(f"{private / FILE} is missing: how long the ledger was is not known. {WAY_OUT}")
    if not _made_keys(private, secret):
        raise _other_secret(private)
    if not create:
        return
    fresh = sealed(_document(secret, Anchor(0, "")), "store", secret)
    if document is None:
        write_first(private / FILE, encode_json(fresh))
        return
    if os.access(private, os.W_OK):  # a store that can only be read is checked as well as it can be
        write_json(private / FILE, fresh)


def _document(secret: bytes, anchor: Anchor) -> dict[str, Any]:
    return {"schema_version": versions.STORE, "secret": fingerprint(secret), "ledger": anchor.to_json()}


def _other_secret(private: Path) -> PrivacyGateError:
    return PrivacyGateError(
        f"the secret of the store in {private} is not the one that the store was made with: artifacts would not be "
        "found, and what was spent would be forgotten. Put the old secret back (store.secret_file, or "
        f"{private / 'secret'}). {WAY_OUT}"
    )


def _made_keys(private: Path, secret: bytes) -> bool:
    """Returns True if the secret made the keys of the stored artifacts, or if no artifact can tell."""
    looked_at = 0
    for path in sorted((private / "manifests").glob("*/*.json")):
        document = read_json(path)
        try:
            ingredients = document["lineage"]["ingredients"]
        except (TypeError, KeyError):
            continue
        if key_of_ingredients(ingredients, secret) == path.stem:
            return True
        looked_at += 1
        if looked_at == _NUM_LOOKED_AT:
            break
    return looked_at == 0


def anchor_of(private: Path) -> Anchor | None:
    """Reads the length of the ledger from ``store.json``; None if it has none."""
    return Anchor.from_json((read_identity(private) or {}).get("ledger"))


def write_anchor(private: Path, secret: bytes, anchor: Anchor, home: Mapping[str, Any] | None) -> None:
    """Writes the length of the ledger, and the store's location. The caller holds the ledger's lock."""
    document = _document(secret, anchor) | ({} if home is None else {"home": dict(home)})
    write_sealed(private / FILE, document, "store", secret)


def write_location(private: Path, secret: bytes, home: Mapping[str, Any]) -> None:
    """Writes the store's location (`pipelines.store.place.location.Location`). The caller holds the ledger's lock."""
    write_anchor(private, secret, anchor_of(private) or Anchor(0, ""), home)
