"""A clock that jumps: remembered digests are not trusted, run ids stay unique, and gc keeps the latest run."""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.patches import Patch, patching
from support.toy import Toy, drive, ran

from pipelines.files import write_json
from pipelines.store.objects import runs
from pipelines.store.place import statcache
from pipelines.store.place.statcache import StatCache
from pipelines.store.upkeep.maintenance import gc
from pipelines.store.upkeep.views import publish_views

SECOND = 1_000_000_000


class Clock:
    """What `time.time_ns` says; moved by the test."""

    def __init__(self, now: int) -> None:
        self.now = now

    def time_ns(self) -> int:
        return self.now


def _disguised(file: Path, text: str, stat: os.stat_result, patch: Patch) -> None:
    """Gives a file other content under the same size and times, as happens when a clock comes by a moment twice."""
    file.write_text(text)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    identity = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
    patch(statcache, "_identity", lambda _: identity)


def _length(file: Path) -> str:
    return file.read_text()


def test_an_entry_from_the_future_is_not_trusted(tmp_path: Path, patch: Patch) -> None:
    clock = Clock(time.time_ns() + SECOND)
    patch.constant(statcache, "time", clock)
    file = tmp_path / "file"
    file.write_text("before")
    stat = file.stat()
    cache = StatCache(tmp_path / "cache.json")
    assert cache.get(file, "t", _length) == "before"
    assert cache.peek(file, "t") == "before"
    clock.now = stat.st_mtime_ns  # set back to the very moment of writing, and the file is written again
    _disguised(file, "after!", stat, patch)
    assert cache.peek(file, "t") is None
    assert cache.get(file, "t", _length) == "after!"


def test_a_clock_that_goes_back_while_a_file_is_read_leaves_no_entry(tmp_path: Path, patch: Patch) -> None:
    clock = Clock(time.time_ns() + SECOND)
    patch.constant(statcache, "time", clock)
    file = tmp_path / "file"
    file.write_text("text")

    def read_and_jump(path: Path) -> str:
        clock.now -= 3600 * SECOND
        return path.read_text()

    cache = StatCache(tmp_path / "cache.json")
    assert cache.get(file, "t", read_and_jump) == "text"
    clock.now += 7200 * SECOND
    assert cache.peek(file, "t") is None


@settings(deadline=None, max_examples=80)
@given(
    touched=st.integers(-5, 5).map(lambda s: s * SECOND),
    observed=st.integers(-5 * SECOND, 5 * SECOND),
    later=st.integers(-5 * SECOND, 5 * SECOND),
)
def test_what_is_trusted_was_seen_well_after_it_was_touched_and_not_after_now(
    tmp_path_factory: pytest.TempPathFactory, touched: int, observed: int, later: int
) -> None:
    """For any order of touching, reading and asking."""
    folder = tmp_path_factory.mktemp("clock")
    try:
        file = folder / "file"
        file.write_text("x")
        start = file.stat().st_ctime_ns
        os.utime(file, ns=(start, start + touched))
        newest = max(file.stat().st_mtime_ns, file.stat().st_ctime_ns)
        clock = Clock(start + observed)
        with patching() as patch:
            patch.constant(statcache, "time", clock)
            cache = StatCache(folder / "cache.json")
            cache.get(file, "t", _length)
            clock.now = start + later
            trusted = cache.peek(file, "t") is not None
        well_after = newest <= start + observed - 50_000_000
        assert trusted == (well_after and observed <= later)
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("entry", [None, 7, [], {}, {"stat": 1, "observed_ns": 2, "value": 3}, {"stat": [1]}])
def test_a_damaged_entry_counts_as_none(tmp_path: Path, entry: object) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    write_json(tmp_path / "cache.json", {f"t\0{file}": entry})
    cache = StatCache(tmp_path / "cache.json")
    assert cache.peek(file, "t") is None
    assert cache.get(file, "t", _length) == "text"


def test_run_ids_do_not_repeat_when_the_clock_stands_still(patch: Patch) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    patch.constant(runs, "datetime", type("Still", (), {"now": staticmethod(lambda zone: now)}))
    made = {runs.new_run_id() for _ in range(500)}
    assert len(made) == 500
    assert {run_id.partition("-")[0] for run_id in made} == {"20260101T000000.000Z"}


def test_gc_keeps_the_latest_run_although_the_clock_was_set_back(toy: Toy) -> None:
    """Run ids sort by start time: the run after the jump sorts before the one from before it."""
    for run_id, suffix in (("20300101T000000Z-aaaaaa", "1"), ("20260101T000000Z-bbbbbb", "2")):
        toy.settings = {"upper": {"suffix": suffix}, "count": {"modulus": int(suffix) + 4}}
        session = toy.session(run_id=run_id)
        outcomes = drive(session)
        publish_views(session, outcomes)
        runs.record(session, outcomes, {"state": "completed"})
    roots = toy.session().roots
    gc(roots, keep_runs=1, dry_run=False)
    latest = runs.latest(roots)
    assert latest is not None
    assert latest["run_id"] == "20260101T000000Z-bbbbbb"
    assert ran(drive(toy.session())) == set()  # count has no table, so latest/ alone would not have kept it
