"""Hash buckets as partitions of a run: what was finished is kept, and nothing follows from how many there are."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from support.old_stores import run_stages
from support.patches import Patch

import pipelines.stages.prepare.dedup_buckets as dedup_buckets
from pipelines.dedup.hash_ranges import MAX_BUCKETS, bucket_names, items_per_bucket, prefixes, usual_buckets
from pipelines.errors import StageError
from pipelines.store.objects.session import open_session

STAGES = ("split", "dedup_keys", "dedup_buckets", "dedup_resolve", "dedup_mask")
TEXTS = [f"Parcel {n * n % 37} is late." for n in range(60)]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    rows = (json.dumps({"text": text}) for text in TEXTS)
    (tmp_path / "corpus" / "texts.jsonl").write_text("\n".join(rows) + "\n")
    path = tmp_path / "reticent.toml"
    path.write_text('[corpus]\ninputs = ["corpus"]\npartition_documents = 20\n[dedup]\nbuckets = 4\n')
    return path


def test_a_bucket_that_was_finished_is_kept_when_a_later_one_fails(config: Path, patch: Patch) -> None:
    run = dedup_buckets.run

    def failing(ctx):  # type: ignore[no-untyped-def]
        if ctx.partition == "003-of-004":
            raise RuntimeError
        return run(ctx)

    patch(dedup_buckets, "run", failing)
    with pytest.raises(StageError):
        run_stages(config, STAGES)
    patch.undo()
    found = run_stages(config, STAGES)
    assert [outcome.state for outcome in found["dedup_buckets"]] == ["cached", "cached", "completed", "completed"]
    assert len({outcome.key for outcome in found["dedup_buckets"]}) == 4  # all read the same, and are not the same


def test_another_number_of_buckets_builds_nothing_that_follows(config: Path) -> None:
    before = run_stages(config, STAGES)
    config.write_text(config.read_text().replace("buckets = 4", "buckets = 3"))
    after = run_stages(config, STAGES)
    assert [outcome.state for outcome in after["dedup_buckets"]] == ["completed"] * 3
    assert [outcome.state for outcome in after["dedup_keys"] + after["dedup_mask"]] == ["cached"] * 6
    assert [outcome.key for outcome in after["dedup_mask"]] == [outcome.key for outcome in before["dedup_mask"]]


@pytest.mark.parametrize("buckets", [1, 2, 3, 7, 100, MAX_BUCKETS])
def test_buckets_share_all_prefixes_and_expected_items(buckets: int) -> None:
    ranges = [prefixes(name) for name in bucket_names(buckets)]
    assert (ranges[0][0], ranges[-1][1]) == (0, 2**16)
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    sizes = [end - first for first, end in ranges]
    assert max(sizes) - min(sizes) <= 1
    assert 1_000_000 <= buckets * items_per_bucket(1_000_000, buckets) < 1_100_000


def test_there_are_more_buckets_only_as_the_corpus_grows() -> None:
    """Not as it is cut into more partitions: each bucket opens all of them."""
    sizes = [n << 28 for n in range(5_000)]
    counts = [usual_buckets(size) for size in sizes]
    assert counts == sorted(counts)
    assert set(counts) == {2**n for n in range(9)}
    assert usual_buckets(2**31 - 1) == 1
    assert all(2**30 <= size / count < 2**31 for size, count in zip(sizes, counts, strict=True) if 1 < count < 256)


def test_rows_of_parquet_count_as_some_bytes_each(config: Path) -> None:
    from flows.running.spec import begin

    session = open_session(begin(config, {}))
    size = (config.parent / "corpus" / "texts.jsonl").stat().st_size
    assert session._input_bytes == size
    plans = [
        replace(plan, pieces=tuple(replace(piece, name="texts.parquet") for piece in plan.pieces))
        for plan in session.spec.partitions
    ]
    assert replace(session, spec=replace(session.spec, partitions=tuple(plans)))._input_bytes == 1_000 * size


def test_a_run_takes_its_buckets_from_its_settings(config: Path) -> None:
    from flows.running.spec import begin

    session = open_session(begin(config, {}))
    assert session.partition_names("dedup_buckets") == bucket_names(4)
    assert len(session.partition_names("dedup_keys")) == 3
