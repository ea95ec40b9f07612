"""Shared by all tests: no telemetry, no hub, and where the real corpora are."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from support import REPOSITORY, rewriting, session
from support.losses import remember_losses
from support.patches import Patch, patching

from pipelines.store.objects import code

# No test is timed: a first call that compiles or loads a library is no failure. CI draws the same examples each time,
# as Hypothesis does there by default, so that it judges a change. Everybody else draws new ones.
IN_CI = "CI" in os.environ
settings.register_profile("reticent", deadline=None, max_examples=50, derandomize=IN_CI)
if IN_CI:  # examples also hold constants of the modules that are loaded by then, which differ between workers and runs
    providers._get_local_constants = lambda: providers._local_constants
settings.load_profile("reticent")

os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="reticent-state-")  # no test writes into the user's own
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "300")  # 20 are too few on a busy machine
# Tests share the processors: a library that starts a thread for each of them mostly waits, and busily.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

pytest_plugins = ["support.skips"]

# Prefect's services end themselves at exit, in forked processes too, where they raise: each would end with exit code 1.
os.register_at_fork(after_in_child=threading._threading_atexits.clear)

_scan_source = functools.cache(code.scan_source)


def _scanned(path: Path, module: str) -> dict[str, Any]:
    """A store remembers what a file of code says; tests make hundreds of stores, and none edits our own files."""
    return (_scan_source if path.is_relative_to(REPOSITORY) else _scan_source.__wrapped__)(path, module)


code.scan_source = _scanned
typer.main.get_command = functools.cache(typer.main.get_command)  # else made anew for each command that a test calls

LONG = (
    *("attacks", "benchmarks", "leaks", "flows", "faults", "executors", "oracles", "stages"),
    *("miss_rate", "statistical", "training", "dp", "policies"),
)
SHARED = REPOSITORY.parent / "shared"


gc.disable()  # until all is imported, nothing of which is ever garbage


def pytest_collection_finish() -> None:
    remember_losses()
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)  # little that tests make goes round, and each look takes a tenth of their time
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # xdist would begin with the files of most tests, which are the short ones
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        rewriting.rewrite_all(config)


def _rank(item: pytest.Item) -> int:
    folders = (n for n, folder in enumerate(LONG) if item.nodeid.startswith(f"tests/{folder}/"))
    return next(folders, len(LONG))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that no process is left with one of them at the end."""
    items.sort(key=_rank)


@pytest.fixture(scope="session", autouse=True)
def _session_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    session.use(tmp_path_factory)


@pytest.fixture
def patch() -> Iterator[Patch]:
    """Replacements of code for the length of a test, which fails if one of them was never used."""
    with patching() as made:
        yield made


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora, which is not part of the project."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"no real corpora at {folder}")
    return folder


@pytest.fixture(scope="session")
def families() -> dict[str, str]:
    """Folders of small models with random weights, by family."""
    from support.small_models import FAMILIES, save_family

    def make(folder: Path) -> None:
        for family in FAMILIES:
            save_family(family, folder / family)

    root = session.made_once("families", make)
    return {family: str(root / family) for family in FAMILIES}
