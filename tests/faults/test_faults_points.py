"""Every step of building and publishing, one after the other: killed there, or the disk full there.

On a graph of four small stages, one of which writes both roots, so that all steps can be tried in seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from inject import die, full_disk, read_only, striking
from support.toy import Toy, drive, ran, use_toy_graph

from pipelines.errors import StoreError
from pipelines.store.objects import runs
from pipelines.store.objects.session import Session
from pipelines.store.upkeep.maintenance import adopt, gc, verify
from pipelines.store.upkeep.views import publish_views

CRASHED = 3


@dataclass
class Store:
    """One store of the toy project."""

    toy: Toy
    folder: Path
    changes: dict[str, object] = field(default_factory=dict)

    def session(self, **changes: object) -> Session:
        roots = {"private_root": str(self.folder / "private"), "public_root": str(self.folder / "public")}
        return self.toy.session(**roots, secret_file=str(self.toy.folder / "secret"), **changes)

    def run(self, **changes: object) -> set[str]:
        """A whole run, as a flow does it, with its views and its record. Returns what was built."""
        session = self.session(**changes)
        outcomes = drive(session)
        publish_views(session, outcomes)
        session.stat_cache.save()
        runs.record(session, outcomes, {"state": "completed"})
        return ran(outcomes)

    def data(self) -> dict[str, bytes]:
        return {
            str(p.relative_to(self.folder)): p.read_bytes()
            for p in sorted(self.folder.glob("*/objects/**/*"))
            if p.is_file()
            and p.name != "manifest.json"  # holds timings of nothing, but the order of its making is no matter
        }

    def assert_whole(self) -> None:
        """What readers see is whole: every artifact, every link of ``latest/``."""
        if not (self.folder / "private/store.json").exists() or not (self.folder / "public/objects").exists():
            return
        roots = self.session().roots
        assert [c for c in verify(roots) if c.problem] == []
        for root in ("private", "public"):
            for link in (self.folder / root / "latest").iterdir():
                if not link.name.startswith("."):
                    assert link.exists()
                    assert all(part.exists() for part in link.iterdir())

    def assert_finished(self, expected: dict[str, bytes]) -> None:
        assert self.data() == expected
        gc(self.session().roots, keep_runs=1, dry_run=False)
        for root in ("private", "public"):
            assert list((self.folder / root / "work").iterdir()) == []
        for pattern in ("private/manifests/*/.*", "*/latest/.*", "*/views/*/.*"):
            assert list(self.folder.glob(pattern)) == []
        assert self.data() == expected
        self.assert_whole()


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """One input file: every kind of stage once."""
    made = use_toy_graph(monkeypatch, tmp_path)
    made.write("a.txt", "alpha text")
    (tmp_path / "secret").write_text("5" * 64)
    return made


@pytest.fixture
def fast() -> Iterator[Path]:
    """A folder in memory if there is one, since these tests flush thousands of files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


def _killed_at(store: Store, at: int | None, work: Callable[[Store], object]) -> bool:
    """Does ``work`` in a child that dies at step ``at``. Returns whether it died; False if it came to its end."""
    store.toy.run_number += 10
    child = os.fork()
    if child == 0:
        try:
            with striking([store.folder], die, at):
                work(store)
        except BaseException:
            os._exit(CRASHED)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


THOROUGH = [pytest.param(True, marks=pytest.mark.slow), False]
"""Strike at every step, or at a few, spread over the kinds of steps."""

FEW = 12


def _kind(step: str) -> str:
    """The same for the same operation on the same file of another artifact."""
    return re.sub(r"/(letters|upper|count|join)\b", "/stage", re.sub(r"[0-9a-f]{12,}|\d+", "#", step))


def _each_step(
    toy: Toy,
    folder: Path,
    before: Callable[[Store], object] | None,
    work: Callable[[Store], object],
    thorough: bool,
    only: str = "",
) -> Iterator[tuple[int, Store]]:
    """For each step that ``work`` takes, its number and a store that is as ``before`` left it; at last, one past it.

    Args:
        thorough: every step; otherwise a few of those that the pattern ``only`` is found in.
    """
    first, trial = Store(toy, folder / "first"), Store(toy, folder / "store")
    first.folder.mkdir()
    if before is not None:
        before(first)
    shutil.copytree(first.folder, trial.folder, symlinks=True)
    with striking([trial.folder], die, None) as counter:
        work(trial)
    shutil.rmtree(trial.folder)
    numbers = list(range(len(counter.steps)))
    if not thorough:
        numbers = _spread([n for n in numbers if re.search(only, counter.steps[n])], counter.steps)
    for number in (*numbers, len(counter.steps)):
        shutil.copytree(first.folder, trial.folder, symlinks=True)
        yield number, trial
        shutil.rmtree(trial.folder)


def _spread(numbers: list[int], steps: list[str]) -> list[int]:
    """At most ``FEW`` steps of as many kinds; of the kinds in turn their first, second, … occurrence."""
    by_kind: dict[str, list[int]] = {}
    for number in numbers:
        by_kind.setdefault(_kind(steps[number]), []).append(number)
    turns = [found[turn % len(found)] for turn, found in enumerate(by_kind.values())]
    return sorted({turns[round(i * (len(turns) - 1) / (FEW - 1))] for i in range(FEW)})


def _expected(toy: Toy, folder: Path) -> dict[str, bytes]:
    store = Store(toy, folder / "undisturbed")
    store.run()
    return store.data()


def _drive(store: Store) -> None:
    drive(store.session())


