"""How machines find a training: a file in the private root says where it listens and holds its certificate.

Whoever may read the file may join, so that the file system says who takes part. It is there as long as the training.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pipelines.artifacts import Output
from pipelines.files import read_json, write_atomic, write_json
from pipelines.training.machines.wire import make_certificate

_PACKAGES: Final = ("torch", "numpy", "transformers", "tokenizers", "safetensors")


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """A training that machines may join.

    Attributes:
        token: tells it from others.
        host, port: where its first machine listens.
        needed: folders that every machine must see.
    """

    token: str
    host: str
    port: int
    needed: tuple[str, ...]


def invitations_in(cache: Path) -> Path:
    """The folder of invitations, in the store's cache of what can be made again."""
    return cache / "trainings"


def invitations_of(out: Output) -> Path:
    """The folder of invitations, as a stage knows it."""
    return invitations_in(out.cache or out.scratch_folder)


def pem_of(folder: Path, token: str) -> Path:
    """The certificate and key of a training."""
    return folder / f"{token}.pem"


@contextmanager
def invited(folder: Path, host: str, port: int, needed: tuple[str, ...]) -> Iterator[Invitation]:
    """An invitation that is there, with its certificate, as long as this lasts."""
    made = Invitation(token=secrets.token_hex(16), host=host, port=port, needed=needed)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep(folder)
    pem, invitation = pem_of(folder, made.token), folder / f"{made.token}.json"
    write_atomic(pem, make_certificate())
    descriptor = os.open(pem, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        write_json(invitation, asdict(made))
        yield made
    finally:
        invitation.unlink(missing_ok=True)
        pem.unlink(missing_ok=True)
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Removes what killed trainings left: the kernel freed their locks."""
    for pem in folder.glob("*.pem"):
        with suppress(OSError), pem.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            pem.with_suffix(".json").unlink(missing_ok=True)
            pem.unlink(missing_ok=True)


def open_invitations(folder: Path) -> list[Invitation]:
    """Those that are there now."""
    found = []
    for path in sorted(folder.glob("*.json")):
        document = read_json(path)
        with suppress(TypeError):
            found.append(Invitation(**{**(document or {}), "needed": tuple((document or {}).get("needed", ()))}))
    return found


def installed() -> dict[str, Any]:
    """What must be the same on all machines: versions, and a digest of our code, by name."""
    found = {"Python": platform.python_version(), "processor": platform.machine()}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    home = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(home.rglob("*.py")):
        digest.update(path.relative_to(home).as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return {**found, "reticent": digest.hexdigest()[:12]}
