"""Descriptions and digests of the folders that `reticent train-policy` and `reticent train-detector` write."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from pipelines.errors import ConfigError

DESCRIPTION: Final = "reticent.json"
"""File that describes a trained model: its labels or domains, how it reads text, and the digest of its weights. That
digest represents the weights in keys."""

COMPACT: Final = "model.int8.safetensors"
"""File with the weights of a token classifier in 8 bits (`token_compact`)."""


def classifier_digest(folder: Path) -> str:
    """Returns the SHA-256 of the weights of a classifier."""
    with (folder / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def detector_digest(folder: Path) -> str:
    """Returns the SHA-256 over the weights of a detector, which are those of transformers or of spaCy."""
    digest = hashlib.sha256()
    for name in ("model.safetensors", COMPACT, "ner/model", "tok2vec/model"):
        if (folder / name).is_file():
            with (folder / name).open("rb") as file:
                digest.update(name.encode() + bytes.fromhex(hashlib.file_digest(file, "sha256").hexdigest()))
    return digest.hexdigest()


def read_classifier(folder: Path) -> dict[str, Any]:
    """Reads the description of a classifier.

    Raises:
        ConfigError: the folder holds no classifier, or its weights changed after training.
    """
    try:
        described: dict[str, Any] = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        digest = classifier_digest(folder)
    except (OSError, ValueError):
        raise ConfigError(
            f"redact.classifier: {folder} holds no classifier; `reticent train-policy` writes one"
        ) from None
    if described.get("weights_sha256") != digest:
        raise ConfigError(f"redact.classifier: the weights in {folder} are not those that {DESCRIPTION} names")
    return described


def read_detector(folder: Path) -> dict[str, Any]:
    """Reads the description of a detector.

    Returns:
        The description. It is empty for a model that `reticent train-detector` did not write.

    Raises:
        ConfigError: the file describes another kind of model, or other weights.
    """
    path = folder / DESCRIPTION
    if not path.exists():
        return {}
    try:
        described: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ConfigError(f"redact.token_classifier: {DESCRIPTION} in its folder cannot be read") from None
    if not isinstance(described, dict) or described.get("kind") != "detector":
        raise ConfigError(
            f"redact.token_classifier: its folder holds another kind of model ({DESCRIPTION}); a classifier of "
            "`reticent train-policy` belongs to redact.classifier"
        )
    if described.get("weights_sha256") != detector_digest(folder):
        raise ConfigError(
            f"redact.token_classifier: the weights in its folder are not those that {DESCRIPTION} names; train it anew"
        )
    return described
