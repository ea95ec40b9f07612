"""What the clean-up of a store takes, and what it leaves."""

from __future__ import annotations

import os
import time

from support.toy import Toy, drive, joint_manifests, ran

from pipelines.store.objects import runs
from pipelines.store.place.roots import REBUILDABLE, SAMPLE_EXAMPLES, Roots
from pipelines.store.upkeep.maintenance import gc
from pipelines.store.upkeep.views import publish_views


def recorded(toy: Toy) -> Roots:
    """The store after a whole run that stands in its record and its views."""
    session = toy.session()
    outcomes = drive(session)
    publish_views(session, outcomes)
    runs.record(session, outcomes, {"state": "completed"})
    return session.roots


def test_gc_keeps_what_the_newest_runs_used(toy: Toy) -> None:
    for suffix in ("1", "2", "3"):
        toy.settings = {"upper": {"suffix": suffix}}
        roots = recorded(toy)
    count = len(joint_manifests(toy))
    assert gc(roots, keep_runs=2, dry_run=True)["num_objects"] > 0
    assert len(joint_manifests(toy)) == count
    gc(roots, keep_runs=2, dry_run=False)
    toy.settings = {"upper": {"suffix": "2"}}
    assert ran(drive(toy.session())) == set()
    toy.settings = {"upper": {"suffix": "1"}}
    assert ran(drive(toy.session())) == {"upper/p-a", "upper/p-b", "upper/p-c", "join"}
    assert [p.read_text() for p in sorted((toy.folder / "private/latest/upper").iterdir())]


def test_gc_after_a_partial_and_a_failed_run_keeps_what_is_shown(toy: Toy) -> None:
    recorded(toy)
    toy.write("d.txt", "del")
    session = toy.session(selected=("letters",))
    partial = [o for o in drive(session) if o.stage == "letters"]
    runs.record(session, partial, {"state": "completed"})
    session = toy.session()
    runs.record(session, drive(session)[:4], {"state": "failed"}, make_latest=False)
    count = len(joint_manifests(toy))
    gc(toy.session().roots, keep_runs=1, dry_run=False)
    assert len(joint_manifests(toy)) == count - 3  # only what no record names: upper of d, count and join
    (toy.input / "d.txt").unlink()
    assert ran(drive(toy.session())) == set()


def test_gc_removes_a_first_look(toy: Toy) -> None:
    roots = recorded(toy)
    folder = roots.private / SAMPLE_EXAMPLES
    folder.mkdir()
    (folder / "examples.txt").write_text("private text")
    gc(roots, keep_runs=1, dry_run=True)
    assert list(folder.iterdir())
    gc(roots, keep_runs=1, dry_run=False)
    assert not list(folder.iterdir())


def test_gc_keeps_what_failures_left_for_a_month(toy: Toy) -> None:
    roots = recorded(toy)
    failures = roots.private / "failures"
    for name in ("old", "new"):
        (failures / f"gate-{name}").mkdir(parents=True)
        (failures / f"gate-{name}/hits.parquet").write_text("x")
        (failures / f"redact-{name}.json").write_text("x")
    month_ago = time.time() - 31 * 86_400
    for path in (failures / "gate-old/hits.parquet", failures / "gate-old", failures / "redact-old.json"):
        os.utime(path, (month_ago, month_ago))
    gc(roots, keep_runs=1, dry_run=True)
    assert len(list(failures.iterdir())) == 4
    gc(roots, keep_runs=1, dry_run=False)
    assert {p.name for p in failures.iterdir()} == {"gate-new", "redact-new.json"}


def test_gc_counts_the_runs_of_a_version_that_had_a_stage_less(toy: Toy) -> None:
    """Else the artifacts of all nights before an upgrade stayed until so many nights after it."""
    for suffix in ("1", "2"):
        toy.settings = {"upper": {"suffix": suffix}}
        session = toy.session()
        outcomes = drive(session)
        runs.record(session, [o for o in outcomes if o.stage != "count"], {"state": "completed"})
    assert gc(toy.session().roots, keep_runs=2, dry_run=True)["num_objects"] == 1  # what nobody recorded
    assert gc(toy.session().roots, keep_runs=1, dry_run=True)["num_objects"] > 1


def test_gc_keeps_what_stages_can_make_again_for_a_week_after_its_last_use(toy: Toy) -> None:
    roots = recorded(toy)
    kept = roots.cache / REBUILDABLE
    for name, days in (("unused", 8), ("used", 6)):
        (kept / name).mkdir(parents=True)
        (kept / name / "weights").write_text("x")
        long_ago = time.time() - 30 * 86_400
        os.utime(kept / name / "weights", (long_ago, long_ago))
        os.utime(kept / name, (time.time() - days * 86_400,) * 2)
    gc(roots, keep_runs=1, dry_run=False)
    assert [path.name for path in kept.iterdir()] == ["used"]
