"""``reticent verify-release``: checks a folder against its signature. Needs neither a store nor settings."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pipelines.errors import ConfigError
from pipelines.release_folder import OF_THE_HUB, verify_folder

_DIGITS: Final = 32
_SHOWN: Final = 20


def verify_document(folder: Path, key: str | None) -> dict[str, Any]:
    """Verifies a folder (`pipelines.release_folder.verify_folder`) and compares the key with the expected one.

    Args:
        folder: release, or a copy of one
        key: fingerprint from the publisher; spaces and colons do not matter

    Returns:
        The result of `verify_folder`, with ``expected_key``, ``is_expected_key`` (None without a key to compare with),
        and ``is_verified`` (true if the folder is whole and the key is not another one).

    Raises:
        ConfigError: there is no release, or the fingerprint has another form.
    """
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}")
    expected = None if key is None else _fingerprint(key)
    found = verify_folder(folder)
    is_expected = None if expected is None else found["signed_by"] == expected
    return {
        **found,
        "expected_key": expected,
        "is_expected_key": is_expected,
        "is_verified": found["is_whole"] and is_expected is not False,
    }


def _fingerprint(text: str) -> str:
    digits = "".join(text.replace(":", " ").split()).lower()
    if len(digits) != _DIGITS or not set(digits) <= set(string.hexdigits):
        raise ConfigError(f"--key must be the publisher's fingerprint, {_DIGITS} hexadecimal digits")
    return digits


def verify_text(document: Mapping[str, Any]) -> str:
    """Formats the result for people. Escapes the folder's texts, because anybody may write terminal codes into them."""
    lines = []
    for word in ("missing", "added", "changed"):
        names = document[word]
        lines += [f"{word:<8} {name!a}" for name in names[:_SHOWN]]
        if len(names) > _SHOWN:
            lines.append(f"{word:<8} and {len(names) - _SHOWN} more")
    refused = [f"refused  {name!a}: {why}" for name, why in document["refused"].items()]
    lines += refused[:_SHOWN]
    if len(refused) > _SHOWN:
        lines.append(f"refused  and {len(refused) - _SHOWN} more")
    if document["problem"] is not None:
        lines.append(f"unsigned {document['problem']}")
    if document["is_whole"]:
        about = document["about"]
        lines.append(
            f"{document['num_files']} signed files of a {about.get('kind')!a}, all as signed on "
            f"{about.get('released')!a}, none missing or added (not compared: {', '.join(OF_THE_HUB)})"
        )
    signed_by = document["signed_by"]
    if signed_by is not None:
        lines.append(f"signed by the key {signed_by}")
        if document["expected_key"] is None:
            lines.append(
                "a signature cannot say whose key that is: compare it with the fingerprint that the publisher gave you "
                "by another way, or give that fingerprint as --key"
            )
        elif document["is_expected_key"]:
            lines.append("this is the key that you expect: the holder of its private half made this folder")
        else:
            lines.append(f"this is NOT the key that you expect, {document['expected_key']}")
    verified = "VERIFIED, except whose key it is" if document["expected_key"] is None else "VERIFIED"
    lines.append(verified if document["is_verified"] else "NOT VERIFIED")
    return "\n".join(lines)
