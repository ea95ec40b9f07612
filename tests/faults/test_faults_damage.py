"""Every file of a finished store, once with one byte changed and once deleted: detected, quarantined, rebuilt."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from driver import run_until
from support.project import small_project

from flows.running.spec import TRAINING
from pipelines.accounting.ledger import TABLE
from pipelines.graph import GRAPH
from pipelines.stage import Keyed
from pipelines.store.building.execute import execute
from pipelines.store.building.lookup import find_published
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.session import Session, open_session, read_session
from pipelines.store.place.outcome import Outcome, PartitionKeys
from pipelines.store.place.roots import Roots
from pipelines.store.upkeep.maintenance import verify
from pipelines.store.upkeep.views import drop_dangling, publish_views
from pipelines.walks import default_stages


@dataclass
class Finished:
    """A store with everything built, and which artifact is whose."""

    folder: Path
    spec: Path
    artifacts: dict[tuple[str, str | None], str]

    def session(self) -> Session:
        read_session.cache_clear()  # a new process remembers nothing either
        return open_session(str(self.spec))

    def inputs(self, session: Session, stage: str, partition: str | None) -> Mapping[str, PartitionKeys]:
        known: dict[str, list[Keyed]] = {}
        for (name, p), key in self.artifacts.items():
            known.setdefault(name, []).append((p, key))
        return next(s.inputs for s in GRAPH[stage].steps(session.partition_names, known) if s.partition == partition)

    def files(self, roots: Roots, stage: str, key: str) -> list[Path]:
        """Data files, the manifest beside them, and the joint manifest."""
        folders = [roots.object_dir(root, stage, key) for root in GRAPH[stage].roots]
        found = [p for folder in folders for p in sorted(folder.rglob("*")) if p.is_file()]
        return [*found, roots.manifest_path(stage, key)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("finished")
    config = small_project(folder, dialogues=12)
    built = run_until(config, "report")
    (spec,) = (folder / "reticent-store/private/runs").glob("*/spec.json")
    yield Finished(folder, spec, {(o.stage, o.partition): o.key or "" for o in built})
    read_session.cache_clear()


def _flip(path: Path) -> None:
    """Changes one bit somewhere; the place depends on the file's name only."""
    data = bytearray(path.read_bytes())
    place = random.Random(path.name).randrange(len(data)) if data else 0
    path.write_bytes(bytes(data[:place]) + bytes([data[place] ^ 1] if data else b"x") + bytes(data[place + 1 :]))


DAMAGES: dict[str, Callable[[Path], None]] = {"byte": _flip, "deleted": Path.unlink}


def _quarantined(roots: Roots) -> list[Path]:
    return [*roots.quarantine.glob("*"), *(roots.public / "quarantine").glob("*")]


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("stage", "how"),
    [
        pytest.param(stage, how, marks=() if how == "byte" or stage in ("split", "redact") else pytest.mark.slow)
        for stage in GRAPH
        if stage not in TRAINING
        for how in DAMAGES
    ],
)
def test_every_prepared_file(finished: Finished, stage: str, how: str) -> None:
    """Rebuilt to the same bytes, by a run that nobody told of the damage.

    But for the manifests beside the files, which no run reads: ``verify --repair`` has them replaced.
    """
    roots = finished.session().roots
    for (name, partition), key in finished.artifacts.items():
        if name != stage:
            continue
        folders = [roots.object_dir(root, stage, key) for root in GRAPH[stage].roots]
        before = [_bytes(folder) for folder in folders]
        for path in finished.files(roots, stage, key):
            DAMAGES[how](path)
            is_gone = how == "deleted" and path == roots.manifest_path(stage, key)  # so nothing says that it exists
            beside = path.name == manifests.MANIFEST
            assert [(c.stage, c.key) for c in verify(roots, repair=beside) if c.problem] == [(stage, key)], path.name
            session = finished.session()
            outcome = execute(session, stage, partition, finished.inputs(session, stage, partition))
            assert (outcome.state, outcome.key) == ("completed", key), path.name
            for folder, old in zip(folders, before, strict=True):
                assert _bytes(folder) == old
            assert bool(_quarantined(roots)) != is_gone, path.name
            for folder in _quarantined(roots):
                assert folder.name.startswith(f"{stage}-{key[:16]}-")
                shutil.rmtree(folder)
    assert [c for c in verify(roots) if c.problem] == []  # after each file, the next one's verify shows it


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("stage", [name for name in TRAINING if name in default_stages()])
def test_every_file_of_what_is_trained(finished: Finished, stage: str, how: str) -> None:
    """Detected and quarantined, each; put back by hand, as training again would be another release."""
    roots = finished.session().roots
    key = finished.artifacts[(stage, None)]
    for path in finished.files(roots, stage, key):
        data, mode = path.read_bytes(), path.stat().st_mode
        DAMAGES[how](path)
        if path != roots.manifest_path(stage, key) or how == "byte":
            assert [(c.stage, c.key) for c in verify(roots) if c.problem] == [(stage, key)], path.name
        path.write_bytes(data)
        path.chmod(mode)
        assert [c for c in verify(roots) if c.problem] == []


