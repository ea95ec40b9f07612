"""Worker processes that build partitions. Own processes, because spaCy holds the interpreter's lock."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from pipelines.context import Progress, silent
from pipelines.errors import StageError
from pipelines.graph import GRAPH
from pipelines.processes import worker_pool
from pipelines.store.execute import execute, probe
from pipelines.store.locks import store_lock
from pipelines.store.lookup import key_of
from pipelines.store.outcome import Outcome, PartitionKeys
from pipelines.store.session import open_session

_PRELOAD = ["spacy", "pyarrow.parquet", "pipelines.tables", "pipelines.store.execute"]
_ATTEMPTS = 3


def _build(spec: str, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> Outcome:
    return execute(open_session(spec), stage, partition, inputs)


class Builder:
    """Runs the stages of one run, partitions side by side, whole-corpus stages in this process.

    Args:
        spec: path of the run's specification.

    Use as a context manager; processes start with the first partition that has to be built.
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._session = open_session(spec)
        self._workers = self._session.spec.runtime.workers
        self._pool: ProcessPoolExecutor | None = None
        self._pool_lock = threading.Lock()
        self._serial = threading.Lock()

    def build(
        self, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys], progress: Progress = silent
    ) -> Outcome:
        """As `pipelines.store.execute.execute`; blocks until the stage is there.

        Raises:
            StageError: also when its worker process died repeatedly (out of memory, killed).
        """
        with store_lock(self._session.roots.private):
            keyed = key_of(self._session, stage, partition, inputs)
            found = probe(self._session, stage, partition, keyed[0])
        if found is not None:
            return found
        if self._workers == 1 or not GRAPH[stage].partitioned:
            with self._serial:
                return execute(self._session, stage, partition, inputs, progress, keyed)
        for _ in range(_ATTEMPTS):
            pool = self._get_pool()
            try:
                outcome = pool.submit(_build, self._spec, stage, partition, dict(inputs)).result()
            except BrokenProcessPool:
                self._drop_pool(pool)
                continue
            self._session.built[(stage, partition)] = outcome.key or ""
            return outcome
        raise StageError(
            f"the worker process of stage {stage} died {_ATTEMPTS} times; it may have run out of memory "
            "(lower runtime.workers or corpus.partition_documents)"
        )

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

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
