"""The executor that ``runtime.executor`` names."""

from __future__ import annotations

import importlib.util

from pipelines.errors import ConfigError
from pipelines.store.building.workers import Executor
from pipelines.store.objects.session import open_session

_PACKAGES = {"dask": "distributed", "ray": "ray"}


def require_installed(run: str) -> None:
    """Refuses an engine that is not installed.

    Raises:
        ConfigError: it is not.
    """
    name = open_session(run).spec.runtime.executor
    package = _PACKAGES.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        raise ConfigError(
            f"runtime.executor = {name!r} needs package {package}, which is not installed; install reticent[{name}] "
            "here and where the workers are"
        )


def require_shared_by_machines(run: str) -> None:
    """Refuses a training on several machines where the store lies on a file system that they cannot share.

    Raises:
        ExecutorError: it does.
    """
    session = open_session(run)
    if session.spec.runtime.num_machines > 1:
        from flows.running.executors.cluster import require_shared

        require_shared(session.roots, "runtime.num_machines = 1")


def executor_of(run: str) -> Executor | None:
    """Returns the executor of a run's partitions; None for processes of this machine."""
    name = open_session(run).spec.runtime.executor
    if name == "dask":
        from flows.running.executors.dask_workers import DaskWorkers

        return DaskWorkers(run)
    if name == "ray":
        from flows.running.executors.ray_workers import RayWorkers

        return RayWorkers(run)
    return None
