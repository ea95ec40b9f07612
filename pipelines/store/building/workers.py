"""Builds a stage: finds stored partitions in this process, and gives the others to an executor, side by side."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pipelines.context import Progress, silent
from pipelines.encryption.sources import KeySource
from pipelines.errors import StageError
from pipelines.graph import GRAPH
from pipelines.processes import worker_pool
from pipelines.stage import Step
from pipelines.store.building.execute import execute, probe
from pipelines.store.building.lookup import resolve_key
from pipelines.store.objects.session import open_session
from pipelines.store.place.locks import store_lock
from pipelines.store.place.outcome import Outcome, PartitionKeys

PARTITIONS: Final = "partitions"
"""The message of a progress report that counts finished partitions instead of work inside one."""
_PRELOAD = ["spacy", "pyarrow.parquet", "pipelines.tables", "pipelines.store.building.execute"]
_ATTEMPTS = 3
_PROBING_THREADS = 8


@dataclass(frozen=True, kw_only=True)
class Request:
    """A partition that has to be built. Workers get only this: names and keys, no text and no secret.

    Attributes:
        run: path of the run's specification.
        stage, partition: the artifact to build.
        inputs: artifacts that it reads, by stage.
        key: key that the artifact will have.
        store_key: source of the key of an encrypted store, without the key itself.
    """

    run: str
    stage: str
    partition: str | None
    inputs: Mapping[str, PartitionKeys]
    key: str
    store_key: KeySource | None = None


Answer = Outcome | Exception
"""The result of a request: an outcome, or the error that ended the stage."""


class Executor(Protocol):
    """A builder of partitions. It may build a partition twice, because artifacts are published once per key."""

    def build(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers every request once, with its index, in the order in which they end.

        Raises:
            ReticentError: the executor can answer no more requests.
        """

    def close(self) -> None:
        """Ends the processes that were started for the run."""


class LocalProcesses:
    """An `Executor` of worker processes on this machine, because spaCy holds the interpreter's lock.

    Args:
        workers: number of processes. They start with the first partition that has to be built.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._pool_lock = threading.Lock()

    def build(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Builds as `Executor.build` says, and tries a partition again if its process died."""
        waiting = dict(enumerate(requests))
        for _ in range(_ATTEMPTS):
            pool = self._get_pool()
            try:
                futures = {pool.submit(_build, request): number for number, request in waiting.items()}
            except BrokenProcessPool:
                futures = {}
            for future in as_completed(futures):
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    continue
                del waiting[futures[future]]
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield futures[future], future.result() if error is None else error
            if not waiting:
                return
            self._drop_pool(pool)
        for number, request in waiting.items():
            yield number, _died(request)

    def _get_pool(self) -> ProcessPoolExecutor:
        with self._pool_lock:
            if self._pool is None:
                self._pool = worker_pool(self._workers, _PRELOAD)
            return self._pool

    def _drop_pool(self, broken: ProcessPoolExecutor) -> None:
        with self._pool_lock:
            if self._pool is broken:
                self._pool = None
        broken.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Ends the worker processes."""
        with self._pool_lock:
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=True)
                self._pool = None


def _died(request: Request) -> StageError:
    return StageError(
        f"the worker process of stage {request.stage} died {_ATTEMPTS} times; it may have run out of memory "
        "(lower runtime.workers or corpus.partition_documents)"
    )


def _build(request: Request) -> Outcome:
    return execute(open_session(request.run, request.store_key), request.stage, request.partition, request.inputs)


class Builder:
    """Builds the stages of one run: partitions by the executor, whole-corpus stages in this process.

    Args:
        run: path of the run's specification.
        executor: builder of partitions; None for ``runtime.workers`` processes on this machine, or only this process.

    Use as a context manager.
    """

    def __init__(self, run: str, executor: Executor | None = None) -> None:
        self._run = run
        self._session = open_session(run)
        workers = self._session.spec.runtime.workers
        self._executor = executor or (LocalProcesses(workers) if workers > 1 else None)
        self._serial = threading.Lock()

    def build_stage(
        self, stage: str, inputs: Mapping[str, PartitionKeys], progress: Progress = silent
    ) -> tuple[Outcome, ...]:
        """Brings every partition of a stage, or a whole-corpus stage, up to date. Blocks until all are finished.

        Args:
            inputs: artifacts of the stages before it, in corpus order.
            progress: callback for the number of finished partitions, called once a partition had to be built.

        Returns:
            One outcome per partition, in corpus order.

        Raises:
            ReticentError: a partition failed; the others were finished first.
        """
        wanted = list(GRAPH[stage].steps(self._session.partition_names, inputs))
        found = self._probe(stage, wanted)
        answers: dict[int, Answer] = {n: outcome for n, (_, outcome) in enumerate(found) if outcome is not None}
        missing = [number for number in range(len(wanted)) if number not in answers]
        requests = [
            Request(
                run=self._run,
                stage=stage,
                partition=wanted[n].partition,
                inputs=wanted[n].inputs,
                key=found[n][0][0],
                store_key=self._session.spec.store_key,
            )
            for n in missing
        ]
        if self._executor is not None and GRAPH[stage].partitioned:
            built = self._executor.build(requests) if requests else iter(())
        else:
            built = self._one_by_one(requests, [found[n][0] for n in missing], progress)
        for index, answer in built:
            answers[missing[index]] = answer
            if isinstance(answer, Outcome):
                self._session.built[(stage, answer.partition)] = answer.key or ""
                if answer.partition is not None:
                    progress(len(answers), len(wanted), PARTITIONS)
        outcomes: list[Outcome] = []
        for number in range(len(wanted)):
            answer = answers[number]
            if isinstance(answer, Exception):
                raise answer
            outcomes.append(answer)
        return tuple(outcomes)

    def _probe(self, stage: str, wanted: Sequence[Step]) -> list[tuple[tuple[str, dict[str, Any]], Outcome | None]]:
        """Returns the key and ingredients of each partition, and its outcome if it need not be built."""

        def look_up(step: Step) -> tuple[Any, Outcome | None]:
            keyed = resolve_key(self._session, stage, step.partition, step.inputs)
            return keyed, probe(self._session, stage, step.partition, keyed[0])

        with store_lock(self._session.roots.private):
            if len(wanted) == 1:
                return [look_up(wanted[0])]
            with ThreadPoolExecutor(_PROBING_THREADS) as threads:  # hashing files releases the global interpreter lock
                return list(threads.map(look_up, wanted))

    def _one_by_one(
        self, requests: Sequence[Request], keyed: Sequence[tuple[str, dict[str, Any]]], progress: Progress
    ) -> Iterator[tuple[int, Answer]]:
        for number, request in enumerate(requests):
            answer: Answer
            try:
                with self._serial:
                    answer = execute(
                        self._session, request.stage, request.partition, request.inputs, progress, keyed[number]
                    )
            except Exception as error:
                answer = error
            yield number, answer

    def close(self) -> None:
        """Ends the executor."""
        if self._executor is not None:
            self._executor.close()

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
