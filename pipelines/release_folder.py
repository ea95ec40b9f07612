"""A folder that leaves the house: a manifest of its files, and a signature that is checked without the store.

``release.json`` lists every other file with its size and SHA-256; ``release.sig`` is the Ed25519 signature over its
bytes, and ``release.pem`` the public key that checks it. Other tools can do so as well::

    openssl pkeyutl -verify -pubin -inkey release.pem -rawin -in release.json -sigfile release.sig
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pipelines.errors import ConfigError
from pipelines.files import encode_json
from pipelines.signatures import fingerprint_of, is_signed, public_pem, read_public_key

SCHEMA_VERSION: Final = 1
MANIFEST: Final = "release.json"
SIGNATURE: Final = "release.sig"
PUBLIC_KEY: Final = "release.pem"
_OWN: Final = (MANIFEST, SIGNATURE, PUBLIC_KEY)
OF_THE_HUB: Final = (".git", ".gitattributes", ".cache")
"""What git and the hub's client put into a folder themselves. No loader reads it, so it is not compared."""


def sign_folder(folder: Path, about: Mapping[str, Any], key: Ed25519PrivateKey) -> str:
    """Writes manifest, signature and public key of a finished folder; returns the key's fingerprint.

    Args:
        folder: everything else is in it already.
        about: further fields of the manifest.
        key: to sign with.
    """
    fingerprint = fingerprint_of(key.public_key())
    files = {name: _entry(path) for name, path in sorted(_files(folder).items()) if name not in _OWN}
    document = {"schema_version": SCHEMA_VERSION, **about, "signed_by": fingerprint, "files": files}
    data = encode_json(document)
    (folder / MANIFEST).write_bytes(data)
    (folder / SIGNATURE).write_bytes(key.sign(data))
    (folder / PUBLIC_KEY).write_bytes(public_pem(key))
    return fingerprint


def verify_folder(folder: Path) -> dict[str, Any]:
    """Compares a folder with its manifest, and the manifest with its signature.

    Returns:
        ``missing``, ``added`` and ``changed``: names of files. ``signed_by``: the fingerprint of the key that signed
        the manifest; None where no valid signature is there, with the ``problem``. ``about``: the manifest's other
        fields. ``is_whole``: nothing differs and the signature fits.

    Raises:
        ConfigError: there is no release in the folder, or one of a version that this one does not read.
    """
    found = _files(folder)
    if MANIFEST not in found:
        raise ConfigError(f"there is no release in that folder: it has no {MANIFEST}")
    data = found[MANIFEST].read_bytes()
    problem, key = _signature_problem(found, data)
    try:
        document = json.loads(data)
        listed = {str(name): (entry["size"], entry["sha256"]) for name, entry in document["files"].items()}
        version, stated = document["schema_version"], document["signed_by"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        document, listed, version, stated = {}, {}, SCHEMA_VERSION, None
        problem = problem or f"{MANIFEST} is no manifest"
    if problem is None and version != SCHEMA_VERSION:
        raise ConfigError(
            f"{MANIFEST} is of version {version!a}, and this reticent reads version {SCHEMA_VERSION}; check the folder "
            "with the version that wrote it"
        )
    signed_by = None if key is None or problem is not None else fingerprint_of(key)
    if signed_by is not None and stated != signed_by:
        signed_by, problem = None, f"{MANIFEST} names another key than the one that signed it"
    there = found.keys() - set(_OWN)
    changed = [n for n in sorted(there & listed.keys()) if tuple(_entry(found[n]).values()) != listed[n]]
    differs = {"missing": sorted(listed.keys() - there), "added": sorted(there - listed.keys()), "changed": changed}
    return {
        **differs,
        "num_files": len(listed),
        "signed_by": signed_by,
        "problem": problem,
        "about": {name: value for name, value in document.items() if name not in ("files", "signed_by")},
        "is_whole": signed_by is not None and not any(differs.values()),
    }


def _signature_problem(found: Mapping[str, Path], data: bytes) -> tuple[str | None, Ed25519PublicKey | None]:
    """Why the manifest counts as unsigned, if it does; and the key that lies beside it."""
    if absent := [name for name in (SIGNATURE, PUBLIC_KEY) if name not in found]:
        return f"{absent[0]} is missing", None
    try:
        key = read_public_key(found[PUBLIC_KEY].read_bytes())
    except ValueError:
        return f"{PUBLIC_KEY} is no public key of Ed25519", None
    if not is_signed(data, found[SIGNATURE].read_bytes(), key):
        return f"{SIGNATURE} does not fit {MANIFEST} and {PUBLIC_KEY}: one of the three was changed", key
    return None, key


def _files(folder: Path) -> dict[str, Path]:
    """Everything below a folder that is no folder itself, by relative path; links to folders count as files."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return {
        name: path
        for name, path in found.items()
        if (path.is_symlink() or not path.is_dir()) and name.split("/")[0] not in OF_THE_HUB
    }


def _entry(path: Path) -> dict[str, Any]:
    """Size and digest of a file; of what is none, such as a link to a folder or to nothing, a digest of nothing."""
    if not path.is_file():
        return {"size": -1, "sha256": ""}
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
