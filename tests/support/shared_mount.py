"""Two machines that mount one file system of a third: network namespaces, and GlusterFS, which needs FUSE alone.

Debian's package `glusterfs-server` has both programs. Each machine sees the file system at the same path, by a client
of its own, so that locks, renames and caches go over the network as they do between hosts.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.waiting import wait_for

_BRICK = """
volume files
  type storage/posix
  option directory {folder}
end-volume
volume locks
  type features/locks
  subvolumes files
end-volume
volume server
  type protocol/server
  option transport-type tcp
  option transport.socket.bind-address {host}
  option transport.socket.listen-port 24007
  option auth.addr.locks.allow *
  subvolumes locks
end-volume
"""
_CLIENT = """
volume shared
  type protocol/client
  option transport-type tcp
  option remote-host {host}
  option remote-port 24007
  option remote-subvolume locks
end-volume
"""
_PROGRAMS = ("glusterfs", "glusterfsd", "ip", "nsenter")


def reason_without() -> str | None:
    """Why such machines cannot be had here."""
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"{missing[0]} is not installed: apt-get install glusterfs-server iproute2 util-linux"
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "mounts and network namespaces need root and /dev/fuse"
    return None


@dataclass(frozen=True)
class Machine:
    """A network namespace with mounts of its own.

    Attributes:
        name: of the namespace.
        address: of the machine in the network between them.
        process: one that lives in both namespaces.
    """

    name: str
    address: str
    process: int

    def command(self, *arguments: str) -> list[str]:
        """A command line that is run on it."""
        return ["nsenter", "-t", str(self.process), "-m", "-n", *arguments]

    def run(self, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs a command on it."""
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=timeout, check=False, cwd="/"
        )


@contextmanager
def shared_mount(folder: Path, mounted: Path) -> Iterator[tuple[Machine, Machine]]:
    """Two machines on which ``mounted`` is one file system, kept below ``folder`` by a third."""
    tag = f"r{secrets.token_hex(3)}"
    (folder / "brick").mkdir(parents=True)
    mounted.mkdir(parents=True)
    with ExitStack() as stack:
        _link(stack, tag)
        machines = [_machine(stack, f"{tag}{letter}", n + 1) for n, letter in enumerate("sab")]
        server = machines[0].address
        (folder / "brick.vol").write_text(_BRICK.format(folder=folder / "brick", host=server))
        (folder / "client.vol").write_text(_CLIENT.format(host=server))
        log = str(folder / "log")
        _start(stack, machines[0].command("glusterfsd", "-N", "-f", str(folder / "brick.vol"), "-l", log))
        for machine in machines[1:]:
            volume = str(folder / "client.vol")
            _start(stack, machine.command("glusterfs", "-N", "-f", volume, "-l", f"{log}-{machine.name}", str(mounted)))
            wait_for("the mount", functools.partial(_is_mounted, machine, mounted), 30)
        yield machines[1], machines[2]


def _link(stack: ExitStack, tag: str) -> None:
    _ip("link", "add", f"{tag}br", "type", "bridge")
    stack.callback(_ip, "link", "del", f"{tag}br")
    _ip("link", "set", f"{tag}br", "up")


def _machine(stack: ExitStack, name: str, number: int) -> Machine:
    address = f"10.97.0.{number}"
    _ip("netns", "add", name)
    stack.callback(_end, name)
    _ip("link", "add", f"{name}0", "type", "veth", "peer", "name", "eth0", "netns", name)
    _ip("link", "set", f"{name}0", "master", f"{name[:-1]}br")
    _ip("link", "set", f"{name}0", "up")
    for arguments in (("addr", "add", f"{address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
        _ip("-n", name, *arguments)
    _ip("-n", name, "link", "set", "lo", "up")
    process = _start(stack, ["ip", "netns", "exec", name, "sleep", "infinity"])  # has a mount namespace as well
    comm = Path("/proc") / str(process) / "comm"
    wait_for("the namespaces", lambda: comm.read_text() == "sleep\n", 30)  # it is in both by then
    return Machine(name, address, process)


def _end(name: str) -> None:
    """Removes a namespace with all that still runs in it."""
    for process in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    _ip("netns", "del", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _start(stack: ExitStack, command: Sequence[str]) -> int:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process.pid


def _is_mounted(machine: Machine, folder: Path) -> bool:
    return machine.run("mountpoint", "-q", str(folder)).returncode == 0
