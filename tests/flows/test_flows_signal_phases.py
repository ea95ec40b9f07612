"""A signal ends the command line with its own exit code and a message, whatever it was doing at that moment.

What a command does when the signal comes is chosen by making one import last for ever, or by settings that come
through a pipe which nobody fills: then there is no doubt where it was.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.project import prefect_home, reticent, small_project
from support.waiting import slowness, wait_for

SLOW_IMPORT = """
import os, sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name != os.environ.get("SLOW_MODULE"):
            return None
        class Swallows:
            def __del__(self):
                mark()
                time.sleep(3600)
        def mark():
            with open(os.environ["SLOW_MARK"], "w") as file:
                file.write("now")
        if os.environ.get("SLOW_HOW") == "swallowed":
            del_me = Swallows()
            del del_me
        else:
            mark()
            if os.environ.get("SLOW_HOW") == "stubborn":
                try:
                    time.sleep(3600)
                except KeyboardInterrupt:
                    os.unlink(os.environ["SLOW_MARK"])
        time.sleep(3600)

sys.meta_path.insert(0, Slow())
"""
INTERRUPT, TERMINATE = (signal.SIGINT, 130), (signal.SIGTERM, 143)
CODES = pytest.mark.parametrize(("number", "code"), [INTERRUPT, TERMINATE])
MESSAGE = "reticent: interrupted; what was finished is kept, run again to go on"


class Command:
    """``reticent ARGUMENTS`` in a session of its own, about to import a module for ever."""

    def __init__(self, folder: Path, *arguments: str, slow: str = "", how: str = "") -> None:
        (folder / "slow").mkdir(exist_ok=True)
        (folder / "slow/sitecustomize.py").write_text(SLOW_IMPORT)
        self.mark = folder / "slow/reached"
        self._error = folder / "stderr.txt"
        environment = {
            **os.environ,
            "PREFECT_HOME": str(prefect_home(folder / ".prefect")),
            "PYTHONPATH": str(folder / "slow"),
            "SLOW_MODULE": slow,
            "SLOW_MARK": str(self.mark),
            "SLOW_HOW": how,
        }
        environment.pop("PREFECT_API_URL", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=(folder / "stdout.txt").open("w"),
            stderr=self._error.open("w"),
            start_new_session=True,
        )

    def error(self) -> str:
        return self._error.read_text()

    def wait_until(self, reached: Callable[[], bool], seconds: float = 60, pause: float = 0.02) -> None:
        wait_for("its moment", reached, seconds, process=self.process, pause=pause)

    def assert_ends(self, code: int, *, within: float) -> None:
        started = time.monotonic()
        try:
            self.process.wait(timeout=120)
        finally:
            self._kill()
        assert self.process.returncode == code, self.error()
        assert time.monotonic() - started < within * slowness(), "it ended, but late"
        assert self.error().count(MESSAGE) == 1, self.error()
        assert "Traceback" not in self.error()
        assert "ignored" not in self.error()

    def _kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _is_read(pipe: Path) -> bool:
    """Whether somebody reads from a pipe; from then on somebody holds the other end as well."""
    try:
        os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    return True


def _server(session: int) -> bool:
    found = subprocess.run(["ps", "-wweo", "sess,args"], capture_output=True, text=True, check=True).stdout
    return any(re.match(rf"\s*{session}\s.*uvicorn", line) for line in found.splitlines())


IMPORTS = [
    (("--help",), "typer"),
    (("plan",), "flows.arguments.run"),
    (("plan",), "flows.commands.plan"),
    (("status",), "pipelines.store.building.plan"),
    (("inspect", "redact"), "flows.commands.inspect"),
    (("review", "--status"), "flows.commands.review"),
    (("run",), "prefect"),
    (("run",), "flows.nightly"),
]


@pytest.mark.parametrize(
    ("command", "slow", "number", "code"),
    [
        *((*place, *INTERRUPT) for place in IMPORTS[:-2]),
        *(pytest.param(*place, *INTERRUPT, marks=pytest.mark.slow) for place in IMPORTS[-2:]),
        (*IMPORTS[0], *TERMINATE),
        pytest.param(*IMPORTS[-1], *TERMINATE, marks=pytest.mark.slow),
    ],
)
def test_while_something_is_imported(
    tmp_path: Path, command: tuple[str, ...], slow: str, number: signal.Signals, code: int
) -> None:
    """The command line's library makes 130 of every interrupt, and before it is loaded nothing caught a signal.

    One piece of code takes both signals: SIGTERM is tried at the first import and at the last, and once below.
    """
    small_project(tmp_path, dialogues=2)
    started = Command(tmp_path, *command, slow=slow)
    started.wait_until(started.mark.exists)
    started.process.send_signal(number)
    started.assert_ends(code, within=25)


READING = [("plan",), ("status",), ("inspect", "redact"), ("review", "--status"), ("run",)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "number", "code"), [*((command, *INTERRUPT) for command in READING), (("run",), *TERMINATE)]
)
def test_while_settings_are_read(tmp_path: Path, command: tuple[str, ...], number: signal.Signals, code: int) -> None:
    """A settings file on a network disk that does not answer."""
    os.mkfifo(tmp_path / "reticent.toml")
    option = ("--config",) if command[0] == "inspect" else ()
    started = Command(tmp_path, *command, *option, "reticent.toml")
    started.wait_until(lambda: _is_read(tmp_path / "reticent.toml"))
    started.process.send_signal(number)
    started.assert_ends(code, within=25)


@CODES
def test_a_swallowed_signal_is_delivered_again(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Python drops what is raised in a destructor or a callback of the import machinery, and prints a traceback."""
    small_project(tmp_path, dialogues=2)
    started = Command(tmp_path, "plan", slow="flows.commands.plan", how="swallowed")
    started.wait_until(started.mark.exists)
    started.process.send_signal(number)
    started.assert_ends(code, within=25)