def _damage(store: Store) -> None:
    store.run()
    for root, name in (("private", "upper.txt"), ("public", "public.txt")):
        path = next((store.folder / root / "objects/upper").rglob(name))
        path.write_bytes(path.read_bytes() + b"!")
    next((store.folder / "private/objects/count").rglob("count.txt")).unlink()


def _two_settings(store: Store) -> None:
    store.toy.settings = {"upper": {"suffix": "?"}}
    store.run()
    store.toy.settings = {}
    store.run()


def _force(store: Store) -> None:
    store.run(forced=("upper", "count"))


def _gc(store: Store) -> None:
    gc(store.session().roots, keep_runs=1, dry_run=False)


CASES: dict[str, tuple[Callable[[Store], object] | None, Callable[[Store], object], int]] = {
    "from nothing": (None, Store.run, 130),
    "forced": (Store.run, _force, 60),
    "damaged": (_damage, Store.run, 60),
    "gc": (_two_settings, _gc, 15),
}
"""Name: what was there before, what is killed, and how many steps it has at the least."""


QUICK = ("from nothing",)


def _assert_died(died: list[bool], at_least: int) -> None:
    """At every step but the one past the end."""
    assert died.pop() is False
    assert all(died)
    assert len(died) >= at_least


@pytest.mark.parametrize("thorough", THOROUGH)
@pytest.mark.parametrize(
    "case", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_killed_at_every_step(toy: Toy, fast: Path, case: str, thorough: bool) -> None:
    before, work, at_least = CASES[case]
    expected = _expected(toy, fast)
    died: list[bool] = []
    for number, store in _each_step(toy, fast, before, work, thorough):
        died.append(_killed_at(store, number, work))
        if case == "forced":  # for a moment the old artifact is gone and the new one not yet there, but never a part
            assert [c for c in verify(store.session().roots) if c.problem] == []
        elif case != "damaged":
            store.assert_whole()
        if case == "gc":
            gc(store.session().roots, keep_runs=1, dry_run=False)
            assert store.run() == set(), number  # nothing of the latest run was collected
        else:
            _force(store) if case == "forced" else store.run()
        store.assert_finished(expected)
    _assert_died(died, at_least if thorough else 5)


@pytest.mark.parametrize("thorough", THOROUGH)
@pytest.mark.parametrize(
    ("fault", "word", "lasting"),
    [
        (full_disk, "ENOSPC", True),
        pytest.param(full_disk, "ENOSPC", False, marks=pytest.mark.slow),
        pytest.param(read_only, "EROFS", True, marks=pytest.mark.slow),
        (read_only, "EROFS", False),
    ],
)
def test_the_disk_fails_at_every_step(
    toy: Toy, fast: Path, fault: Callable[[str], None], word: str, lasting: bool, thorough: bool
) -> None:
    """A clear error at each step, nothing half-written, and the next run completes with the same bytes."""
    expected = _expected(toy, fast)
    messages = []
    for number, store in _each_step(toy, fast, None, _drive, thorough):
        try:
            with striking([store.folder], fault, number, from_then_on=lasting):
                _drive(store)
        except StoreError as error:
            messages.append(str(error))
        store.assert_whole()
        store.run()
        store.assert_finished(expected)
    clear = [m for m in messages if (word in m and "what was finished is kept" in m) or "cannot be written" in m]
    assert clear == messages
    assert len(messages) > (50 if thorough else 8)


@pytest.mark.slow
@pytest.mark.parametrize("thorough", THOROUGH)
def test_killed_while_adopting(toy: Toy, fast: Path, thorough: bool) -> None:
    """An adopted artifact is there whole or not at all."""
    died: list[bool] = []

    def before(store: Store) -> None:
        store.run()
        toy.edit("count", "total % ", "7 + total % ")

    def work(store: Store) -> str:
        session = store.session()
        kept = [r for r in runs.records(session.roots) if r.get("state") == "completed"][-1]
        old = next(str(key) for stage, _, key in kept["artifacts"] if stage == "count")
        new = adopt(session, "count", old[:10])
        assert new != old
        return new

    for number, store in _each_step(toy, fast, before, work, thorough):
        died.append(_killed_at(store, number, work))
        store.assert_whole()
        assert work(store) == work(store)
        assert store.run() == set()
    _assert_died(died, 30 if thorough else 10)


@pytest.mark.slow
@pytest.mark.parametrize("thorough", THOROUGH)
def test_scratch_survives_a_kill_until_the_artifact_exists_and_not_beyond(toy: Toy, fast: Path, thorough: bool) -> None:
    """Checkpoints are gone on with; but a forced build never takes those of a finished one for its own.

    Or a second model, trained by force, would pass for the first one in the privacy ledger.
    """
    toy.edit(
        "count",
        "def run(ctx):",
        "def run(ctx):\n"
        "    with (ctx.out.scratch_folder / 'notes').open('a') as notes:\n        notes.write('x')\n"
        "    seen = __import__('pathlib').Path(__file__).with_name('seen')\n"
        "    seen.write_text((ctx.out.scratch_folder / 'notes').read_text())",
    )
    seen = toy.code / "seen"
    found = set()
    for number, store in _each_step(toy, fast, None, _drive, thorough, only=r"/(letters|count)(/|$)"):
        seen.unlink(missing_ok=True)
        _killed_at(store, number, _drive)
        had_run = seen.exists()
        exists = any((store.folder / "private/manifests/count").glob("*.json"))
        store.run(forced=("count",))
        assert seen.read_text() == ("xx" if had_run and not exists else "x")
        found.add((had_run, exists))
    assert found == {(False, False), (True, False), (True, True)}
