"""How machines find a training: a file in the private root says where it listens and holds its certificate.

Whoever may read the file may join, so that the file system says who takes part. It is there as long as the training.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pipelines.files import read_json, source_digest, write_json
from pipelines.training.machines.wire import make_certificate

_PACKAGES: Final = ("torch", "numpy", "transformers", "tokenizers", "safetensors")


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """A training that machines may join.

    Attributes:
        token: tells it from others.
        pem: its certificate, and the key of that.
        host, port: where its first machine listens.
        needed: folders that every machine must see.
    """

    token: str
    pem: bytes = field(repr=False)
    host: str
    port: int
    needed: tuple[str, ...]


@contextmanager
def invited(folder: Path, host: str, port: int, needed: tuple[str, ...]) -> Iterator[Invitation]:
    """An invitation that is there as long as this lasts."""
    made = Invitation(token=secrets.token_hex(16), pem=make_certificate(), host=host, port=port, needed=needed)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep(folder)
    path = folder / f"{made.token}.json"
    lock = path.with_suffix(".lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        write_json(path, {**asdict(made), "pem": made.pem.decode()})
        yield made
    finally:
        path.unlink(missing_ok=True)
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Removes what killed trainings left: the kernel freed their locks."""
    for lock in folder.glob("*.lock"):
        with suppress(OSError), lock.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.with_suffix(".json").unlink(missing_ok=True)
            lock.unlink(missing_ok=True)


def open_invitations(folder: Path) -> list[Invitation]:
    """Those that are there now."""
    found = []
    for path in sorted(folder.glob("*.json")):
        with suppress(TypeError, KeyError):  # it is gone by now
            document = read_json(path)
            made = {**document, "pem": document["pem"].encode(), "needed": tuple(document["needed"])}
            found.append(Invitation(**made))
    return found


def installed() -> dict[str, Any]:
    """What must be the same on all machines: versions, and a digest of our code, by name."""
    found = {"Python": platform.python_version(), "processor": platform.machine()}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return {**found, "reticent": source_digest(Path(__file__).resolve().parents[3], ("pipelines",))[:12]}
