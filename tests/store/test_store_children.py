"""Child runs: they share what has the same key, publish nothing, and what a comparison kept is published on demand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.patches import Patch, patching
from support.toy import Toy, drive, ran, states

from pipelines import graph
from pipelines.errors import ConfigError, StoreError
from pipelines.store.building.plan import make_plan
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.objects.publish import publish_earlier_build
from pipelines.store.objects.session import RunSpec, Session, child_of, make_session
from pipelines.store.place.roots import private_umask
from pipelines.store.upkeep.maintenance import adopt, gc, verify
from pipelines.store.upkeep.views import publish_views


def run(session: Session) -> set[str]:
    """Runs and records as a flow does; what was built."""
    with private_umask():
        session.roots.runs.joinpath(session.spec.run_id).mkdir()
        outcomes = drive(session)
        publish_views(session, outcomes)
        runs.record(session, outcomes, {"state": "completed"})
    return ran(outcomes)


def child(toy: Toy, parent: RunSpec, **given: Any) -> Session:
    toy.run_number += 1
    return make_session(child_of(parent, f"run-{toy.run_number:04d}", **given))


def everything_below(folder: Path) -> Mapping[str, tuple[Any, ...]]:
    """Every file and link below a folder: content, or target, and when it was changed."""
    return {
        str(path.relative_to(folder)): (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None,
            path.lstat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
    }


def key_of(session: Session, stage: str, partition: str | None = "p-a") -> str:
    return next(str(o.key) for o in session.outcomes if (o.stage, o.partition) == (stage, partition))


@pytest.fixture
def parent(toy: Toy) -> Session:
    session = toy.session()
    run(session)
    return session


@pytest.mark.parametrize("purpose", ["audit", "comparison"])
def test_a_child_run_shares_what_is_the_same_and_publishes_nothing(toy: Toy, parent: Session, purpose: Any) -> None:
    public = everything_below(toy.folder / "public")
    latest = everything_below(toy.folder / "private" / "latest")
    objects = everything_below(toy.folder / "private" / "objects")
    pointer = (toy.folder / "private" / "latest.json").read_bytes()

    made = child(toy, parent.spec, purpose=purpose, changes={"upper": {"suffix": "!"}})
    assert run(made) == {"upper/p-a", "upper/p-b", "upper/p-c", "join"}  # letters and count are shared

    kept = toy.folder / "private/objects/upper" / key_of(made, "upper") / "unpublished/public.txt"
    assert kept.read_text().startswith("!")
    joined = toy.folder / "private/objects/join" / key_of(made, "join", None) / "join.txt"
    assert joined.read_text().count("!") == 3  # a later stage of the child reads what is not public
    assert everything_below(toy.folder / "public") == public
    assert everything_below(toy.folder / "private" / "latest") == latest
    assert (toy.folder / "private" / "latest.json").read_bytes() == pointer
    now = everything_below(toy.folder / "private" / "objects")
    files = {path: entry for path, entry in objects.items() if entry[0] is not None}  # folders get new neighbours
    assert {path: now[path] for path in files} == files
    assert all(checked.problem is None for checked in verify(made.roots))
    assert (runs.latest(made.roots) or {})["run_id"] == parent.spec.run_id
    assert runs.resolve(made.roots, "latest")["purpose"] == "release"
    (listed,) = [r for r in runs.each_run(made.roots) if r["run_id"] == made.spec.run_id]
    assert (listed["purpose"], listed["parent"]) == (purpose, parent.spec.run_id)
    again = child(toy, parent.spec, purpose=purpose, changes={"upper": {"suffix": "!"}})
    assert run(again) == set()


def test_a_release_publishes_what_a_comparison_kept_and_makes_nothing_anew(toy: Toy, parent: Session) -> None:
    made = child(toy, parent.spec, purpose="comparison", changes={"upper": {"suffix": "!"}})
    run(made)
    key = key_of(made, "upper")
    toy.settings = {"upper": {"suffix": "!"}}
    reasons = {p.reasons for p in make_plan(toy.session(), None) if p.stage == "upper"}
    assert reasons == {("a child run made it: it is published, not made anew",)}
    release = toy.session()
    assert run(release) == set()
    assert key_of(release, "upper") == key
    shown = toy.folder / "public/objects/upper" / key / "public.txt"
    assert shown.read_text().startswith("!")
    assert shown.stat().st_mode & 0o777 == 0o644
    assert all(checked.problem is None for checked in verify(release.roots))
    manifest = manifests.load(release.roots, "upper", key)
    assert manifest is not None
    assert manifest.lineage["published_from"] == "comparison"
    assert run(toy.session()) == set()


def test_what_a_comparison_kept_is_published_where_it_has_no_public_file(toy: Toy, parent: Session) -> None:
    made = child(toy, parent.spec, purpose="comparison", changes={"upper": {"suffix": "!"}})
    run(made)
    key = key_of(made, "upper")
    (toy.folder / "private/objects/upper" / key / manifests.UNPUBLISHED / "public.txt").unlink()
    manifest = manifests.load(made.roots, "upper", key)
    assert manifest is not None
    files = {name: entry for name, entry in manifest.files.items() if manifests.UNPUBLISHED not in name}
    publish_earlier_build(made.roots, replace(manifest, files=files))
    assert [path.name for path in (toy.folder / "public/objects/upper" / key).iterdir()] == [manifests.MANIFEST]


@pytest.mark.parametrize(
    "step", ["copy_file", "measure", "make_readable", "write_root_manifest", "joint_document", "remove_tree"]
)
@pytest.mark.parametrize("is_after", [False, True])
def test_a_kill_while_it_is_published_loses_nothing(toy: Toy, parent: Session, step: str, is_after: bool) -> None:
    made = child(toy, parent.spec, purpose="comparison", changes={"upper": {"suffix": "!"}})
    run(made)
    toy.settings = {"upper": {"suffix": "!"}}
    from pipelines.store.objects import publish

    owner, _, name = step.rpartition(".")
    target: Any = getattr(publish, owner) if owner else publish
    real = getattr(target, name)

    def killed(*args: Any, **kwargs: Any) -> Any:
        if is_after:
            real(*args, **kwargs)
        raise KeyboardInterrupt

    with patching() as patch:
        patch(target, name, killed)
        with pytest.raises(KeyboardInterrupt):
            drive(toy.session())
    release = toy.session()
    assert run(release) == set()
    assert all(checked.problem is None for checked in verify(release.roots))
    assert (toy.folder / "public/objects/upper" / key_of(release, "upper") / "public.txt").is_file()


def test_what_a_comparison_kept_is_not_published_when_it_is_damaged(toy: Toy, parent: Session) -> None:
    toy.runtime = replace(toy.runtime, verify="size")
    made = child(toy, parent.spec, purpose="comparison", changes={"upper": {"suffix": "!"}})
    run(made)
    kept = toy.folder / "private/objects/upper" / key_of(made, "upper") / "unpublished/public.txt"
    kept.write_text(kept.read_text().replace("!", "?"))
    toy.settings = {"upper": {"suffix": "!"}}
    with pytest.raises(StoreError, match="damaged"):
        drive(toy.session())


def test_a_child_run_leaves_a_damaged_published_artifact_alone(toy: Toy, parent: Session) -> None:
    """Guards the quarantine of a published model by a run that may not publish another."""
    shown = toy.folder / "public/objects/upper" / key_of(parent, "upper") / "public.txt"
    shown.write_text("other")
    public = everything_below(toy.folder / "public")
    with pytest.raises(StoreError, match="reticent run"):
        drive(child(toy, parent.spec, purpose="comparison"))
    assert everything_below(toy.folder / "public") == public
    assert run(toy.session()) == {"upper/p-a"}


def test_a_model_of_an_audit_never_passes_for_a_release(toy: Toy, patch: Patch) -> None:
    for stage in [replace(graph.GRAPH["upper"], is_release=True)]:
        patch.item(graph.GRAPH, stage.name, stage)  # type: ignore[arg-type]
    first = toy.session(selected=("letters", "count"))
    drive(first)
    audit = child(toy, replace(first.spec, selected=tuple(graph.GRAPH)), purpose="audit", changes={})
    assert "upper/p-a" in run(audit)
    comparison = child(toy, first.spec, purpose="comparison")
    assert "upper/p-a" in run(comparison)  # not the audit's
    release = toy.session()
    assert run(release) == set()  # the comparison's
    keys = [key_of(session, "upper") for session in (audit, comparison, release)]
    assert keys[1] == keys[2] != keys[0]
    with pytest.raises(ConfigError, match="purpose"):
        adopt(toy.session(), "upper", keys[0])


def test_gc_keeps_a_child_run_as_long_as_what_its_parent_used(toy: Toy, parent: Session) -> None:
    made = child(toy, parent.spec, purpose="audit", changes={"upper": {"suffix": "!"}})
    run(made)
    kept = toy.folder / "private/objects/upper" / key_of(made, "upper")
    run(toy.session())  # nothing to do
    gc(made.roots, keep_runs=1, dry_run=False)
    assert kept.is_dir()
    assert {r["run_id"] for r in runs.each_run(made.roots)} == {"run-0001", "run-0002", "run-0003"}
    toy.settings = {"letters": {"width": 3}}
    run(toy.session())
    gc(made.roots, keep_runs=2, dry_run=False)
    assert kept.is_dir()
    gc(made.roots, keep_runs=1, dry_run=False)
    assert not kept.exists()
    assert [r["run_id"] for r in runs.each_run(made.roots)] == ["run-0004"]


def test_child_runs_use_up_no_number_of_runs_to_keep(toy: Toy, parent: Session) -> None:
    toy.settings = {"letters": {"width": 3}}
    run(toy.session())
    for suffix in "!?":
        run(child(toy, parent.spec, purpose="comparison", changes={"upper": {"suffix": suffix}}))
    gc(parent.roots, keep_runs=2, dry_run=False)
    assert len(list(runs.each_run(parent.roots))) == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"purpose": "release"}, "audit or a comparison"),
        ({"purpose": "audit", "changes": {"uper": {}}}, r"\[uper\]"),
        ({"purpose": "audit", "changes": {"letters": {"width": "wide"}}}, "letters.width"),
    ],
)
def test_what_is_no_child_run_is_refused(toy: Toy, parent: Session, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        child(toy, parent.spec, **given)


def test_a_child_run_trains_where_it_is_too_early_for_a_release(toy: Toy, parent: Session) -> None:
    """Its record would otherwise hold the model that stays, for every variant of a comparison."""
    waiting = replace(parent.spec, trained_by="run-0000")
    assert child(toy, waiting, purpose="comparison").spec.trained_by is None


def test_a_child_run_has_no_children(toy: Toy, parent: Session) -> None:
    made = child(toy, parent.spec, purpose="audit")
    with pytest.raises(ConfigError, match="a release"):
        child(toy, made.spec, purpose="audit")


def test_states_of_a_child_are_those_of_any_run(toy: Toy, parent: Session) -> None:
    assert set(states(drive(child(toy, parent.spec, purpose="audit"))).values()) == {"cached"}


def test_an_upgrade_after_a_comparison_makes_nothing_anew(toy: Toy, patch: Patch) -> None:
    """Guards a second release: the stale model of a comparison is published, too."""
    patch.item(graph.GRAPH, "upper", replace(graph.GRAPH["upper"], has_recipe=True))  # type: ignore[arg-type]
    recipe = '    def recipe(self, stage):\n        return {"shouting": 1}\n'
    toy.edit("upper", '    suffix: str = ""\n', f'    suffix: str = ""\n\n{recipe}')
    first = toy.session()
    run(first)
    made = child(toy, first.spec, purpose="comparison", changes={"upper": {"suffix": "!"}})
    run(made)
    toy.edit("upper", '"shouting": 1', '"shouting": 2')
    toy.settings = {"upper": {"suffix": "!"}}
    release = toy.session()
    assert run(release) == set()
    assert key_of(release, "upper") == key_of(made, "upper")
    assert (toy.folder / "public/objects/upper" / key_of(made, "upper") / "public.txt").is_file()
    assert run(toy.session()) == set()
