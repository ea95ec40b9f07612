"""Runs a page of documentation from top to bottom, as a reader would who copies its code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from support import REPOSITORY, child_environment
from support.project import prefect_home, warm_commands
from support.shared_server import shared_server

_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.S | re.M)
# That one shell block may take.
_SECONDS = 600.0


def blocks(text: str) -> list[tuple[str, str]]:
    """The code of a page that is run: language and text."""
    return _BLOCK.findall(text)


def run_page(page: Path, folder: Path, *, is_alone: bool = True) -> tuple[str, dict[str, Any]]:
    """Runs the shell and Python code of a page in order, in one folder.

    Variables that a shell block exports stay, Python blocks share their names, and ``reticent`` is that of this
    checkout. Files are written by the code itself. Code of other languages is not run.

    Args:
        page: Markdown.
        folder: where it runs; made.
        is_alone: True if each command is a process of its own and each run starts a server, as a reader's do. Else
            commands are children of `support.warm_cli` without input, and runs share the session's server and build
            in their own process.

    Returns:
        What shell blocks printed, and the names of the Python blocks.

    Raises:
        AssertionError: a command failed; with what it said.
    """
    folder.mkdir(parents=True)
    commands = folder / ".bin"
    commands.mkdir()
    home = prefect_home(folder / ".prefect")
    environment = child_environment(PREFECT_HOME=str(home), PATH=f"{commands}{os.pathsep}{os.environ['PATH']}")
    if is_alone:
        (commands / "reticent").write_text(f'#!/bin/sh\nexec {sys.executable} -m flows.cli "$@"\n')
        (commands / "reticent").chmod(0o755)
    else:
        warm_commands().write_command(commands / "reticent", _SECONDS)
        environment |= shared_server() | {"RETICENT__RUNTIME__WORKERS": "1"}
    said, names = "", {"__name__": page.stem}
    for number, (language, code) in enumerate(blocks(page.read_text("utf-8")), 1):
        where = f"{page.relative_to(REPOSITORY)}, block {number}"
        if language == "python":
            before = Path.cwd()
            os.chdir(folder)
            try:
                exec(compile(code, where, "exec"), names)
            finally:
                os.chdir(before)
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{code}\nenv -0 > {folder}/.environment"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{where} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        said += done.stdout
        kept = (folder / ".environment").read_text().split("\0")
        environment = dict(line.split("=", 1) for line in kept if "=" in line)
    return said, names