def _latest(roots: Roots) -> dict[str, Path]:
    return {f"{root}/{p.name}": p for root in ("private", "public") for p in (roots.of(root) / "latest").iterdir()}


def _dangling(roots: Roots) -> list[str]:
    """Links that lead to nothing, at the top or inside a view."""
    found = []
    for name, link in _latest(roots).items():
        inside = link.iterdir() if link.is_dir() else ()
        found += [name for path in (link, *inside) if not path.exists()]
    return found


@pytest.mark.parametrize(("stage", "gone"), [
    ("redact", {"private/redacted"}),
    ("shard", {"private/private", "private/public_side"}),
    ("publish", {"private/public_ids", "public/public"}),
    ("report", {"private/report", "public/public_report"}),
])  # fmt: skip
def test_repair_leaves_nothing_dangling_in_latest(finished: Finished, stage: str, gone: set[str]) -> None:
    """A view of a quarantined artifact led to nothing; without the one file it would be a table with rows missing."""
    session = finished.session()
    roots = session.roots
    outcomes = [Outcome(stage=s, partition=p, state="cached", key=k) for (s, p), k in finished.artifacts.items()]
    publish_views(session, outcomes)
    before = _latest(roots).keys()
    assert gone <= before
    partition = next(p for name, p in finished.artifacts if name == stage)
    key = finished.artifacts[(stage, partition)]
    _flip(finished.files(roots, stage, key)[0])
    verify(roots)
    assert _latest(roots).keys() == before  # only looked at
    verify(roots, repair=True)
    assert _dangling(roots) == []
    assert before - _latest(roots).keys() == gone
    assert drop_dangling(roots) == []

    session = finished.session()
    execute(session, stage, partition, finished.inputs(session, stage, partition))
    publish_views(session, outcomes)
    assert _latest(roots).keys() == before
    assert _dangling(roots) == []
    for folder in _quarantined(roots):
        shutil.rmtree(folder)


def test_a_damaged_model_is_quarantined_and_trained_again(finished: Finished) -> None:
    session = finished.session()
    roots, key = session.roots, finished.artifacts[("train", None)]
    weights = roots.object_dir("public", "train", key) / "model/model.safetensors"
    _flip(weights)
    outcome = execute(session, "train", None, finished.inputs(session, "train", None))
    assert (outcome.state, outcome.key) == ("completed", key)
    assert [c for c in verify(roots) if c.problem] == []
    assert {p.name for p in _quarantined(roots)} == {f"train-{key[:16]}-0"}  # in both roots
    assert len(_quarantined(roots)) == 2
    lines = (roots.private / "ledger/releases.jsonl").read_text().splitlines()
    tables = {d["release_id"] for d in map(json.loads, lines) if (d.get("facts") or {}).get("method") == TABLE}
    models = [d for d in map(json.loads, lines) if d["type"] == "published" and d["release_id"] not in tables]
    assert len(models) == 2  # another model: another release


@pytest.mark.slow
def test_every_byte_of_a_joint_manifest_counts(finished: Finished) -> None:
    """Whatever byte changes: it is seen by a run, not only by ``verify``."""
    roots = finished.session().roots
    key = finished.artifacts[("sample", None)]
    path = roots.manifest_path("sample", key)
    data = path.read_bytes()
    try:
        for place in range(0, len(data), 29):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            problem = next(c.problem for c in verify(roots) if (c.stage, c.key) == ("sample", key))
            assert problem is not None, data[max(place - 30, 0) : place + 10]
            assert find_published(finished.session(), "sample", key) is None
    finally:
        path.write_bytes(data)
    assert [c for c in verify(roots) if c.problem] == []
