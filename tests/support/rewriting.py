"""Compiles our code and rewrites the asserts of all test files, once, where several processes are to collect them.

Each process of pytest rewrites every file that it imports, unless the bytecode of an earlier one is there: a fourth of
what collecting costs. They collect in the same order, so that none finds what another has written. What they import
after an edit would be compiled by each process, too, and by each command that a test runs, where Python may write no
bytecode (``PYTHONDONTWRITEBYTECODE``).
"""

from __future__ import annotations

import compileall
import os
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from support import REPOSITORY, TESTS

OURS = ("benchmarks", "flows", "pipelines", "reticent", "tasks")


def rewrite_all(config: pytest.Config) -> None:
    """Writes the bytecode that is missing, in as many processes as there are processors."""
    state = config.stash.get(rewrite.assertstate_key, None)
    if state is None:  # --assert=plain
        return
    missing = [file for file in TESTS.rglob("*.py") if rewrite._read_pyc(file, _bytecode(file)) is None]
    missing.sort(key=lambda file: -file.stat().st_size)
    shares = [missing[n :: os.cpu_count() or 1] for n in range(os.cpu_count() or 1)]
    children = [_rewritten(share, config) for share in shares if share]
    for package in OURS:
        compileall.compile_dir(REPOSITORY / package, quiet=2)  # where it fails, whoever imports it complains
    for child in children:
        os.waitpid(child, 0)


def _bytecode(file: Path) -> Path:
    return rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"


def _rewritten(files: list[Path], config: pytest.Config) -> int:
    """The process that does it."""
    child = os.fork()
    if child:
        return child
    try:
        for file in files:
            if rewrite.try_makedirs(rewrite.get_cache_dir(file)):
                source_hash, code = rewrite._rewrite_test(file, config)
                rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, _bytecode(file))
    finally:
        os._exit(0)  # what failed is rewritten, and complained of, by whoever imports it
