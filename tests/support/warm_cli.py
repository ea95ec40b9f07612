"""Runs commands of ``reticent`` and scripts, each in a child of one process that has loaded what they need.

A command of its own process is mostly imports. And another user may not be able to read the place where Python is
installed, so that nothing may be left to load.

As a script it listens on a socket, whose descriptor is its argument. It reads a line of JSON on each connection,
``{"folder", "arguments", "environment", "user", "seconds"}``, and answers with ``[exit code, output, error output]``;
with ``"python": true`` the arguments are words after ``python``, else after ``reticent``.
For ``{"serve", "config"}`` a child warms up on a store and listens in that folder; for ``{"script", "arguments",
"error"}`` it becomes that script, whose input and output the connection is. What listens ends with the last process
that stands in ``users`` beside the socket.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

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
_CLIENT = """#!{python} -IS
import json, os, socket, sys
request = {{"folder": os.getcwd(), "arguments": sys.argv[1:], "environment": dict(os.environ), "user": 0}}
request |= {{"seconds": {seconds}, "python": False}}
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect("{socket}")
    connection.sendall(json.dumps(request).encode() + b"\\n")
    code, out, error = json.loads(connection.makefile().read())
sys.stdout.write(out)
sys.stderr.write(error)
sys.exit(code)
"""


class WarmCommands:
    """The process, seen from a test.

    Args:
        folder: where it listens.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._user = folder / "users" / str(os.getpid())
        self._user.parent.mkdir(exist_ok=True)
        self._user.touch()

    def start(self) -> None:
        """Starts it; whoever connects waits until it has loaded all."""
        with _listener(self._folder) as listener, (self._folder / "log").open("wb") as log:
            subprocess.Popen(
                [sys.executable, __file__, str(listener.fileno()), str(self._folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    def warmed_up(self, config: Path, folder: Path) -> WarmCommands:
        """Another one, in another folder, that has run commands on a store of its own without a run in it."""
        made = WarmCommands(folder)
        assert self._ask({"serve": str(folder), "config": str(config)}) == "ready"
        return made

    def script(self, path: Path, arguments: Sequence[str], error: Path) -> socket.socket:
        """The input and the output of a script that runs as a process of its own, with its error output in a file."""
        request = {"script": str(path), "arguments": arguments, "error": str(error)}
        return self._connected(request)

    def run(
        self,
        folder: Path,
        arguments: Sequence[str],
        environment: dict[str, str],
        user: int = 0,
        seconds: float = SECONDS,
        python: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """``reticent ARGUMENTS`` in a folder, with this environment and no other; as another user, if one is named.

        With ``python`` it is ``python ARGUMENTS``: a script, or ``-m`` and a module.
        """
        request = {"folder": str(folder), "arguments": arguments, "environment": environment, "python": python}
        return subprocess.CompletedProcess(arguments, *self._ask({**request, "user": user, "seconds": seconds}))

    def write_command(self, path: Path, seconds: float) -> None:
        """Writes a program that is ``reticent`` for a shell, but for its input."""
        path.write_text(_CLIENT.format(python=sys.executable, socket=self._folder / "socket", seconds=seconds))
        path.chmod(0o755)

    def close(self) -> None:
        """Ends it, unless others use it."""
        self._user.unlink()

    def _ask(self, request: dict[str, Any]) -> Any:
        with self._connected(request) as connection, connection.makefile() as answer:
            text = answer.read()
        assert text, (self._folder / "log").read_text()
        return json.loads(text)

    def _connected(self, request: dict[str, Any]) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self._folder / "socket"))
        connection.sendall(json.dumps(request).encode() + b"\n")
        return connection


def _listener(folder: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    listener.listen(64)
    return listener


def _load() -> None:
    """Loads the commands, the settings of every stage, and the library."""
    import importlib
    import pkgutil
    import weakref

    import typer.main

    import flows.arguments
    import flows.commands
    from pipelines.graph import config_references
    from pipelines.settings.tables import config_class
    from support.loaded import load_library

    for module in pkgutil.iter_modules(flows.commands.__path__, "flows.commands."):
        importlib.import_module(module.name)
    for reference in config_references().values():
        config_class(reference)
    load_library()
    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(flows.arguments.app)
    for finalizer in list(weakref.finalize._registry):  # torch takes apart its operators one by one
        finalizer.atexit = False


def _warm_up(config: str) -> None:
    """Loads what the commands load, by running them on a store of this user's own, without a run in it."""
    from flows.arguments import app

    for command in (*READING, *WRITING):
        if command[:1] not in (("run",), ("review",), ("estimate",), ("sample",)) or "--dry-run" in command:
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                app([*command, config], standalone_mode=False)


def _serve(listener: socket.socket, folder: Path) -> None:
    """Answers each connection in a child, until the last user has ended."""
    listener.settimeout(0.5)
    gc.freeze()  # what children would look through, and copy by that
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            if any(os.path.exists(f"/proc/{user}") for user in os.listdir(folder / "users")):
                continue
            return
        with connection:
            connection.settimeout(None)
            if os.fork() == 0:
                listener.close()
                _answer(connection)
                os._exit(0)


def _answer(connection: socket.socket) -> None:
    with connection.makefile("rb", buffering=0) as lines:  # what follows the first is for the script
        request = json.loads(lines.readline())
    if "script" in request:
        _become(connection, **request)
    elif "serve" in request:
        folder = Path(request["serve"])
        _warm_up(request["config"])
        with _listener(folder) as listener:
            connection.sendall(json.dumps("ready").encode())
            connection.close()
            _serve(listener, folder)
    else:
        connection.sendall(json.dumps(_run(**request)).encode())


def _become(connection: socket.socket, script: str, arguments: list[str], error: str) -> None:
    os.setsid()
    with connection, Path(error).open("wb") as log:
        os.dup2(connection.fileno(), 0)
        os.dup2(connection.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


def _run(
    folder: str, arguments: list[str], environment: dict[str, str], user: int, seconds: float, python: bool
) -> tuple[int, str, str]:
    """One command."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(error.fileno(), 2)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            signal.alarm(round(seconds))
            if user:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            sys.argv = arguments if python else ["reticent", *arguments]
            sys.path[0] = folder  # as of `python -m`
            _end(_script if python else _command)
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, error):
            file.seek(0)
            texts.append(file.read().decode())
        return os.waitstatus_to_exitcode(status), texts[0], texts[1]


def _command() -> None:
    from flows.cli import main

    main()


def _script() -> None:
    """What `python` does with these words."""
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        path = os.path.abspath(sys.argv[0])
        sys.path[0] = os.path.dirname(path)
        runpy.run_path(path, run_name="__main__")


def _end(run: Callable[[], None]) -> NoReturn:
    """Ends as a process of its own does, but for taking apart what was loaded, which takes the longest."""
    code: object = 0
    try:
        run()
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    import encodings.idna  # noqa: F401
    import pwd  # noqa: F401

    import polars  # noqa: F401

    sys.path[0] = str(Path(__file__).parents[1])
    sys.path.insert(0, str(Path(__file__).parents[2]))  # before `tests/flows`, which would pass for the package
    import flows.arguments
    import flows.cli
    import flows.commands.review
    import flows.review.server  # noqa: F401

    del sys.path[0]

    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]))
