"""An executor that builds partitions on the workers of Dask's distributed scheduler."""

from __future__ import annotations

import asyncio
import logging
import queue
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from flows.running.executors.cluster import Cluster
from flows.running.executors.worker import Terms, build_partition, check_worker
from pipelines.errors import ExecutorError
from pipelines.store.building.workers import Answer, Request

_LOOK_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 10.0


class DaskWorkers(Cluster):
    """Joins the scheduler at ``runtime.executor_address``, or starts one with ``runtime.workers`` processes here.

    A local scheduler listens on loopback only, and accepts only this run's own certificate.
    """

    engine = "Dask"

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self._client: Any = None
        self._cluster: Any = None

    def is_joined(self) -> bool:
        """Returns True if the scheduler answers."""
        return self._client is not None and self._client.status == "running"

    def join(self) -> None:
        """Connects, and waits for the first worker."""
        self.leave()
        from distributed import Client

        for name in ("tornado", *logging.Logger.manager.loggerDict):  # Dask sets a level for some of its loggers
            if name.partition(".")[0] in ("distributed", "tornado"):
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        deadline = time.monotonic() + self.wait_seconds
        while self._client is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # `check` compares versions
                    target = self.address or self._start()
                    self._client = Client(
                        target, timeout=min(_CONNECT_SECONDS, self.wait_seconds), set_as_default=False, name="reticent"
                    )
            except Exception as error:
                self.leave()
                if time.monotonic() > deadline or isinstance(error, ValueError | TypeError):
                    raise ExecutorError(
                        f"{self.whose()} cannot be reached ({type(error).__name__}); what was finished is kept. Is the "
                        "scheduler running, and is runtime.executor_address its address, tls://HOST:PORT?"
                    ) from None
                time.sleep(1.0)
        try:
            self._client.wait_for_workers(1, timeout=self.wait_seconds)
        except Exception:
            raise ExecutorError(f"{self.whose()} has no workers; start some with `dask worker ADDRESS`") from None

    def _start(self) -> Any:
        from distributed import LocalCluster

        self._cluster = LocalCluster(
            n_workers=self.workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            security=True,
            memory_limit=0,  # like processes of the executor "local"
            silence_logs=logging.CRITICAL,
        )
        return self._cluster

    def check(self, terms: Terms) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Checks every present worker, busy or not."""
        answers = self._client.run(check_worker, terms, on_error="return")
        threads = self._client.nthreads()
        for where, answer in sorted(answers.items()):
            if isinstance(answer, ImportError):
                yield where, ("reticent is not installed there",)
            elif isinstance(answer, BaseException):
                yield where, (f"the check failed with {type(answer).__name__}",)
            elif threads.get(where, 1) > 1:
                yield where, (f"it has {threads[where]} threads; start it with --nthreads 1",)
            else:
                yield where, answer

    def hand_out(self, waiting: Mapping[int, Request]) -> Iterator[tuple[int, Answer]]:
        """Hands out each request under its own key, so that no two runs share an answer, and releases its answer.

        Dask does not compute a released answer again when its worker dies.
        """
        terms, ended = self.terms, queue.SimpleQueue[Any]()
        futures: dict[Any, int] = {}
        try:
            for number, request in waiting.items():
                key = f"reticent-{request.stage}-{request.key}-{uuid.uuid4().hex[:12]}"
                future = self._client.submit(build_partition, terms, request, key=key, pure=False)
                futures[future] = number
                future.add_done_callback(ended.put)
        except Exception:
            return  # the scheduler is gone
        while futures:
            future = self._next(ended)
            number = futures.pop(future)
            answer = self._answer(future, waiting[number])
            future.release()
            if answer is not None:
                yield number, answer

    def _next(self, ended: queue.SimpleQueue[Any]) -> Any:
        deserted = None
        while True:
            try:
                return ended.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                now = time.monotonic()
                deserted = None if self._has_workers() else deserted or now
                if deserted is not None and now - deserted > self.wait_seconds:
                    raise ExecutorError(
                        f"{self.whose()} has had no worker for {self.wait_seconds:g} s; what was finished is kept. "
                        "Start workers and run again"
                    ) from None

    def _has_workers(self) -> bool:
        with suppress(Exception):
            return bool(self._client.nthreads())
        return False

    def _answer(self, future: Any, request: Request) -> Answer | None:
        """Returns the answer of a request; None if it was lost with the scheduler or on its way."""
        if future.status == "error":
            kind = type(future.exception()).__name__
            if kind == "KilledWorker":
                return self.lost(request)
            return self.failed(kind)
        answer: Answer | None = None
        if future.status == "finished":
            with suppress(asyncio.CancelledError, Exception):
                answer = future.result(timeout=_ANSWER_SECONDS)
        return answer

    def leave(self) -> None:
        """Disconnects, and ends what `join` started."""
        for name in ("_client", "_cluster"):
            started = getattr(self, name)
            setattr(self, name, None)
            if started is not None:
                with suppress(Exception):
                    started.close(timeout=_CLOSE_SECONDS)
