"""Rendezvous of machines that train together: files and locks in the private root, which all of them share.

Each attempt at a training has its own folder, of mode 0700. The coordinator (the machine that runs the flow) holds a
lock on a file in it, and so does each worker that joins. The kernel frees the lock of a machine that dies. Torch's
`FileStore` also lies there and holds only network addresses. Nothing but torch's own sockets listens on the network.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any, Final

from pipelines.files import has_holder, source_digest

LOCK, TRAINING, ORDER, STORE = "training.lock", "training.json", "order.json", "store"
_PACKAGES: Final = ("torch", "numpy", "transformers", "tokenizers", "safetensors")


def worker_lock(folder: Path, token: str) -> Path:
    """Returns the lock of the worker with this token."""
    return folder / f"machine-{token}.lock"


def installed() -> dict[str, Any]:
    """Returns the versions, and a digest of our code, that must be equal on all machines, by name."""
    versions = {"Python": platform.python_version(), "processor": platform.machine()}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {**versions, "reticent": source_digest(Path(__file__).resolve().parents[3], ("pipelines",))[:12]}


def is_held(lock: Path) -> bool:
    """Returns true if a live process, on any machine, holds the lock of the file."""
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    return has_holder(descriptor)
