"""The process that talks to Ray for a run. It takes calls through a pipe and answers them, piece by piece.

Its output and that of Ray's workers is dropped, because an engine quotes arguments and tracebacks.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any, Final, Literal

from flows.running.executors.worker import Terms, build_partition, check_worker
from pipelines.processes import die_with_parent
from pipelines.store.building.workers import Request

Call = Literal["connect", "check", "build", "leave"]

_RETRIES: Final = 3
_CHECK_SECONDS: Final = 120.0


def drive(connection: Connection, address: str | None, workers: int) -> None:
    """Answers calls until the call ``leave``, or until the parent process is gone.

    Args:
        connection: pipe that receives (call, argument). It sends answers, and ``"end"`` after the last one of a call.
        address: address of the cluster; None to start one here.
        workers: number of processors of a cluster that is started here.
    """
    die_with_parent()
    _print_nothing()
    ray = None
    while True:
        try:
            call, argument = connection.recv()
        except EOFError:
            break
        if call == "leave":
            break
        try:
            if call == "connect":
                ray = _connect(address, workers)
                connection.send(None)
            elif call == "check":
                for wrong in _check(ray, argument):
                    connection.send(wrong)
            else:
                for answer in _build(ray, *argument):
                    connection.send(answer)
            connection.send("end")
        except OSError:
            break  # nobody listens
        except Exception as error:
            if call != "connect":
                break  # the run sees that this process is gone, and joins again
            connection.send(type(error).__name__)
            connection.send("end")
    if ray is not None:
        ray.shutdown()


def _print_nothing() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(nowhere, stream.fileno())


def _connect(address: str | None, workers: int) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the future default, without a warning
    if address is None:
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # so that nobody else can start anything in the cluster
    import ray  # reads these variables

    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is None:
        ray.init(address="local", num_cpus=workers, num_gpus=0, include_dashboard=False, **quiet)
    else:
        ray.init(address, **quiet)
    return ray


def _check(ray: Any, terms: Terms) -> Iterator[tuple[str, tuple[str, ...]]]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote = ray.remote(num_cpus=0, max_retries=0)(check_worker)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        answer = remote.options(scheduling_strategy=there).remote(terms)
        where = str(node.get("NodeManagerHostname") or node.get("NodeManagerAddress"))
        try:
            yield where, ray.get(answer, timeout=_CHECK_SECONDS)
        except Exception as error:
            imports = "import" in str(error) or "No module" in str(error)
            wrong = "reticent is not installed there" if imports else f"the check failed with {type(error).__name__}"
            yield where, (wrong,)


def _build(ray: Any, terms: Terms, waiting: Mapping[int, Request]) -> Iterator[tuple[int, Any]]:
    """(number, answer), or the type of Ray's error as a text."""
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES, retry_exceptions=False)(build_partition)
    shared = ray.put(terms)
    numbers = {remote.remote(shared, request): number for number, request in waiting.items()}
    while numbers:
        ready, _ = ray.wait(list(numbers), num_returns=1)
        for reference in ready:
            number = numbers.pop(reference)
            try:
                yield number, ray.get(reference)
            except Exception as error:
                yield number, type(error).__name__
