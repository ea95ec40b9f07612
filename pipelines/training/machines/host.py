"""The machine that runs the flow, among those that train with it: it invites them, and hears how they end."""

from __future__ import annotations

import base64
import contextlib
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final

from pipelines.context import Progress
from pipelines.errors import ExecutorError
from pipelines.files import read_json, write_json
from pipelines.training.machines.invitation import Invitation, installed, invited
from pipelines.training.machines.team import Elsewhere, pipe_of
from pipelines.training.machines.wire import Link, LostError, accept, listen

_LOOK_SECONDS: Final = 1.0
_JOB: Final = "job.json"


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The machines that train a model together, as the settings say.

    Attributes:
        count: how many, this one among them.
        address: that this one listens at.
        interface: that the settings declare private; None to encrypt what crosses.
        wait_seconds: how long to wait for the others.
        folder: of invitations.
        needed: folders that every machine must see.
    """

    count: int
    address: str
    interface: str | None
    wait_seconds: float
    folder: Path
    needed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Guest:
    """A machine that has joined.

    Attributes:
        link: to it.
        name: of the machine, for messages.
        count: processes that it will start.
    """

    link: Link
    name: str
    count: int


@dataclass(kw_only=True)
class Host:
    """The machines of one training, once all are there. Made by `gathered`.

    Attributes:
        machines: the settings.
        invitation: that they followed.
        listener: where their first processes will connect.
        guests: the other machines, in order.
    """

    machines: Machines
    invitation: Invitation
    listener: socket.socket
    guests: tuple[Guest, ...]

    def place(self, machine: int) -> Elsewhere:
        """What the processes of a machine are told of the others."""
        return Elsewhere(
            host=self.invitation.host,
            port=self.invitation.port,
            pem=self.invitation.pem,
            machine=machine,
            num_machines=self.machines.count,
            is_private=self.machines.interface is not None,
        )

    def start(
        self, own_count: int, device: str, meeting: Path, work: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> dict[Connection, tuple[int, None]]:
        """Lets every machine start its processes.

        The work itself lies in a file of the private root: over the network come a path and numbers, no code.

        Returns:
            The rank of each machine's first process, by a pipe that it is heard through.

        Raises:
            ExecutorError: a machine has left.
        """
        write_json(meeting / _JOB, {"pickled": base64.b64encode(pickle.dumps((work, arguments))).decode()})
        total, first = own_count + sum(guest.count for guest in self.guests), own_count
        pipes: dict[Connection, tuple[int, None]] = {}
        for machine, guest in enumerate(self.guests, 1):
            order = {
                "first": first,
                "total": total,
                "machine": machine,
                "machines": self.machines.count,
                "device": device,
                "meeting": str(meeting),
                "is_private": self.machines.interface is not None,
            }
            try:
                guest.link.send_json({"start": order})
            except LostError:
                raise ExecutorError(f"machine {guest.name} left before the training began; run again") from None
            pipes[pipe_of(guest.link, first, guest.name)] = (first, None)
            first += guest.count
        return pipes


def job_in(meeting: Path) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What `Host.start` wrote: the work, and its arguments. It is code, and comes from the private root alone."""
    work, arguments = pickle.loads(base64.b64decode(read_json(meeting / _JOB)["pickled"]))  # noqa: S301
    return work, arguments


@contextlib.contextmanager
def gathered(machines: Machines, on_gpu: bool, progress: Progress) -> Iterator[Host]:
    """Waits for the other machines.

    Raises:
        ConfigError: nothing can listen at the address.
        ExecutorError: too few came in time, or one lacks what the training needs.
    """
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listen(machines.address))
        host, port = listener.getsockname()[:2]
        invitation = stack.enter_context(invited(machines.folder, host, port, machines.needed))
        guests: list[Guest] = []
        stack.callback(_close, guests)
        deadline = time.monotonic() + machines.wait_seconds
        told = None
        while len(guests) < machines.count - 1:
            if told != len(guests):
                told = len(guests)
                progress(0, None, f"waiting for machines: {told + 1} of {machines.count}")
            if time.monotonic() > deadline:
                raise ExecutorError(
                    f"{len(guests) + 1} of {machines.count} machines were there within {machines.wait_seconds:g} s "
                    "(runtime.executor_wait_seconds); start `reticent join SETTINGS` on the others, or lower "
                    "runtime.num_machines"
                )
            ready = wait([listener.fileno(), *(guest.link.fileno() for guest in guests)], _LOOK_SECONDS)
            for gone in [guest for guest in guests if guest.link.fileno() in ready]:  # it has nothing to say yet
                guests.remove(gone)
                gone.link.close()
            if listener.fileno() in ready and (link := accept(listener, invitation.pem)) is not None:
                with contextlib.suppress(LostError):
                    guests.append(_welcome(link, machines, on_gpu))
        yield Host(machines=machines, invitation=invitation, listener=listener, guests=tuple(guests))


def _close(guests: list[Guest]) -> None:
    for guest in guests:
        guest.link.close()


def _welcome(link: Link, machines: Machines, on_gpu: bool) -> Guest:
    """The machine that says what it is.

    Raises:
        ExecutorError: it cannot take part.
        LostError: it left, or is no machine of ours.
    """
    hello = link.receive_json()
    try:
        name, count, missing = str(hello["machine"]), int(hello["processes"]), hello["missing"]
        theirs, interface, gpus = dict(hello["installed"]), hello["interface"], int(hello["gpus"])
    except (KeyError, TypeError, ValueError):
        link.close()
        raise LostError from None
    ours = installed()
    other = [f"{k} {theirs.get(k, 'absent')} in place of {ours[k]}" for k in ours if theirs.get(k) != ours[k]]
    problem = None
    if other:
        problem = f"it has another installation: {', '.join(other)}"
    elif missing:
        problem = f"it does not see {missing}; all machines must mount one file system, at one path"
    elif machines.interface is not None and interface is None:
        problem = "its settings name no runtime.private_interface, so sums must not cross there as they are"
    elif on_gpu and gpus < count:
        problem = f"it has {count} processes (runtime.num_processes), and {gpus} GPUs are to be seen there"
    if problem is not None:
        with contextlib.suppress(LostError):
            link.send_json({"refused": problem})
        link.close()
        raise ExecutorError(f"machine {name} cannot take part in this training: {problem}")
    return Guest(link=link, name=name, count=count)
