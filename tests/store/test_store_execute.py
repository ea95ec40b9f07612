"""Hits, early cutoff, two roots, damage, selection: on a graph of small real stages."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest
from support.patches import Patch, killed_at
from support.toy import Toy, drive, joint_manifests, objects, ran, states

from pipelines.errors import ConfigError, PrivacyGateError, StageError, StoreError
from pipelines.store.building import execute
from pipelines.store.building.plan import make_plan
from pipelines.store.objects import runs
from pipelines.store.place.roots import open_roots
from pipelines.store.upkeep.maintenance import adopt, verify
from pipelines.store.upkeep.views import publish_views

EVERYTHING = {f"{s}/p-{p}" for s in ("letters", "upper") for p in "abc"} | {"count", "join"}


def test_second_run_is_all_cached(toy: Toy) -> None:
    assert ran(drive(toy.session())) == EVERYTHING
    before = objects(toy)
    assert set(states(drive(toy.session())).values()) == {"cached"}
    assert objects(toy) == before


def test_comment_docstring_and_unkeyed_setting_rerun_nothing(toy: Toy) -> None:
    drive(toy.session())
    toy.edit("letters", "def run(ctx):", 'def run(ctx):\n    """What it does."""\n    # why')
    toy.settings = {"letters": {"note": "changed"}}
    assert ran(drive(toy.session())) == set()


def test_helper_reruns_only_its_stage_and_early_cutoff_stops_the_wave(toy: Toy) -> None:
    drive(toy.session())
    toy.edit("helper", "VERSION = 0", "VERSION = 1")  # same output
    assert ran(drive(toy.session())) == {"upper/p-a", "upper/p-b", "upper/p-c"}
    toy.edit("helper", "VERSION = 1", "VERSION = 2")  # other output
    assert ran(drive(toy.session())) == {"upper/p-a", "upper/p-b", "upper/p-c", "join"}
    toy.edit("helper", "VERSION = 2", "VERSION = 0")  # a revert is a hit
    assert ran(drive(toy.session())) == set()


def test_file_level_inputs_ignore_other_files_of_the_artifact(toy: Toy) -> None:
    drive(toy.session())
    toy.edit("letters", "str(len(text))", "str(len(text)) + 'x'")
    assert ran(drive(toy.session())) == {"letters/p-a", "letters/p-b", "letters/p-c"}


def test_an_input_that_the_settings_do_not_read_reruns_nothing(toy: Toy) -> None:
    reading, not_reading = {"count": {"modulus": 3}}, {"count": {"modulus": 3}, "join": {"counted": False}}
    toy.settings = not_reading
    drive(toy.session())
    with_count = [m for m in joint_manifests(toy) if m["stage"] == "join"]
    assert [set(m["lineage"]["inputs"]) for m in with_count] == [{"upper"}]
    toy.settings = {**not_reading, "count": {"modulus": 4}}
    plan = {p.stage: p.action for p in make_plan(toy.session(), None) if p.partition is None}
    assert plan == {"count": "run", "join": "hit"}
    assert ran(drive(toy.session())) == {"count"}
    toy.settings = reading  # the same artifact of count again, but now it is read
    assert ran(drive(toy.session())) == {"join"}
    toy.settings = {"count": {"modulus": 4}}
    assert ran(drive(toy.session())) == {"join"}


def test_new_changed_and_removed_input(toy: Toy) -> None:
    drive(toy.session())
    toy.write("d.txt", "del")
    assert ran(drive(toy.session())) == {"letters/p-d", "upper/p-d", "count", "join"}
    toy.write("a.txt", "alpha text, longer")  # the first 8 characters stay
    assert ran(drive(toy.session())) == {"letters/p-a"}
    (toy.input / "d.txt").unlink()
    assert ran(drive(toy.session())) == set()


def test_force_rebuilds_and_selection_limits(toy: Toy) -> None:
    drive(toy.session())
    assert ran(drive(toy.session(forced=("count",)))) == {"count"}
    toy.settings = {"upper": {"suffix": "?"}, "join": {"separator": "/"}}
    found = states(drive(toy.session(selected=("upper",))))
    assert {name for name, state in found.items() if state == "completed"} == {f"upper/p-{p}" for p in "abc"}
    assert found["join"] == "skipped"
    toy.settings = {"letters": {"width": 2}}
    with pytest.raises(ConfigError, match="not cached"):
        drive(toy.session(selected=("join",)))


@pytest.mark.parametrize("how", ["flip", "truncate", "delete", "extra", "manifest", "public"])
def test_damage_is_detected_quarantined_and_rebuilt(toy: Toy, how: str) -> None:
    drive(toy.session())
    before = objects(toy)
    root = "public" if how == "public" else "private"
    name = "public.txt" if how == "public" else "upper.txt"
    path = next((toy.folder / root / "objects" / "upper").rglob(name))
    data = path.read_bytes()
    if how == "delete":
        path.unlink()
    elif how == "truncate":
        path.write_bytes(data[:-1])
    elif how == "extra":
        path.with_name("extra.txt").write_text("x")
    elif how == "manifest":
        joint = next((toy.folder / "private/manifests/upper").iterdir())
        joint.write_bytes(joint.read_bytes()[:-20])
    else:
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    problems = [c for c in verify(toy.session().roots) if c.problem]
    assert len(problems) == 1
    built = ran(drive(toy.session()))
    assert len(built) == 1
    assert built.pop().startswith("upper/")
    assert objects(toy) == before
    assert not [c for c in verify(toy.session().roots) if c.problem]


def test_unpublished_parts_are_invisible_and_replaced(toy: Toy) -> None:
    """A kill after the private rename, before the joint manifest."""
    drive(toy.session())
    before = objects(toy)
    joint = sorted((toy.folder / "private/manifests/upper").iterdir())[0]
    key = joint.stem
    joint.unlink()
    for path in (toy.folder / "public/objects/upper" / key).iterdir():
        path.unlink()
    (toy.folder / "public/objects/upper" / key).rmdir()
    assert len(ran(drive(toy.session()))) == 1
    assert objects(toy) == before


def test_failure_hides_the_message_and_keeps_the_rest(toy: Toy) -> None:
    toy.write("b.txt", "SECRET-4711")
    toy.edit("letters", "text = ", "raw = ")
    toy.edit(
        "letters",
        '    (ctx.out.folder / "letters.txt")',
        "    text = raw\n    if 'SECRET' in text:\n        raise ValueError(text)\n"
        '    (ctx.out.folder / "letters.txt")',
    )
    with pytest.raises(StageError) as caught:
        drive(toy.session())
    assert "SECRET" not in str(caught.value)
    assert "ValueError" in str(caught.value)
    assert caught.value.__cause__ is None
    notes = list((toy.folder / "private/failures").iterdir())
    assert "SECRET-4711" in notes[0].read_text()
    assert {m["stage"] for m in joint_manifests(toy)} == {"letters"}  # partition a was finished


def test_two_runs_at_once_build_each_key_once(toy: Toy) -> None:
    toy.edit("count", "def run(ctx):", "import time\n\ndef run(ctx):\n    time.sleep(0.3)")
    sessions = [toy.session(), toy.session()]
    results: list[set[str]] = [set(), set()]

    def work(i: int) -> None:
        results[i] = ran(drive(sessions[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results[0] | results[1] == EVERYTHING
    assert not results[0] & results[1]


def test_permissions_and_overlap(toy: Toy) -> None:
    drive(toy.session())
    private, public = toy.folder / "private", toy.folder / "public"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert stat.S_IMODE((private / "secret").stat().st_mode) == 0o600
    for path in private.rglob("*"):
        assert not stat.S_IMODE(path.lstat().st_mode) & 0o077 or path.is_symlink() or path.is_dir()
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o644 for p in public.rglob("*.txt"))
    private.chmod(0o755)
    assert stat.S_IMODE(open_roots(private, public).private.stat().st_mode) == 0o700  # our own: made private again
    (toy.folder / "link").symlink_to(private)
    for other in (private / "public", toy.folder / "link" / "public", private / ".." / "private" / "x"):
        with pytest.raises(PrivacyGateError, match="overlap"):
            open_roots(private, other)
    assert open_roots(toy.folder / "a" / ".." / "b", toy.folder / "a").public == toy.folder / "a"


def test_public_manifest_says_nothing_of_settings_or_keys_of_inputs(toy: Toy) -> None:
    toy.settings = {"upper": {"suffix": "canary-setting"}}
    drive(toy.session())
    for path in (toy.folder / "public").rglob("manifest.json"):
        document = json.loads(path.read_text())
        assert set(document) == {"schema_version", "stage", "files"}


def test_views_show_exactly_one_run(toy: Toy) -> None:
    session = toy.session()
    publish_views(session, drive(session))
    (toy.input / "c.txt").unlink()
    session = toy.session()
    outputs = publish_views(session, drive(session))
    assert len(list((toy.folder / "private/latest/upper").iterdir())) == 2
    shown = [p.read_text() for p in sorted((toy.folder / "public/latest/shown").iterdir())]
    assert sorted(shown) == sorted(["TXET AHPLA"[2:], "ATEB"])
    assert set(outputs) == {"upper", "shown"}


def test_plan_explains(toy: Toy) -> None:
    session = toy.session()
    record = runs.record(session, drive(session), {})
    toy.settings = {"upper": {"suffix": "?"}}
    toy.edit("count", "total % ", "1 + total % ")
    toy.write("d.txt", "del")
    plan = {f"{p.stage}/{p.partition}" if p.partition else p.stage: p for p in make_plan(toy.session(), record)}
    assert plan["letters/p-a"].action == "hit"
    assert plan["letters/p-d"].action == "run"
    assert plan["upper/p-a"].reasons == ('config.upper.suffix: "" → "?"',)
    assert plan["count"].action == "maybe"  # waits for the new partition
    assert "code: toyproject/count.py" in plan["count"].reasons
    assert plan["join"].action == "maybe"


def test_adopt_keeps_an_artifact_over_a_code_edit_only(toy: Toy) -> None:
    session = toy.session()
    outcomes = drive(session)
    runs.record(session, outcomes, {})
    old = next(o.key for o in outcomes if o.stage == "count")
    assert old is not None
    toy.edit("count", "total % ", "7 + total % ")
    new = adopt(toy.session(), "count", old[:10])
    assert new != old
    assert ran(drive(toy.session())) == set()
    manifest = next(m for m in joint_manifests(toy) if m["key"] == new)
    assert manifest["lineage"]["adopted_from"] == old
    toy.settings = {"count": {"modulus": 5}}
    with pytest.raises(ConfigError, match="other config"):
        adopt(toy.session(), "count", old[:10])


def test_seed_changes_every_key(toy: Toy) -> None:
    drive(toy.session())
    toy.seed = 1
    assert len(ran(drive(toy.session()))) >= 4


def test_unresolvable_plug_in_is_never_cached(toy: Toy) -> None:
    toy.edit(
        "count",
        "    modulus: int = 3",
        "    modulus: int = 3\n    def code_references(self, stage=None):\n        return ('no_such_plug_in.module',)",
    )
    drive(toy.session())
    assert ran(drive(toy.session())) == {"count"}


def test_a_forced_rebuild_keeps_the_old_artifact_until_the_new_one_is_there(toy: Toy) -> None:
    drive(toy.session())
    before = objects(toy)
    with killed_at("pipelines.store.building.execute", "publish"):
        drive(toy.session(forced=("count",)))
    assert objects(toy) == before
    assert ran(drive(toy.session())) == set()


def test_a_plug_in_that_builds_on_our_modules_follows_them(toy: Toy) -> None:
    from pipelines.store.objects.code import CodeDigests
    from pipelines.store.place.statcache import StatCache

    toy.session()  # forgets the modules of other tests
    toy.edit("helper", "VERSION = 0", "from pipelines.policies.detectors.digits import DigitsPolicy\n\nVERSION = 0")
    for order in (
        [["toyproject.upper"], ["pipelines.stages.prepare.redact"]],
        [["pipelines.stages.prepare.redact"], ["toyproject.upper"]],
    ):
        digests = CodeDigests(StatCache(toy.folder / "cache.json"))
        found = {tuple(references): digests.of(references) for references in order}
        assert "pipelines/policies/detectors/digits.py" in found[("toyproject.upper",)]
        assert "toyproject/helper.py" in found[("toyproject.upper",)]
        assert "pipelines/tables.py" in found[("pipelines.stages.prepare.redact",)]


def test_what_all_partitions_read_is_loaded_once_and_again_when_changed(toy: Toy, patch: Patch) -> None:
    """Its manifest may list a file for each of them, and loading it each time would take the square of their number."""
    from pipelines.store.objects import manifest as manifests

    (count,) = [outcome for outcome in drive(toy.session()) if outcome.stage == "count"]
    roots, key = toy.session().roots, count.key or ""
    loaded: list[str] = []
    load = manifests.load
    patch(manifests, "load", lambda *asked: loaded.append(asked[2]) or load(*asked))
    first = manifests.of_input(roots, "count", key)
    assert manifests.of_input(roots, "count", key) is first
    assert loaded in ([], [key])  # nothing where the run itself had asked for it
    path = roots.manifest_path("count", key)
    path.write_text(path.read_text().replace('"count"', '"other"'))
    with pytest.raises(StoreError, match="vanished"):
        manifests.of_input(roots, "count", key)
    path.unlink()
    with pytest.raises(StoreError, match="vanished"):
        manifests.of_input(roots, "count", key)


def test_every_file_of_an_artifact_is_flushed_once_before_the_artifact_exists(toy: Toy, patch: Patch) -> None:
    """A power cut then loses none; on a busy disk, flushing is what a small partition takes longest for."""
    held: list[int] = []  # open, so that no other file gets the number of one that is removed
    real = os.fsync
    patch(os, "fsync", lambda descriptor: (held.append(os.dup(descriptor)), real(descriptor)))
    drive(toy.session())
    patch.undo()
    flushed = [os.fstat(descriptor).st_ino for descriptor in held]
    for descriptor in held:
        os.close(descriptor)
    roots = toy.session().roots
    files = [path for root in (roots.private, roots.public) for path in (root / "objects").rglob("*") if path.is_file()]
    assert files
    assert {flushed.count(path.stat().st_ino) for path in files} == {1}


def test_what_all_partitions_ask_for_is_made_once(toy: Toy) -> None:
    """To make it for each would take the square of their number."""
    session = toy.session()
    assert session.partition_names("letters") is session.partition_names("upper")
    assert session.pieces("p-b")[0].name == "b.txt"
    with pytest.raises(LookupError, match="no partition p-x"):
        session.pieces("p-x")


class Counted(list):  # type: ignore[type-arg]
    """Counts how often it is gone through."""

    gone_through = 0

    def __iter__(self):  # type: ignore[no-untyped-def]
        self.gone_through += 1
        return super().__iter__()


def test_the_keys_that_partitions_read_are_gone_through_once(toy: Toy) -> None:
    names = [f"p-{letter}" for letter in "abc"]
    keys = Counted((name, f"key of {name}") for name in names)
    partition_names = lambda stage: names if execute.GRAPH[stage].partitioned else (None,)  # noqa: E731
    of_upper = list(execute.GRAPH["upper"].steps(partition_names, {"letters": keys}))
    assert [step.inputs for step in of_upper] == [{"letters": ((name, f"key of {name}"),)} for name in names]
    (of_count,) = execute.GRAPH["count"].steps(partition_names, {"letters": keys})
    assert of_count.inputs == {"letters": tuple(keys)}
    (lacks_one,) = execute.GRAPH["count"].steps(partition_names, {"letters": [("p-a", "key of p-a")]})
    assert lacks_one.missing == "letters"
    assert lacks_one.inputs == {}
    assert keys.gone_through == 3  # by upper, by count, and by this test
