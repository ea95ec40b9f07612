"""Refuses connections of other users to the training processes, because gloo does not authenticate its peers.

Every user of a machine can connect to its loopback interface, and to its own address on any other. The kernel knows
whose each end of such a connection is.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from pipelines.errors import PrivacyGateError

WAIT_SECONDS: Final = 10.0
"""Time for a process to accept a connection. Before that the kernel says of its end that it is nobody's."""
_LOOK_SECONDS: Final = 0.02
_ESTABLISHED: Final = "01"
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")


def require_own_peers() -> None:
    """Refuses connections of this process that another user of this machine is at the other end of.

    Connections to other machines are left out: a training has them only over an interface that is declared private.

    Raises:
        PrivacyGateError: there is one.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while has_strangers():
        if time.monotonic() > deadline:
            raise PrivacyGateError(
                "another user of this machine connected to the training processes, in place of one of them. Nothing "
                "was sent. Run again; if that does not help, train with runtime.num_processes = 1, or where nobody "
                "else has a login"
            )
        time.sleep(_LOOK_SECONDS)


def has_strangers() -> bool:
    """Returns whether some connection of this process inside the machine ends at no process of the same user."""
    own, owners, ours = _own_sockets(), dict[tuple[str, str], int](), list[tuple[str, str]]()
    for table in _TABLES:
        for line in _lines(table):
            fields = line.split()
            local, remote, state, uid, inode = fields[1], fields[2], fields[3], fields[7], fields[9]
            if state == _ESTABLISHED and _host(local) == _host(remote):
                owners[local, remote] = int(uid)
                if inode in own:
                    ours.append((local, remote))
    return any(owners.get((remote, local)) != os.geteuid() for local, remote in ours)


def _own_sockets() -> set[str]:
    """Returns the inodes of this process's sockets."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  (names, not paths)
        try:
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115  (no path)
        except OSError:  # closed by now
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found


def _lines(table: str) -> list[str]:
    """Returns the lines of a table of the kernel below its heading; none where it has no such table."""
    path = Path(table)
    return path.read_text().splitlines()[1:] if path.exists() else []


def _host(end: str) -> str:
    return end.rpartition(":")[0]
