"""A run over a folder in which files appear, change, move and go touches exactly the partitions concerned."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from increment import built, contents, drive, write_project

from flows.commands.diff import diff_document
from pipelines.graph import GRAPH
from pipelines.stage import OUTSIDE, SOURCE
from pipelines.store.place.outcome import Outcome

FILES = 10
PREPARED = ("split", "dedup_keys", "dedup_mask", "redact", "shard")


class Night:
    """A folder of files and one store, run again after each change."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.corpus = config.parent / "corpus"
        self.seen: set[tuple[str, str]] = set()
        self.run()

    def file(self, number: int) -> Path:
        return self.corpus / f"night-{number:02d}.jsonl"

    def run(self) -> dict[str, set[str | None]]:
        """Runs, and checks that each partitioned stage built exactly the partitions whose inputs were never seen."""
        before = set(self.seen)
        self.outcomes = drive(self.config)
        self.data = contents(self.config, self.outcomes)
        ran = built(self.outcomes)
        for stage in GRAPH.values():
            if stage.partitioned and not stage.own_partitions and all(edge.stage != SOURCE for edge in stage.inputs):
                expected = set()
                for outcome in (o for o in self.outcomes if o.stage == stage.name):
                    token = (stage.name, self._inputs_of(outcome))
                    if token not in before:
                        expected.add(token)
                    self.seen.add(token)
                assert len(ran.get(stage.name, set())) == len(expected), stage.name
        return ran

    def _inputs_of(self, outcome: Outcome) -> str:
        digest = hashlib.sha256()
        for edge in (e for e in GRAPH[outcome.stage].inputs if e.stage not in OUTSIDE):
            partition = outcome.partition if GRAPH[edge.stage].partitioned else None
            prefix = f"private/{edge.stage}/{partition}/"
            names = [prefix + f.format(partition=outcome.partition) for f in edge.files]
            for name in names or sorted(n for n in self.data if n.startswith(prefix)):
                digest.update(self.data[name])
        return digest.hexdigest()

    def partition_of(self, file: str) -> str:
        """The partition of a file in the last run."""
        spec = json.loads(max((self.config.parent / "reticent-store/private/runs").glob("*/spec.json")).read_text())
        (name,) = [p["name"] for p in spec["partitions"] if any(piece["name"] == file for piece in p["pieces"])]
        return str(name)

    def assert_as_from_scratch(self, root: str) -> None:
        """split ... shard are the bytes of a run that never saw another state of the folder."""
        assert contents(self.config, drive(self.config, RETICENT__STORE__ROOT=root), root) == self.data

    def changes(self) -> dict[str, object]:
        return diff_document(self.config, {}, "previous", "latest", show_names=True)["inputs"]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """Night 1: all files but the last."""
    config = write_project(
        tmp_path_factory.mktemp("increment") / "project", FILES, 4, policies=("customersim",), conservative=None
    )
    last = config.parent / "corpus" / f"night-{FILES - 1:02d}.jsonl"
    last.rename(config.parent / last.name)
    return Night(config)


def test_a_new_file_builds_its_own_partition_only(night: Night) -> None:
    (night.config.parent / night.file(FILES - 1).name).rename(night.file(FILES - 1))
    ran = night.run()
    mine = {night.partition_of(night.file(FILES - 1).name)}
    assert {stage: ran[stage] for stage in PREPARED} == dict.fromkeys(PREPARED, mine)
    assert night.changes()["new"] == [night.file(FILES - 1).name]
    night.assert_as_from_scratch("scratch-new")
    assert night.run() == {}


@pytest.mark.slow
def test_an_edited_file_builds_its_own_partition_and_those_whose_decisions_change(night: Night) -> None:
    path = night.file(7)
    rows = path.read_text().splitlines()
    document = json.loads(rows[0])
    document["text"] += "\nUSR: and the porcelain giraffe, please."
    path.write_text("\n".join([json.dumps(document), *rows[1:]]) + "\n")
    ran = night.run()
    mine = {night.partition_of(path.name)}
    # The added sentence is unlike any other, so nothing that follows it is a duplicate more or less.
    assert {stage: ran[stage] for stage in PREPARED} == dict.fromkeys(PREPARED, mine)
    assert night.changes()["changed"] == [path.name]
    night.assert_as_from_scratch("scratch-edited")


def test_a_renamed_file_keeps_what_does_not_name_it(night: Night) -> None:
    path = night.file(FILES - 1)
    path.rename(path.with_name("night-99.jsonl"))
    ran = night.run()
    # The last file stays the last one, so no decision about another file changes; its documents have new ids.
    mine = {night.partition_of("night-99.jsonl")}
    assert {stage: ran[stage] for stage in PREPARED} == dict.fromkeys(PREPARED, mine)
    assert night.changes()["renamed"] == [[path.name, "night-99.jsonl"]]


@pytest.mark.slow
def test_a_removed_file_concerns_only_partitions_whose_decisions_change(night: Night) -> None:
    old = {o.partition for o in night.outcomes if o.stage == "shard"}
    before = night.data
    gone = night.partition_of(night.file(0).name)
    night.file(0).unlink()
    ran = night.run()
    assert "split" not in ran
    assert "dedup_keys" not in ran
    assert {o.partition for o in night.outcomes if o.stage == "shard"} == old - {gone}
    # First occurrences went with it: sentences elsewhere are no duplicates any more.
    name = "private/dedup_resolve/None/{}.parquet"
    kept = old - {gone}
    changed = {p for p in kept if before[name.format(p)] != night.data[name.format(p)]}
    assert ran["dedup_mask"] == changed
    assert 0 < len(ran["shard"]) < len(kept)
    assert night.changes()["removed"] == [night.file(0).name]
    night.assert_as_from_scratch("scratch-removed")


@pytest.mark.slow
def test_a_file_in_the_middle_reruns_what_its_decisions_change(night: Night) -> None:
    before = night.data
    # A sentence of a later file, once more: there it becomes a repeat, and every repeat after it counts one more.
    rows = night.file(8).read_text().splitlines()
    text = json.loads(rows[0])["text"]
    night.file(5).with_name("night-05a.jsonl").write_text(json.dumps({"text": text}) + "\n")
    ran = night.run()
    mine = night.partition_of("night-05a.jsonl")
    assert ran["split"] == ran["dedup_keys"] == {mine}

    def changed(stage: str, file: str) -> set[str | None]:
        name = f"private/{stage}/{{}}/{file}"
        parts = {o.partition for o in night.outcomes if o.stage == stage}
        return {p for p in parts if before.get(name.format(p)) != night.data[name.format(p)]}

    masked = changed("dedup_mask", "masked.parquet")
    assert ran["redact"] == masked
    assert mine in masked
    assert masked < changed("dedup_mask", "decisions.parquet") == ran["dedup_mask"]
    night.assert_as_from_scratch("scratch-middle")


def test_the_last_file_removed_builds_no_partition(night: Night) -> None:
    max(night.corpus.glob("night-*.jsonl")).unlink()
    assert set(night.run()).isdisjoint(PREPARED)
