"""Helpers for tests that use the command line as a user would."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from support import REPOSITORY
from support.session import made_once
from support.warm_cli import WarmCommands

SMALL_MODEL = """
[train]
num_layers = 1
num_heads = 2
embedding_size = 32
context_length = 48
vocab_size = 400
epochs = 1
"""
NOISED_MODEL = f"{SMALL_MODEL}expected_batch_size = 64\nnoise_multiplier = 2.0\n"
SMALL = """
[runtime]
workers = {workers}
[corpus]
inputs = ["corpus"]
partition_documents = 20
[redact]
policies = ["customersim", "high_entity"]
conservative = "conservative"
[sample]
replicates = 1
fraction = 1.0
"""
SECRET = "5e" * 32 + "\n"


def reticent(
    *arguments: str | Path, cwd: Path, timeout: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process with a private Prefect home.

    A run starts the embedded server unless ``environment`` names another (see `support.shared_server`). The process is
    a child of `support.warm_cli`.
    """
    named = ("PREFECT_API_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL")
    variables = {name: value for name, value in os.environ.items() if name not in named}
    variables |= {"PREFECT_HOME": str(prefect_home(cwd / ".prefect")), **environment}
    return warm_commands().run(cwd, [str(argument) for argument in arguments], variables, seconds=timeout)


@functools.cache
def warm_commands() -> WarmCommands:
    """The process that the session shares."""
    return WarmCommands(made_once("warm", lambda folder: WarmCommands(folder).start(), is_live=True))


def without_prefect(**environment: str) -> dict[str, str]:
    """The environment without what Prefect reads of it, and what is given."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")} | environment


def free_port() -> int:
    """A port of loopback that nobody uses now, and that the system gives to no connection meanwhile."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = secrets.choice(range(first // 2, first))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def prefect_home(folder: Path) -> Path:
    """A home for Prefect's embedded server with an empty database, copied: to migrate each anew costs seconds."""
    if not (folder / "prefect.db").exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_empty_database(), folder / "prefect.db")
    return folder


def _empty_database() -> Path:
    home = REPOSITORY / ".pytest_cache" / f"prefect-{version('prefect')}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes share it
        if not (home / "done").exists():
            command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
            variables = without_prefect(PREFECT_HOME=str(home), PREFECT_SERVER_ANALYTICS_ENABLED="false")
            subprocess.run(command, env=variables, capture_output=True, timeout=300, check=True)
            (home / "done").touch()
    return home / "prefect.db"


def left_over(session: int, home: Path) -> list[str]:
    """Processes of a session, and those whose command names a folder."""
    found = subprocess.run(["ps", "-wweo", "sess,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if line.split()[0] == str(session) or str(home) in line]


def completed(document: dict[str, Any]) -> Counter[str]:
    """How often each stage was built, by shown name."""
    return Counter(
        f"{row['stage']}.{row['step']}" if row["step"] else row["stage"]
        for row in document["stages"]
        if row["state"] == "completed"
    )


def small_project(folder: Path, dialogues: int = 60, workers: int = 1) -> Path:
    """A settings file with the built-in corpus and a very small model."""
    from pipelines.corpus.customersim import write_customersim

    folder.mkdir(parents=True, exist_ok=True)
    write_customersim(folder / "corpus", dialogues, 0)
    config = folder / "reticent.toml"
    config.write_text(SMALL.format(workers=workers) + NOISED_MODEL)
    # Folds follow pseudonyms, which follow the store's secret: with a fresh one, a corpus this small has no document
    # in the test fold every twentieth time.
    private = folder / "reticent-store" / "private"
    private.mkdir(parents=True, mode=0o700)
    (private / "secret").write_text(SECRET)
    (private / "secret").chmod(0o600)
    return config
