"""The training processes of one machine: started together, heard, and ended together.

Nothing that they are told stands in an argument or in the environment; what they raise comes back through a pipe, and
none outlives the process that started it, however that ends.
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
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

import torch

from pipelines import errors
from pipelines.context import Progress, silent
from pipelines.dp.ranks import joined
from pipelines.encryption import places
from pipelines.errors import ConfigError, ReticentError
from pipelines.processes import die_with_parent, ignore_interrupts, withhold_library_messages
from pipelines.training.machines.sums import MachineSums
from pipelines.training.machines.wire import Link, LostError, accept, connect

GRACE_SECONDS: Final = 2.0
"""After one process has failed, what the others have to say is heard for so long: the first word is often that of a
process that lost its partner, and not of the one that failed."""

_PATIENCE: Final = timedelta(days=30)
"""How long a process waits for another, which may be evaluating. One that died is noticed here, not by waiting."""

Kind = Literal["refused", "died", "failed", "lost"]


@dataclass(frozen=True)
class Failure:
    """How a process ended, if not by finishing.

    Attributes:
        rank: its number.
        kind: ``refused`` with an error of ours, ``died`` without a word, ``failed`` with any other error, or ``lost``
            the other machines.
        name: of our error's class, of the signal, or of the other error's class.
        text: the message, or the traceback.
        machine: where it ran, if there are several.
    """

    rank: int
    kind: Kind
    name: str
    text: str = ""
    machine: str = ""


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """The other machines of a training.

    Attributes:
        host, port: where the first machine listens.
        pem: the training's certificate and key.
        machine: number of this machine, from 0.
        num_machines: of all.
        is_private: whether torch's group spans all machines, over an interface that the settings declare private;
            otherwise each machine has one of its own, and sums cross over encrypted connections.
    """

    host: str
    port: int
    pem: bytes = field(repr=False)
    machine: int
    num_machines: int
    is_private: bool


@dataclass(frozen=True, kw_only=True)
class Share:
    """The processes of one machine among all of a training.

    Attributes:
        first: the rank of its first process.
        count: how many it has.
        total: how many there are on all machines.
        device: ``cpu``, ``cuda`` or ``auto``; the r-th process of a machine takes its r-th GPU.
        meeting: a folder that all machines see.
        interface: that torch's group talks over.
        elsewhere: the other machines; None where there are none.
    """

    first: int = 0
    count: int
    total: int
    device: str
    meeting: Path
    interface: str
    elsewhere: Elsewhere | None = None


@dataclass(frozen=True)
class _Given:
    """What all processes of a machine are given beside their share, through a pipe.

    Attributes:
        rendezvous: a folder of this machine with the file in which they find each other.
        places: encrypted roots that the process which started them has opened.
    """

    rendezvous: Path
    places: Mapping[str, places.Place] = field(repr=False)


class Team:
    """The processes of this machine, from `__enter__` on; those that are still there at the end are killed.

    Attributes:
        running: each with its rank, by the pipe that it speaks through.
    """

    def __init__(
        self,
        share: Share,
        work: Callable[..., Any],
        arguments: tuple[Any, ...],
        listener: socket.socket | None = None,
    ) -> None:
        """Every process runs ``work(*arguments, progress)``.

        Args:
            share: which processes.
            work: a function of a module.
            arguments: they travel through a pipe.
            listener: of the first machine, where others connect; the first process takes it.
        """
        self._share, self._work, self._arguments, self._listener = share, work, arguments, listener
        self.running: dict[Connection, tuple[int, BaseProcess | None]] = {}

    def __enter__(self) -> Team:
        context = multiprocessing.get_context("spawn")
        self._rendezvous = Path(tempfile.mkdtemp(prefix="rendezvous-"))
        given = _Given(self._rendezvous, places.entered())
        for local in range(self._share.count):
            ours, theirs = context.Pipe(duplex=False)
            listener = self._listener if local == 0 else None
            rank = self._share.first + local
            arguments = (local, self._share, given, listener, theirs, self._work, self._arguments)
            process = context.Process(target=_main, args=arguments, daemon=True, name=f"rank {rank}")
            with ignore_interrupts():
                process.start()
            theirs.close()  # so that the pipe ends when the process does
            self.running[ours] = (rank, process)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        processes = [process for _, process in self.running.values() if process is not None]
        for process in processes:
            process.kill()  # there is nothing to save: checkpoints are whole at any moment
        for process in processes:
            process.join()
        for pipe in self.running:
            pipe.close()
        shutil.rmtree(self._rendezvous, ignore_errors=True)


def watch(
    members: Mapping[Connection, tuple[int, BaseProcess | None]],
    progress: Progress,
    *,
    hear: Callable[[Failure], None] = lambda failure: None,
    partner: Connection | None = None,
) -> tuple[dict[int, Any], list[Failure]]:
    """Listens until all are done, or one has failed and the others were heard.

    Args:
        members: rank and process by pipe; a machine stands for its first process, and has none here.
        progress: told what the first process says.
        hear: told of each failure at once.
        partner: a pipe that ends when those who are here are no longer needed.

    Returns:
        What each returned, by rank; how those that did not finish ended.
    """
    running, results, failed = dict(members), dict[int, Any](), list[Failure]()
    deadline = None
    while running:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        waited_for = [*running, *([partner] if partner is not None else [])]
        ready = multiprocessing.connection.wait(waited_for, timeout)
        if not ready or partner in ready:
            break
        for pipe in ready:
            assert isinstance(pipe, Connection)  # noqa: S101  # nothing else is waited for
            rank, process = running[pipe]
            try:
                kind, said = pipe.recv()
            except (EOFError, OSError):
                kind, said = "failure", Failure(rank, "died", _way_to_end(process))
            if kind == "progress":
                progress(*said)
                continue
            del running[pipe]
            if kind == "done":
                results[rank] = said
            else:
                hear(said)
                failed.append(said)
                deadline = deadline or time.monotonic() + GRACE_SECONDS
    return results, failed


def _way_to_end(process: BaseProcess | None) -> str:
    if process is None:
        return "was lost with its machine"
    process.join()
    if process.exitcode is not None and process.exitcode < 0:
        return f"was ended by {signal.Signals(-process.exitcode).name}"
    return f"ended with exit code {process.exitcode}"


def pipe_of(link: Link, rank: int, machine: str) -> Connection:
    """What another machine says, as `watch` hears it of a process; it ends with the connection."""
    import threading

    ours, theirs = multiprocessing.Pipe(duplex=False)

    def pump() -> None:
        with contextlib.suppress(LostError, OSError, TypeError, KeyError), theirs:
            while True:
                match link.receive_json():
                    case {"done": True}:
                        theirs.send(("done", None))
                    case {"failure": dict(failure)}:
                        theirs.send(("failure", Failure(**{**failure, "machine": machine})))

    threading.Thread(target=pump, name=f"machine of rank {rank}", daemon=True).start()
    return ours


def tell(link: Link, failure: Failure | None) -> None:
    """Tells the first machine that a process failed, or that all are done."""
    with contextlib.suppress(LostError):
        link.send_json({"done": True} if failure is None else {"failure": asdict(failure)})


def _main(
    local: int,
    share: Share,
    given: _Given,
    listener: socket.socket | None,
    pipe: Connection,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    """What one of the processes does."""
    die_with_parent()
    withhold_library_messages()
    places.take_over(given.places)
    rank = share.first + local

    def report(done: int, total: int | None, message: str = "") -> None:
        pipe.send(("progress", (done, total, message)))

    try:
        with _group(local, share, given.rendezvous), _machines(local, share, listener):
            result = work(*arguments, report if rank == 0 else silent)
        pipe.send(("done", result if rank == 0 else None))
        return
    except LostError:
        failure = Failure(rank, "lost", "LostError")
    except ReticentError as error:
        name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        failure = Failure(rank, "refused", name, str(error))
    except Exception as error:
        failure = Failure(rank, "failed", type(error).__name__, traceback.format_exc())
    pipe.send(("failure", failure))
    pipe.close()
    os._exit(1)  # leaving the group in order would wait for the others


@contextlib.contextmanager
def _group(local: int, share: Share, rendezvous: Path) -> Iterator[None]:
    """Torch's default group, of this machine or of all: NCCL between GPUs, gloo between CPUs."""
    from pipelines.training.devices import is_on_gpu

    on_gpu = is_on_gpu(share.device)
    if on_gpu:
        torch.cuda.set_device(local)  # what "cuda" means from here on; before anything else is put on the first GPU
    else:
        torch.set_num_threads(max(1, torch.get_num_threads() // share.count))
    spans_machines = share.elsewhere is not None and share.elsewhere.is_private
    rank, count = (share.first + local, share.total) if spans_machines else (local, share.count)
    store = (share.meeting if spans_machines else rendezvous) / "store"
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = share.interface
    if spans_machines:
        os.environ["NCCL_SOCKET_IFNAME"] = f"={share.interface}"  # not whatever begins like it
        os.environ["NCCL_NET"] = "Socket"  # InfiniBand and other fabrics would pass by the interface
    torch.distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        store=torch.distributed.FileStore(str(store), count),  # type: ignore[attr-defined]
        rank=rank,
        world_size=count,
        timeout=_PATIENCE,
        device_id=torch.device("cuda", local) if on_gpu else None,
    )
    yield
    torch.distributed.barrier()  # who is done first stays until the others need nothing more
    torch.distributed.destroy_process_group()


@contextlib.contextmanager
def _machines(local: int, share: Share, listener: socket.socket | None) -> Iterator[None]:
    """Encrypted connections between the first processes of all machines, where torch's group is one machine's."""
    other = share.elsewhere
    if other is None or other.is_private:
        yield
        return
    sums = MachineSums(first=share.first, count=share.total)
    if listener is not None:
        sums = MachineSums(first=0, count=share.total, to_others=_others(listener, other))
    elif local == 0:
        to_first = connect(other.host, other.port, other.pem)
        to_first.send_json({"machine": other.machine})
        sums = MachineSums(first=share.first, count=share.total, to_first=to_first)
    with joined(sums):
        yield
    if local == 0:
        sums.add_up([torch.zeros(1)])  # as the barrier of the group, over machines
    sums.close()


def _others(listener: socket.socket, other: Elsewhere) -> tuple[Link, ...]:
    """Connections from the first processes of the other machines, in the order of the machines."""
    found: dict[int, Link] = {}
    while len(found) < other.num_machines - 1:
        link = accept(listener, other.pem)
        with contextlib.suppress(LostError):
            match link and link.receive_json():
                case {"machine": int(machine)} if 0 < machine < other.num_machines:
                    found[machine] = link  # type: ignore[assignment]
                    continue
        if link is not None:  # a machine that came too late
            link.close()
    listener.close()
    return tuple(found[machine] for machine in sorted(found))


def check_interface(name: str | None) -> None:
    """Refuses an interface that this machine does not have.

    Raises:
        ConfigError: there is none of that name.
    """
    names = [known for _, known in socket.if_nameindex()]
    if name is not None and name not in names:
        raise ConfigError(f"runtime.private_interface: there is no interface {name} here; there are {', '.join(names)}")


def loopback() -> str:
    """The name of the interface that no other machine can reach."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name.startswith("lo")), "lo")
