"""Environments for other people's tools, so that no tool changes the locked packages of ours.

A peer may need older packages than we do: dolma takes tokenizers below 0.20 and numpy below 2. What it needs is pinned
in ``benchmarks/requirements/PEER.txt``, dependencies included. Its environment is made on first use, in
``~/.cache/reticent/peers`` or a given folder, and again when the list changes; it may be removed at any time. What is
measured there is a script that imports only what the list names, and prints JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path.home() / ".cache" / "reticent" / "peers"
REQUIREMENTS = Path(__file__).parent / "requirements"


class PeerError(Exception):
    """A peer's environment could not be made, or its script failed."""


def python_of(peer: str, folder: Path = FOLDER, requirements: Path = REQUIREMENTS) -> Path:
    """Returns the interpreter of a peer's environment, which is made if need be. Building dolma's takes ten minutes.

    Raises:
        PeerError: a package could not be installed; the environment is removed.
    """
    wanted = requirements / f"{peer}.txt"
    version = "{}.{}".format(*sys.version_info)
    home = folder / f"{peer}-{hashlib.sha256(version.encode() + wanted.read_bytes()).hexdigest()[:12]}"
    python, complete = home / "bin" / "python", home / "complete"
    if complete.exists():
        return python
    print(f"making an environment for {peer} in {home}; once, and it may take minutes", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    commands = (
        [sys.executable, "-m", "venv", str(home)],
        [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(wanted)],
    )
    try:
        for command in commands:
            _output(command, _environment())
        complete.touch()
    except PeerError as error:
        raise PeerError(f"no environment for {peer}: {error}") from None
    finally:
        if not complete.exists():
            shutil.rmtree(home, ignore_errors=True)
    return python


def run(
    peer: str,
    script: Path,
    *arguments: str,
    folder: Path = FOLDER,
    requirements: Path = REQUIREMENTS,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Runs a script in a peer's environment, and returns the JSON document in its last line of output.

    Raises:
        PeerError: the environment could not be made, or the script failed.
    """
    python = python_of(peer, folder, requirements)
    return json_of([str(python), str(script), *arguments], {**_environment(), **(variables or {})})


def json_of(command: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Runs a command, and returns the JSON document in its last line of output.

    Raises:
        PeerError: the command failed, or the line is no JSON.
    """
    lines = _output(command, environment).splitlines()
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        raise PeerError("the last line of the output is no JSON") from None
    return found


def _environment() -> dict[str, str]:
    """Returns our environment, without the variables that would show the peer our packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def _output(command: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise PeerError(lines[-1] if lines else f"{Path(command[0]).name} ended with code {done.returncode}")
    return done.stdout
