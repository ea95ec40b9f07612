"""An executor that builds partitions on the workers of Ray."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final

from flows.running.executors.cluster import Cluster
from flows.running.executors.ray_driver import Call, drive
from flows.running.executors.worker import Terms
from pipelines.errors import ConfigError, ExecutorError
from pipelines.processes import ignore_interrupts
from pipelines.store.building.workers import Answer, Request

_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 10.0


class RayWorkers(Cluster):
    """Joins the cluster at ``runtime.executor_address``, or starts one with ``runtime.workers`` processors here.

    Ray's client runs in a process of its own, because it silently ends its process when the head node is gone for a
    minute.
    """

    engine = "Ray"

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self._process: Any = None
        self._connection: Connection | None = None

    def is_joined(self) -> bool:
        """Returns True if the client's process is alive."""
        return self._process is not None and self._process.is_alive()

    def join(self) -> None:
        """Starts the client's process, which connects. Starts another one if it could not.

        Raises:
            ConfigError: the cluster asks for no token, and its network is not declared private.
            ExecutorError: the cluster cannot be reached.
        """
        if self.address and not self.is_network_private and os.environ.get("RAY_AUTH_MODE") != "token":
            raise ConfigError(
                "runtime.executor_address: without RAY_AUTH_MODE=token in the environment Ray asks nobody who they "
                "are, and whoever reaches it reads the private root through its workers. Set it on all nodes and here "
                "(docs/scale.md), or declare with runtime.private_network = true that only you reach that network"
            )
        deadline = time.monotonic() + self.wait_seconds
        while (kind := self._connect()) is not None:
            self.leave()
            if time.monotonic() > deadline:
                raise ExecutorError(
                    f"{self.whose()} cannot be reached ({kind}); what was finished is kept. Is it running (`ray start "
                    "--head`), with the same versions of Python and Ray, is this machine one of its nodes, and is "
                    "runtime.executor_address its address, HOST:PORT?"
                )
            time.sleep(1.0)

    def _connect(self) -> str | None:
        """Connects, and returns the type of the error; None if it worked."""
        self.leave()
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        with ignore_interrupts():
            self._process = context.Process(
                target=drive, args=(theirs, self.address, self.workers), name="reticent-ray", daemon=True
            )
            self._process.start()
        theirs.close()
        self._connection = ours
        with suppress(OSError):
            ours.send(("connect", None))
            # Ray's client waits minutes for a missing head node. Starting one may take half a minute.
            if not ours.poll(max(self.wait_seconds, _START_SECONDS)):
                return "TimeoutError"
            with suppress(EOFError):
                kind: str | None = ours.recv()
                ours.recv()
                return kind
        return "EOFError"

    def _answers(self, call: Call, argument: Any) -> Iterator[Any]:
        """Yields the client's answers to a call, until the last one or the client's death."""
        connection = self._connection
        if connection is None:
            return
        with suppress(EOFError, OSError):
            connection.send((call, argument))
            while (answer := connection.recv()) != "end":
                yield answer

    def check(self, terms: Terms) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Checks a process on every present node."""
        yield from self._answers("check", terms)

    def hand_out(self, waiting: Mapping[int, Request]) -> Iterator[tuple[int, Answer]]:
        """Hands out all requests at once. Ray gives each process one at a time, and retries on another if it dies."""
        for number, answer in self._answers("build", (self.terms, dict(waiting))):
            if isinstance(answer, str):
                died = answer in ("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError")
                yield number, self.lost(waiting[number]) if died else self.failed(answer)
            else:
                yield number, answer

    def leave(self) -> None:
        """Ends the client's process, and all that it started."""
        connection, self._connection = self._connection, None
        process, self._process = self._process, None
        if connection is not None:
            with suppress(OSError):
                connection.send(("leave", None))
            connection.close()
        if process is not None:
            process.join(_END_SECONDS)
            if process.is_alive():
                process.kill()
                process.join(_END_SECONDS)
