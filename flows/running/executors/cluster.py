"""The common part of the executors for Dask and Ray: terms for workers, and handing out of partitions.

Prefect's own runners for these engines lose or repeat tasks when a worker dies. Here a partition has a key, so that
handing it out twice builds it once. Prefect sees only the stage.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from flows.running.executors.worker import Terms, environment_of, stage_keys_of, worker_problems_message
from flows.running.installation import code_digest
from pipelines.errors import ExecutorError, StageError
from pipelines.store.building.workers import Answer, Request
from pipelines.store.objects.session import open_session
from pipelines.store.place.disk import disk_error
from pipelines.store.place.file_system import mount_of
from pipelines.store.place.locks import is_locked
from pipelines.store.place.roots import Roots, private_umask

ATTEMPTS: Final = 3
"""The number of times that the engine may be lost while a stage runs."""
_FOLDER: Final = "executor"


def require_shared(roots: Roots, instead: str) -> None:
    """Refuses a file system that several machines are known not to be able to share.

    Args:
        roots: roots of the store.
        instead: setting with which the store may lie there.

    Raises:
        ExecutorError: the store lies on such a file system.
    """
    for folder in (roots.private, roots.public):
        mount = mount_of(folder.resolve())
        if (reason := mount.unshared()) is not None:
            raise ExecutorError(
                f"several machines cannot work on the store in {folder} ({mount.kind}): {reason}; choose another "
                f"file system (docs/scale.md), or set {instead}"
            )


class Cluster(ABC):
    """An `Executor` whose workers are processes of an engine, on this or on other machines."""

    engine: ClassVar[str]

    def __init__(self, run: str) -> None:
        self._run = run
        runtime = open_session(run).spec.runtime
        self.address, self.workers = runtime.executor_address, runtime.workers
        self.is_network_private = runtime.private_network
        self._timeout, self.wait_seconds = runtime.partition_timeout_seconds, runtime.executor_wait_seconds
        self._rendezvous: _Rendezvous | None = None
        self._lock = threading.Lock()

    def build(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Builds as `store.building.workers.Executor.build` does. Starts or joins the engine at the first call.

        Raises:
            ExecutorError: the engine cannot be reached, its workers cannot take part, or it was lost again and again.
        """
        waiting = dict(enumerate(requests))
        with self._lock:
            for _ in range(ATTEMPTS):
                self._require_workers()
                for number, answer in self.hand_out(waiting):
                    del waiting[number]
                    yield number, answer
                if not waiting:
                    return
                self.leave()
        raise ExecutorError(
            f"{self.whose()} was lost {ATTEMPTS} times while a stage ran; what was finished is kept, run again to go on"
        )

    def _require_workers(self) -> None:
        if self.is_joined():
            return
        if self.address:
            require_shared(open_session(self._run).roots, 'runtime.executor = "local"')
        if self._rendezvous is None:
            self._rendezvous = _Rendezvous(open_session(self._run).roots)
        self.join()
        if found := [(where, problems) for where, problems in self.check(self.terms) if problems]:
            raise ExecutorError(worker_problems_message(found))
        self._rendezvous.require_renamed()

    @functools.cached_property
    def terms(self) -> Terms:
        """The terms that workers must meet."""
        session, rendezvous = open_session(self._run), self._rendezvous
        assert rendezvous is not None  # noqa: S101  (narrows the type)
        return Terms(
            run=self._run,
            folders=tuple(map(str, rendezvous.folders)),
            token=rendezvous.token,
            content=rendezvous.content,
            code=code_digest(),
            environment=environment_of(session),
            stage_keys=stage_keys_of(session),
            store_key=session.spec.store_key,
            timeout_seconds=self._timeout,
        )

    def whose(self) -> str:
        """Returns the name of the cluster for messages."""
        return f"{self.engine} at {self.address}" if self.address else f"the local {self.engine} cluster"

    def lost(self, request: Request) -> StageError:
        """Makes the error for a partition whose worker died each time."""
        return StageError(
            f"the workers that were handed a partition of stage {request.stage} died, one after the other; they may "
            "have run out of memory (lower corpus.partition_documents, or start fewer workers a machine)"
        )

    def failed(self, kind: str) -> ExecutorError:
        """Makes the error for a partition that the engine could not run, although no worker died."""
        return ExecutorError(
            f"{self.whose()} could not run a partition ({kind}); is one version of reticent installed on all workers?"
        )

    def close(self) -> None:
        """Leaves the engine, and ends it if this run started it."""
        self.leave()
        if self._rendezvous is not None:
            self._rendezvous.close()
            self._rendezvous = None

    @abstractmethod
    def is_joined(self) -> bool:
        """Returns True if `hand_out` may be called."""

    @abstractmethod
    def join(self) -> None:
        """Connects to the engine, or starts it on this machine.

        Raises:
            ExecutorError: the engine does not answer, or no worker joins, within `wait_seconds`.
        """

    @abstractmethod
    def check(self, terms: Terms) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Asks each present worker for its problems, and yields them by the worker's address."""

    @abstractmethod
    def hand_out(self, waiting: Mapping[int, Request]) -> Iterator[tuple[int, Answer]]:
        """Answers requests as they end. Requests that were lost with the engine get no answer."""

    @abstractmethod
    def leave(self) -> None:
        """Disconnects, and never raises."""


class _Rendezvous:
    """Files in both roots, which show if workers share the roots. The first is locked as long as the run lasts."""

    def __init__(self, roots: Roots) -> None:
        self.token = secrets.token_hex(16)
        self.folders = (roots.cache / _FOLDER, roots.public / "work" / _FOLDER)
        content = secrets.token_bytes(32)
        self.content = hashlib.sha256(content).hexdigest()
        try:
            with private_umask():
                for folder in self.folders:
                    folder.mkdir(exist_ok=True)
                self._sweep()
                for folder in self.folders:
                    (folder / self.token).write_bytes(content)
            self._descriptor = os.open(self.folders[0] / self.token, os.O_RDWR)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise disk_error(error) from None

    def _sweep(self) -> None:
        """Removes the files of killed runs, whose locks the kernel has freed."""
        for path in self.folders[0].iterdir():
            if not path.suffix and not is_locked(path):
                self._remove(path.name)

    def _remove(self, token: str) -> None:
        for folder in reversed(self.folders):
            for path in folder.glob(f"{token}*"):
                path.unlink(missing_ok=True)

    def require_renamed(self) -> None:
        """Checks that this machine sees the files that workers renamed.

        Raises:
            ExecutorError: it does not see them.
        """
        for folder in self.folders:
            if not any(folder.glob(f"{self.token}.*.renamed")):
                raise ExecutorError(
                    f"a file that workers renamed in {folder} is not seen here; all machines need one file system"
                )

    def close(self) -> None:
        self._remove(self.token)
        os.close(self._descriptor)
