"""Locks of dead processes block nobody; those of living ones do, and who waits is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.toy import Toy, drive, ran

from pipelines.errors import StoreError
from pipelines.store.building.execute import execute
from pipelines.store.place.locks import exclusive_store_lock, key_lock, store_lock
from pipelines.store.place.statcache import StatCache
from pipelines.store.upkeep.maintenance import gc

HOLDER = """
import sys
from pathlib import Path
from pipelines.store.place.locks import key_lock, store_lock
root, key = Path(sys.argv[1]), sys.argv[2]
with store_lock(root), key_lock(root / "locks", key):
    print("held", flush=True)
    sys.stdin.read()
"""


def _hold(root: Path, key: str) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root), key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def _letters_key(toy: Toy) -> str:
    from pipelines.store.building.lookup import resolve_key

    session = toy.session()
    return resolve_key(session, "letters", "p-a", {})[0]


def test_the_lock_of_a_killed_process_blocks_nobody(toy: Toy) -> None:
    root = toy.session().roots.private
    holder = _hold(root, _letters_key(toy))
    with pytest.raises(StoreError, match="in use by a run"):
        gc(toy.session().roots, keep_runs=1, dry_run=True)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert (root / "locks" / f"{_letters_key(toy)}.lock").exists()
    waited: list[str] = []
    session = toy.session()
    outcome = execute(session, "letters", "p-a", {}, lambda done, total, message="": waited.append(message))
    assert outcome.state == "completed"
    assert "waiting for another run that builds the same" not in waited
    with exclusive_store_lock(root):
        pass


def test_who_waits_for_a_living_holder_is_told_and_goes_on_when_it_ends(toy: Toy) -> None:
    session = toy.session()
    holder = _hold(session.roots.private, _letters_key(toy))
    told, done = threading.Event(), threading.Event()
    messages: list[str] = []

    def progress(number: int, total: int | None, message: str = "") -> None:
        messages.append(message)
        told.set()

    def build() -> None:
        execute(session, "letters", "p-a", {}, progress)
        done.set()

    thread = threading.Thread(target=build, daemon=True)
    thread.start()
    assert told.wait(30)
    assert messages == ["waiting for another run that builds the same"]
    assert not done.wait(0.3)
    holder.communicate("")
    assert done.wait(30)
    assert ran(drive(toy.session())) == {"upper/p-a", "count", "join"}


def test_locks_are_not_inherited_by_programs_that_a_run_starts(tmp_path: Path) -> None:
    """Or the embedded server, which may outlive a killed run for a second, would hold them."""
    (tmp_path / "locks").mkdir()
    with store_lock(tmp_path), key_lock(tmp_path / "locks", "k"):
        waits = "import sys; print(flush=True); sys.stdin.read()"
        child = subprocess.Popen([sys.executable, "-c", waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()  # an interpreter that starts opens and closes files
        held = {str(link.readlink()) for link in Path(f"/proc/{child.pid}/fd").iterdir()}
        assert held
        assert not any(name.endswith(".lock") for name in held)
    with exclusive_store_lock(tmp_path):
        pass
    child.communicate(b"")


def test_a_lock_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    for lock in (store_lock, exclusive_store_lock):
        with pytest.raises(StoreError, match="could not be read or written"), lock(tmp_path / "missing"):
            pass


def test_threads_compute_digests_one_after_the_other(tmp_path: Path) -> None:
    """Two threads in ``ast.parse`` at once fail in CPython 3.11 now and then; and the work would be done twice."""
    file = tmp_path / "file"
    file.write_text("x")
    os.utime(file, ns=(1, 1))
    cache = StatCache(tmp_path / "cache.json")
    inside, most = 0, 0

    def compute(_: Path) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.01)
        inside -= 1
        return 1

    threads = [threading.Thread(target=cache.get, args=(file, f"t{i}", compute)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