def test_a_second_signal_ends_at_once_with_the_code_of_the_first(tmp_path: Path) -> None:
    """Impatience must not turn the clean end into a traceback."""
    small_project(tmp_path, dialogues=2)
    started = Command(tmp_path, "plan", slow="flows.commands.plan", how="stubborn")
    started.wait_until(started.mark.exists)
    started.process.send_signal(signal.SIGTERM)
    started.wait_until(lambda: not started.mark.exists())
    started.process.send_signal(signal.SIGINT)
    started.assert_ends(143, within=25)


@pytest.mark.parametrize(
    ("number", "code", "to_group"),
    [
        pytest.param(signal.SIGINT, 130, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, False, marks=pytest.mark.slow),
    ],
)
def test_while_the_embedded_server_starts(tmp_path: Path, number: signal.Signals, code: int, to_group: bool) -> None:
    """A keyboard's interrupt reaches the server as well; it must neither print its traceback nor live on."""
    small_project(tmp_path, dialogues=2)
    started = Command(tmp_path, "run")
    started.wait_until(lambda: _server(started.process.pid), pause=0.2)
    time.sleep(0.3)  # it is importing
    (os.killpg if to_group else os.kill)(started.process.pid, number)
    started.assert_ends(code, within=20)
    wait_for("the server's end", lambda: not _server(started.process.pid))


def _served(folder: Path) -> bool:
    return "Open this address" in (folder / "stderr.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "number", "code"),
    [("pipelines.stages.prepare.redact", signal.SIGINT, 130), ("pipelines.report.render", signal.SIGTERM, 143)],
)
def test_while_stages_are_built(tmp_path: Path, stage: str, number: signal.Signals, code: int) -> None:
    """In a worker process, where the parent waits for the result, and in a thread of Prefect's in this process."""
    config = small_project(tmp_path, dialogues=40, workers=2)
    started = Command(tmp_path, "run", slow=stage)
    started.wait_until(started.mark.exists, 240)
    started.process.send_signal(number)
    started.assert_ends(code, within=20)
    assert reticent("status", config, cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_the_review_server_ends_by_either_signal(tmp_path: Path) -> None:
    """Ctrl-C is the way to end it, as it says; a service manager's signal is an interruption."""
    config = small_project(tmp_path, dialogues=20)
    done = reticent("sample", config, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    command = ("review", "--no-browser", "--reviewer", "ann")
    started = Command(tmp_path, *command)
    started.wait_until(lambda: _served(tmp_path))
    started.process.send_signal(signal.SIGTERM)
    started.assert_ends(143, within=20)
    started = Command(tmp_path, *command)
    started.wait_until(lambda: _served(tmp_path))
    started.process.send_signal(signal.SIGINT)
    assert started.process.wait(timeout=120) == 0
    assert "sentences are reviewed" in (tmp_path / "stdout.txt").read_text()
