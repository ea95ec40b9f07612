"""Process group: the training processes of one machine, which start together and end together.

No argument and no environment variable of a process holds private data. Errors come back through a pipe. No process
outlives the process that started it, whichever way that ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

import torch

from pipelines import errors
from pipelines.context import Progress, silent
from pipelines.dp.ranks import PartnerLostError
from pipelines.encryption import places
from pipelines.errors import ConfigError, ReticentError
from pipelines.processes import die_with_parent, ignore_interrupts, withhold_library_messages
from pipelines.training.devices import is_on_gpu
from pipelines.training.peers import require_own_peers

GRACE_SECONDS: Final = 2.0
"""Time to wait for reports of the other processes after one has failed. The first report is often from a process that
lost its partner, not from the process that failed."""
LOOK_SECONDS: Final = 1.0
"""Time between two checks of the other machines."""
DEAD_SECONDS: Final = 30
"""Time without an answer from another machine's kernel after which a connection is lost."""
_PATIENCE: Final = timedelta(days=30)
"""Time that a process waits for another one, which may be evaluating. A dead process is noticed by its pipe instead."""

FailureKind = Literal["refused", "died", "failed", "lost"]


@dataclass(frozen=True)
class ProcessFailure:
    """Failure of a training process.

    Attributes:
        rank: number of the process.
        kind: kind of failure: ``refused`` with an error of Reticent, ``died`` without a report, ``failed`` with any
            other error, or ``lost`` the connection to another process.
        name: class of the error, or name of the signal.
        text: message or traceback.
        machine: name of the machine, if there are several.
    """

    rank: int
    kind: FailureKind
    name: str
    text: str = ""
    machine: str = ""


@dataclass(frozen=True, kw_only=True)
class ProcessShare:
    """The processes of one machine among all of a training.

    Attributes:
        first: rank of its first process.
        count: number of its processes.
        total: number of processes on all machines.
        device: ``cpu``, ``cuda`` or ``auto``. The r-th process of a machine takes its r-th GPU.
        interface: network interface that torch's sockets are bound to.
        store: file that all machines see, in which torch's processes find each other's addresses. None if this is the
            only machine, which then makes the file in a temporary folder.
        connect_seconds: time in which all processes must connect, if there are several machines.
    """

    first: int = 0
    count: int
    total: int
    device: str
    interface: str
    store: Path | None = None
    connect_seconds: float = 0.0


