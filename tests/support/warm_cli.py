"""Runs commands of ``reticent``, each in a child of one process that has loaded what they need.

A command of its own process is mostly imports. And another user may not be able to read the place where Python is
installed, so that nothing may be left to load.

As a script it reads a line of JSON for each command, ``[user id, working folder, [argument...], environment]``, and
answers with ``[exit code, output, error output]``. With an argument, a settings file, it warms up first.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

READING = (
    ("status",),
    ("plan",),
    ("inspect", "redact", "--config"),
    ("show", "redacted", "--config"),
    ("report",),
    ("runs",),
    ("diff", "latest", "previous", "--config"),
    ("ledger",),
    ("dedup-stats",),
    ("verify",),
)
WRITING = (
    ("run",),
    ("run", "--dry-run"),
    ("verify", "--repair"),
    ("gc",),
    ("adopt", "train", "0123456789", "--config"),
    ("sample",),
    ("estimate",),
    ("review", "--status"),
    ("review", "--no-browser", "--reviewer", "ann"),
)
SECONDS = 300
LANGUAGE = ("plan", "run", "estimate", "evaluate-policy")
"""Commands that may load the language model, to see early whether it is there: most of what they take."""


class WarmCommands:
    """The process, seen from a test.

    Args:
        config: settings of a store to warm up on, without a run in it; None where a child may load what is missing.
    """

    def __init__(self, config: Path | None = None) -> None:
        command = [sys.executable, str(Path(__file__)), *([] if config is None else [str(config)])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(
        self, folder: Path, arguments: Sequence[str], environment: dict[str, str], user: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """``reticent ARGUMENTS`` in a folder, with this environment and no other; as another user, if one is named."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([user, str(folder), arguments, environment]) + "\n")
        self._process.stdin.flush()
        return subprocess.CompletedProcess(arguments, *json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


def _load() -> None:
    """Loads what most commands import as they begin: themselves, and the settings of every stage."""
    import importlib
    import pkgutil

    import flows.commands
    from pipelines.graph import config_class, config_references

    for module in pkgutil.iter_modules(flows.commands.__path__, "flows.commands."):
        importlib.import_module(module.name)
    for reference in config_references().values():
        config_class(reference)


def _warm_up(config: str) -> None:
    """Loads what the commands load, by running them on a store of this user's own, without a run in it."""
    from flows.arguments import app

    for command in (*READING, *WRITING):
        if command[:1] not in (("run",), ("review",), ("estimate",), ("sample",)) or "--dry-run" in command:
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                app([*command, config], standalone_mode=False)


def _run(user: int, folder: str, arguments: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
    """One command."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(error.fileno(), 2)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            signal.alarm(SECONDS)
            if user:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            sys.argv = ["reticent", *arguments]
            sys.path[0] = folder  # as of `python -m`
            main()
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, error):
            file.seek(0)
            texts.append(file.read().decode())
        return os.waitstatus_to_exitcode(status), texts[0], texts[1]


if __name__ == "__main__":
    import encodings.idna  # noqa: F401
    import pwd  # noqa: F401
    import traceback  # noqa: F401

    import polars  # noqa: F401

    import flows.arguments
    import flows.commands.review
    import flows.review.server  # noqa: F401
    from flows.cli import main

    _load()
    for given in sys.argv[1:]:
        _warm_up(given)
    for line in sys.stdin:
        if json.loads(line)[2][0] in LANGUAGE:
            import spacy  # noqa: F401  (and with it torch)
        print(json.dumps(_run(*json.loads(line))), flush=True)
