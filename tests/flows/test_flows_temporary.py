"""What a killed run leaves in the temporary folder: all of it in one folder, which the next run removes."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import run_command
from support.project import prefect_home, small_project
from support.waiting import wait_for

OURS = f"reticent-{os.geteuid()}-"
SHARED = Path("/dev/shm")
HOLD = """
import sys
from flows.running.temporary import temporary_files
with temporary_files():
    import os, tempfile
    print(tempfile.gettempdir(), os.environ["TMPDIR"], flush=True)
    sys.stdin.read()
"""


class Held:
    """A process that is inside `temporary_files`."""

    def __init__(self, base: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD],
            env={**os.environ, "TMPDIR": str(base)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @functools.cached_property
    def folder(self) -> Path:
        """Its folder, once it is inside."""
        assert self.process.stdout is not None
        folder, variable = self.process.stdout.readline().split()
        assert folder == variable
        return Path(folder)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.communicate("", timeout=120)


@pytest.fixture
def base() -> Iterator[Path]:
    """A temporary folder with a short path: a socket's may have 107 characters."""
    made = Path(tempfile.mkdtemp(prefix="rt-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_process_has_a_folder_of_its_own_that_goes_with_it(base: Path) -> None:
    held = Held(base)
    assert held.folder.parent == base
    assert held.folder.name.startswith(OURS)
    assert held.folder.stat().st_mode & 0o777 == 0o700
    (held.folder / "something").write_text("x")
    held.end()
    assert _names(base) == []


def test_the_next_process_removes_what_a_killed_one_left_and_nothing_else(base: Path) -> None:
    """Never what belongs to a living process, or to somebody else, or is no folder of ours at all."""
    alive, dead = Held(base), Held(base)
    (dead.folder / "pymp-x").mkdir()
    (dead.folder / "pymp-x/listener").write_text("x")
    (alive.folder / "file").write_text("x")
    dead.kill()
    (base / "other-tool").mkdir()
    (base / f"{OURS}afile").write_text("x")
    (base / "elsewhere").mkdir()
    (base / "elsewhere/precious").write_text("x")
    (base / f"{OURS}alink").symlink_to(base / "elsewhere")
    foreign = base / f"{OURS}foreign"
    foreign.mkdir()
    (foreign / "file").write_text("x")
    if os.geteuid() == 0:
        os.chown(foreign, 54_321, 54_321)
    expected = {alive.folder.name, "other-tool", f"{OURS}afile", "elsewhere", f"{OURS}alink"}
    expected |= {foreign.name} if os.geteuid() == 0 else set()
    third = Held(base)
    assert {third.folder.name, *expected} == set(_names(base))
    assert (alive.folder / "file").exists()
    assert (base / "elsewhere/precious").exists()
    third.end()
    alive.end()
    assert set(_names(base)) == expected - {alive.folder.name}


def test_a_folder_whose_owner_is_just_being_born_is_not_taken_from_it(base: Path) -> None:
    """Many at once: each keeps its own folder, although all of them look for dead ones."""
    processes = [Held(base) for _ in range(8)]
    folders = [process.folder for process in processes]
    assert len(set(folders)) == 8
    assert all(folder.is_dir() for folder in folders)
    for process in processes:
        process.end()
    assert _names(base) == []


def test_inside_one_process_the_setting_is_taken_back_and_the_folder_stays(base: Path) -> None:
    """A fork server stands in it, and serves the next run of the same process."""
    code = """
import os, tempfile
from pathlib import Path
from flows.running.temporary import temporary_files
before = tempfile.gettempdir()
seen = []
for _ in range(2):
    with temporary_files():
        with temporary_files():
            seen.append(tempfile.gettempdir())
    assert tempfile.gettempdir() == before == os.environ["TMPDIR"]
    assert Path(seen[0]).is_dir()
assert seen[0] == seen[1] != before
"""
    environment = {**os.environ, "TMPDIR": str(base)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert _names(base) == []


def test_a_path_that_leaves_no_room_for_a_sockets_name_is_not_made_longer(base: Path) -> None:
    long = base / ("x" * 60)
    long.mkdir()
    code = "import tempfile\nfrom flows.running.temporary import temporary_files\n"
    code += "with temporary_files(): print(tempfile.gettempdir())"
    environment = {**os.environ, "TMPDIR": str(long)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(long)


def _semaphores(folders: set[str]) -> list[str]:
    return [path.name for folder in folders for path in SHARED.glob(f"sem.{folder}-*")]


def _redact(base: Path, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "redact", "-p", "digits", "--workers", "2", "--any-language", "-"],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(base)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr.txt").open("w"),
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
def test_workers_leave_nothing_that_the_next_command_does_not_remove(base: Path, tmp_path: Path) -> None:
    """A fork server's socket and five semaphores stayed for ever after each kill of all processes at once."""
    first = _redact(base, tmp_path)
    assert first.stdin is not None
    first.stdin.write("call 12\n")
    first.stdin.flush()
    wait_for("the fork server", lambda: list(base.rglob("listener-*")), process=first)
    folders = set(_names(base))
    assert [name for name in folders if not name.startswith(OURS)] == []
    wait_for("semaphores", lambda: _semaphores(folders) or not SHARED.is_dir(), process=first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    second = _redact(base, tmp_path)
    wait_for("another folder", lambda: set(_names(base)) - folders, process=second)
    folders |= set(_names(base))
    out, _ = second.communicate("call 34\n", timeout=60)
    assert second.returncode == 0, (tmp_path / "stderr.txt").read_text()
    assert json.loads(out)["redacted_text"] == "call <MASK>"
    assert _names(base) == []
    assert _semaphores(folders) == []


@pytest.mark.slow
def test_a_killed_run_leaves_one_folder_and_the_next_run_none(base: Path, tmp_path: Path) -> None:
    config = small_project(tmp_path, dialogues=40, workers=2)
    command = [sys.executable, "-m", "flows.cli", "run", str(config)]
    home = str(prefect_home(tmp_path / ".prefect"))
    environment = {**os.environ, "TMPDIR": str(base), "PREFECT_HOME": home}
    work = tmp_path / "reticent-store/private/manifests/redact"
    first = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_for("a redacted partition", lambda: list(work.glob("*")), 240, process=first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert [name for name in _names(base) if not name.startswith(OURS)] == []
    assert _names(base) != []
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert _names(base) == []


def test_what_multiprocessing_keeps_in_the_folder_is_cleared_before_it(base: Path) -> None:
    """Guards a traceback at the end of a finished run: its folder was gone before multiprocessing looked into it."""
    code = "import multiprocessing.util as u\nfrom flows.running.temporary import temporary_files\n"
    code += "with temporary_files():\n    print(u.get_temp_dir())"
    done = run_command([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(base)}, check=True)
    assert done.stderr == ""
    assert f"{base}/reticent-" in done.stdout
    assert list(base.iterdir()) == []
