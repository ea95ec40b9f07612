"""Two network namespaces that a cable joins: what is a machine to whoever looks at the network alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support import child_environment

ADDRESSES = ("10.77.0.1", "10.77.0.2")
INTERFACES = ("va", "vb")


@dataclass(frozen=True)
class Namespace:
    """One of them. ``prefix`` goes before a command that is to run in it, as root of its own user namespace."""

    process: int
    address: str
    interface: str

    @property
    def prefix(self) -> list[str]:
        return ["nsenter", "-t", str(self.process), "-U", "-n", "--preserve-credentials"]

    def ip(self, *arguments: str) -> None:
        subprocess.run([*self.prefix, "ip", *arguments], check=True, capture_output=True, timeout=20)


def why_not() -> str | None:
    """Why this machine makes no namespaces; None where it does."""
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            return f"there is no {tool} here"
    made = subprocess.run(["unshare", "-Urn", "true"], capture_output=True, timeout=20, check=False)
    return None if made.returncode == 0 else "network namespaces are not allowed here"


@contextmanager
def started(where: Namespace | None, *arguments: str | Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Python with these arguments in a namespace, or with None on this machine; it is killed at the end."""
    process = subprocess.Popen(
        [*(where.prefix if where else ()), sys.executable, *map(str, arguments)],
        env=child_environment(OMP_NUM_THREADS="1", **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def two_namespaces() -> Iterator[tuple[Namespace, Namespace]]:
    """Both, with nothing in them but loopback and the cable."""
    holders: list[subprocess.Popen[bytes]] = []
    try:
        holders.append(_hold(["unshare", "-Urn"]))
        first = Namespace(holders[0].pid, ADDRESSES[0], INTERFACES[0])
        holders.append(_hold([*first.prefix, "unshare", "-n"]))
        second = Namespace(holders[1].pid, ADDRESSES[1], INTERFACES[1])
        first.ip("link", "add", "va", "type", "veth", "peer", "name", "vb", "netns", str(second.process))
        for one in (first, second):
            one.ip("address", "add", f"{one.address}/24", "dev", one.interface)
            one.ip("link", "set", one.interface, "up")
            one.ip("link", "set", "lo", "up")
        yield first, second
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def _hold(command: Sequence[str]) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen([*command, "sh", "-c", "echo here; exec sleep 3600"], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"here\n"
    time.sleep(0.05)
    return holder