class ProcessGroup:
    """The processes of this machine, as a context manager: they start on entry and are killed on exit.

    Attributes:
        share: ranks and devices of the processes.
        running: rank and process, by the pipe that the process writes to.
    """

    def __init__(self, share: ProcessShare, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Prepares processes that each run ``work(*arguments, progress)``.

        Args:
            share: ranks and devices of the processes.
            work: function at the top level of a module.
            arguments: arguments of the function, sent through a pipe.
        """
        self.share, self._work, self._arguments = share, work, arguments
        self.running: dict[Connection, tuple[int, BaseProcess]] = {}

    def __enter__(self) -> ProcessGroup:
        context = multiprocessing.get_context("spawn")
        self._rendezvous = Path(tempfile.mkdtemp(prefix="rendezvous-"))
        store = self.share.store or self._rendezvous / "store"
        for local in range(self.share.count):
            ours, theirs = context.Pipe(duplex=False)
            rank = self.share.first + local
            arguments = (local, self.share, store, places.entered(), theirs, self._work, self._arguments)
            process = context.Process(target=_main, args=arguments, daemon=True, name=f"rank {rank}")
            with ignore_interrupts():
                process.start()
            theirs.close()  # so that the pipe ends when the process does
            self.running[ours] = (rank, process)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        processes = [process for _, process in self.running.values()]
        for process in processes:
            process.kill()  # nothing to save: a checkpoint file is complete at any moment
        for process in processes:
            process.join()
        for pipe in self.running:
            pipe.close()
        shutil.rmtree(self._rendezvous, ignore_errors=True)

    def watch(
        self,
        progress: Progress,
        look: Callable[[], list[ProcessFailure]] | None = None,
        hear: Callable[[ProcessFailure], None] = lambda failure: None,
    ) -> tuple[dict[int, Any], list[ProcessFailure]]:
        """Waits until all processes are done, or one has failed and the others had time to report.

        Args:
            progress: callback that receives the progress of the first process.
            look: function that returns failures on other machines. None if this is the only machine.
            hear: callback that receives each failure on this machine at once.

        Returns:
            Results by rank, and the failures.
        """
        running, results, failed = dict(self.running), dict[int, Any](), list[ProcessFailure]()
        deadline, connected = None, set[int]()
        late = time.monotonic() + self.share.connect_seconds
        while running or (failed and look is not None):
            now = time.monotonic()
            timeout = None if deadline is None else max(0.0, deadline - now)
            if look is not None:
                timeout = LOOK_SECONDS if timeout is None else min(timeout, LOOK_SECONDS)
            for pipe in multiprocessing.connection.wait([*running], timeout):
                assert isinstance(pipe, Connection)  # noqa: S101  # `running` holds nothing else
                rank, process = running[pipe]
                try:
                    kind, said = pipe.recv()
                except (EOFError, OSError):
                    kind, said = "failure", ProcessFailure(rank, "died", _way_to_end(process))
                if kind == "progress":
                    progress(*said)
                elif kind == "connected":
                    connected.add(rank)
                else:
                    del running[pipe]
                    if kind == "done":
                        results[rank] = said
                    else:
                        hear(said)
                        failed.append(said)
            if look is not None and (running or failed):
                failed += [failure for failure in look() if failure not in failed]
                if len(connected) < self.share.count and time.monotonic() > late and not failed:
                    failed.append(
                        ProcessFailure(self.share.first, "lost", "unreachable", f"{self.share.connect_seconds:g}")
                    )
            if failed:
                deadline = deadline or time.monotonic() + GRACE_SECONDS
                if time.monotonic() >= deadline:
                    break
        return results, failed


def _way_to_end(process: BaseProcess) -> str:
    process.join()
    if process.exitcode is not None and process.exitcode < 0:
        return f"was ended by {signal.Signals(-process.exitcode).name}"
    return f"ended with exit code {process.exitcode}"


def _main(
    local: int,
    share: ProcessShare,
    store: Path,
    opened: Mapping[str, places.Place],
    pipe: Connection,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    """Runs one process of the group."""
    die_with_parent()
    withhold_library_messages()
    places.take_over(opened)
    rank = share.first + local

    def report(done: int, total: int | None, message: str = "") -> None:
        pipe.send(("progress", (done, total, message)))

    try:
        with _group(local, share, store):
            pipe.send(("connected", None))
            result = work(*arguments, report if rank == 0 else silent)
        pipe.send(("done", result if rank == 0 else None))
        return
    except PartnerLostError:
        failure = ProcessFailure(rank, "lost", "PartnerLostError")
    except ReticentError as error:
        name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        failure = ProcessFailure(rank, "refused", name, str(error))
    except Exception as error:
        failure = ProcessFailure(rank, "failed", type(error).__name__, traceback.format_exc())
    pipe.send(("failure", failure))
    pipe.close()
    os._exit(1)  # an orderly exit from the group would wait for the others


@contextlib.contextmanager
def _group(local: int, share: ProcessShare, store: Path) -> Iterator[None]:
    """Joins torch's default process group over all machines: NCCL between GPUs, gloo between CPUs."""
    on_gpu = is_on_gpu(share.device)
    if on_gpu:
        torch.cuda.set_device(local)  # sets the meaning of "cuda", before anything is put on the first GPU
    else:
        torch.set_num_threads(max(1, torch.get_num_threads() // share.count))
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = share.interface
    if share.store is not None:
        os.environ["NCCL_SOCKET_IFNAME"] = f"={share.interface}"  # the exact name, not a prefix
        os.environ["NCCL_NET"] = "Socket"  # InfiniBand and other fabrics would bypass the interface
    try:
        torch.distributed.init_process_group(
            "nccl" if on_gpu else "gloo",
            store=torch.distributed.FileStore(str(store), share.total),  # type: ignore[attr-defined]
            rank=share.first + local,
            world_size=share.total,
            timeout=_PATIENCE,
            device_id=torch.device("cuda", local) if on_gpu else None,
        )
        require_own_peers()  # before anything is sent
        torch.distributed.barrier()
    except RuntimeError:
        raise PartnerLostError from None
    if share.store is not None:
        _detect_dead_machines()
    yield
    try:
        torch.distributed.barrier()  # the first to finish waits until the others need nothing more
    except RuntimeError:
        raise PartnerLostError from None
    torch.distributed.destroy_process_group()


def _detect_dead_machines() -> None:
    """Makes the kernel close torch's connections to a machine that vanished. Gloo alone would wait for ever."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  (names, not paths)
        try:
            connection = socket.socket(fileno=os.dup(int(name)))
        except OSError:  # not a socket, or closed by now
            continue
        with connection, contextlib.suppress(OSError):
            if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, DEAD_SECONDS // 3)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, DEAD_SECONDS // 6)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_SECONDS * 1_000)


def check_interface(name: str | None) -> None:
    """Checks that this machine has the network interface.

    Raises:
        ConfigError: no interface is named, or this machine has no interface of that name.
    """
    names = [known for _, known in socket.if_nameindex()]
    if name is None:
        raise ConfigError(
            "training on several machines needs runtime.private_interface: gloo and NCCL send sums of private records "
            "unencrypted. Name the network interface that only the machines of the training can read (WireGuard makes "
            f"one, docs/scale.md). This machine has {', '.join(names)}"
        )
    if name not in names:
        raise ConfigError(f"runtime.private_interface: there is no interface {name} here. There are {', '.join(names)}")


def loopback() -> str:
    """Returns the name of the interface that no other machine can reach."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name.startswith("lo")), "lo")
