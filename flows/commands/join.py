"""``reticent join``: makes this machine join trainings that runs on another machine start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from flows.running.executors.cluster import require_shared
from flows.running.installation import check_installation
from flows.running.spec import open_store
from flows.running.temporary import temporary_files
from pipelines.settings.loading import load_settings
from pipelines.store.place.identity import FILE
from pipelines.store.place.roots import RENDEZVOUS, private_umask

_LOOK_SECONDS: Final = 1.0


def join_trainings(config: Path, environ: Mapping[str, str], *, say: Callable[[str], None]) -> None:
    """Waits for trainings on the store of the settings, and joins each, until a signal ends the process.

    Waits also for a store that no run has made yet, so that you can start the machines in any order.

    Args:
        config: settings file of the run, or another one that names the same store
        environ: environment variables, of which ``RETICENT__RUNTIME__NUM_PROCESSES`` is this machine's own
        say: function that prints events; never private text

    Raises:
        ConfigError: there are fewer GPUs than processes, no interface is declared private, or there is no such
            interface. Also as `open_store`.
        ExecutorError: the store is on a file system that machines cannot share.
    """
    check_installation()
    settings = load_settings(config, environ)
    runtime = settings.runtime_values()
    private, _, _ = settings.roots()
    _wait_for_store(private, say)
    roots = open_store(settings, create=False)
    require_shared(roots, "runtime.num_machines = 1")
    from pipelines.training.devices import check_devices
    from pipelines.training.machines.worker import WorkerSettings, join_announced_trainings

    check_devices(runtime.device, runtime.num_processes)
    if str(settings.folder) not in sys.path:
        sys.path.append(str(settings.folder))  # may hold plug-ins named by import path
    with private_umask(), temporary_files():
        join_announced_trainings(
            WorkerSettings(
                folder=roots.cache / RENDEZVOUS,
                count=runtime.num_processes,
                interface=runtime.private_interface,
                say=say,
            )
        )


def _wait_for_store(private: Path, say: Callable[[str], None]) -> None:
    """Waits until the store is complete. Its identity is the last file that is written."""
    if not (private / FILE).exists():
        say(
            f"waiting for the store at {private}, which the first run makes; "
            "all machines of a training must mount one file system, at one path"
        )
    while not (private / FILE).exists():
        time.sleep(_LOOK_SECONDS)
