"""The shard stage: what is public, and in which order."""

import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.contexts import stage_context
from support.tables import DEFAULTS, read_table, write_rows

from pipelines.artifacts import Target
from pipelines.errors import PrivacyGateError, StageError
from pipelines.mask import MASK
from pipelines.policies import sharding
from pipelines.policies.held import HELD
from pipelines.policies.sharding import ContentOrder, check_public, content_key, is_private
from pipelines.settings.shard import ShardConfig
from pipelines.stages.prepare.shard import run
from pipelines.tables import TableWriter

ROW = DEFAULTS["redacted"] | {"doc_id": "d0", "redacted_text": "hello there", "num_tokens": 2}


def run_stage(root, rows, held=()):
    write_rows(root / "redact/redacted.parquet", "redacted", rows, **ROW)
    (root / "gate").mkdir()
    with TableWriter(root / "gate/p.parquet", HELD) as writer:
        for row in held:
            writer.append(**row)
    more = {"partition": "p", "public_folder": root / "public"}
    inputs = {"redact": root / "redact", "gate": root / "gate"}
    ctx = stage_context("shard", root / "private", {"shard": ShardConfig()}, inputs, **more)
    counts = run(ctx)
    figures = json.loads((root / "private/figures.json").read_text())
    assert figures == counts
    read = [read_table(root / "private" / f"{side}.parquet", "shard").to_pylist() for side in ("private", "public")]
    return *read, figures


PRIVATE_CAUSES = [
    {"redacted_text": f"a {MASK}", "num_masked_tokens": 1},
    {"redacted_text": MASK, "num_masked_tokens": 2, "is_duplicate": True},
    {"redacted_text": MASK, "num_masked_tokens": 2, "failed_closed": True},
    {"flagged_by_conservative": True},
    {"redacted_text": f"literal {MASK}"},
    {"num_masked_tokens": 1},
    {"is_duplicate": True, "num_tokens": 0, "redacted_text": MASK},
]


def test_any_mask_from_any_cause_and_any_flag_is_private(tmp_path):
    rows = [{**cause, "sentence_index": i} for i, cause in enumerate(PRIVATE_CAUSES)]
    rows.append({"sentence_index": 99, "redacted_text": "all good"})
    rows += [{"sentence_index": 100 + i, "fold": fold} for i, fold in enumerate(("valid", "test"))]
    private, public, figures = run_stage(tmp_path, rows)
    assert [r["sentence_index"] for r in private] == list(range(len(PRIVATE_CAUSES)))
    assert [r["sentence_index"] for r in public] == [99]
    assert figures == {
        "num_public": 1,
        "num_private": 7,
        "num_public_tokens": 2,
        "num_private_tokens": 12,
        "num_all_mask": 3,
        "num_held": 0,
    }


def test_a_held_row_is_private_and_what_was_found_in_it_is_masked(tmp_path):
    rows = [{"sentence_index": n, "redacted_text": "ask zoe or zoe", "num_tokens": 4} for n in range(3)]
    held = [{"doc_id": "d0", "sentence_index": 1, "ranges": [{"start": 4, "end": 7}, {"start": 11, "end": 14}]}]
    private, public, figures = run_stage(tmp_path, rows, held)
    assert [(r["sentence_index"], r["redacted_text"], r["num_masked_tokens"]) for r in private] == [
        (1, f"ask {MASK} or {MASK}", 2)
    ]
    assert [r["sentence_index"] for r in public] == [0, 2]
    assert figures["num_held"] == 1


@pytest.mark.parametrize("wrong", [{"sentence_index": 7}, {"sentence_index": 0, "flagged_by_conservative": True}])
def test_held_rows_that_do_not_fit_are_refused(tmp_path, wrong):
    held = [{"doc_id": "d0", "sentence_index": wrong["sentence_index"], "ranges": [{"start": 0, "end": 5}]}]
    with pytest.raises(StageError, match="rerun gate"):
        run_stage(tmp_path, [{"sentence_index": 0, **wrong} | {"sentence_index": 0}], held)


def test_dividing_rows_publishes_none(tmp_path):
    run_stage(tmp_path, [{}])
    assert not list((tmp_path / "public").iterdir())
    files = ["figures.json", "private.parquet", "public.parquet"]
    assert sorted(p.name for p in (tmp_path / "private").iterdir()) == files
    assert not [p for p in (tmp_path / "scratch").rglob("*") if p.is_file()]


def test_public_order_does_not_depend_on_corpus_order(tmp_path, patch):
    rows = [
        {
            "redacted_text": f"sentence {i % 40}",
            "doc_id": f"d{i % 7}",
            "sentence_index": i,
            "speaker": "A" if i % 3 else None,
        }
        for i in range(200)
    ]
    shuffled = random.Random(5).sample(rows, len(rows))
    _, first, _ = run_stage(tmp_path / "a", rows)
    _, second, _ = run_stage(tmp_path / "b", shuffled)
    assert first == second
    assert (tmp_path / "a/private/public.parquet").read_bytes() == (tmp_path / "b/private/public.parquet").read_bytes()
    keys = [(content_key(r), r["doc_id"], r["sentence_index"]) for r in first]
    assert keys == sorted(keys)
    assert [r["sentence_index"] for r in first] != sorted(r["sentence_index"] for r in first)
    patch.constant(sharding, "ROWS_PER_BUCKET", 16)
    _, in_buckets, _ = run_stage(tmp_path / "c", shuffled)
    assert in_buckets == first


def test_a_rerun_after_a_kill_ignores_what_was_left_in_scratch(tmp_path):
    scratch = Target(folder=tmp_path / "left")
    folder = scratch.folder
    folder.mkdir()
    with ContentOrder(scratch, 10) as order:
        order.add(ROW)
        (folder / "kept.jsonl").write_text((folder / "bucket-000.jsonl").read_text())
    (folder / "bucket-000.jsonl").write_text("half a line")
    with ContentOrder(scratch, 10) as order:
        order.add({**ROW, "doc_id": "d1"})
        assert [row["doc_id"] for row in order.sorted_rows()] == ["d1"]


FIELDS = ("speaker", "domain", "label", "redacted_text")
VALUES = st.one_of(st.none(), st.text(st.sampled_from("ab\x00\x01"), max_size=3))


@settings(deadline=None, max_examples=200)
@given(*[st.tuples(*[VALUES] * 3, st.text(st.sampled_from("ab\x00\x01"), max_size=3))] * 2)
def test_the_content_key_tells_different_contents_apart(one, other):
    a, b = (dict(zip(FIELDS, values, strict=True)) for values in (one, other))
    assert (content_key(a) == content_key(b)) == (one == other)


def test_the_content_key_reads_contents_only():
    moved = [("a", "b", None, "t\x01"), ("a\x01b", None, "t", "")]  # equal once lengths are left out
    assert len({content_key(dict(zip(FIELDS, values, strict=True))) for values in moved}) == 2
    assert content_key(ROW) == content_key({**ROW, "doc_id": "x", "sentence_index": 5, "num_tokens": 9})
    keys = {content_key({**ROW, name: value}) for name, value in itertools.product(FIELDS, ("", "x", "y"))}
    assert len(keys) == 12


@pytest.mark.parametrize("row", [{"redacted_text": f"x{MASK}"}, {"num_masked_tokens": 1}])
def test_the_gate_holds_without_the_decision_before_it(row, patch, tmp_path):
    assert is_private({**ROW, **row})
    with pytest.raises(PrivacyGateError) as caught:
        check_public({**ROW, **row})
    assert "x<" not in str(caught.value)
    patch("pipelines.stages.prepare.shard", "is_private", lambda _: False)
    with pytest.raises(PrivacyGateError, match="no row of this partition was written"):
        run_stage(tmp_path, [{"redacted_text": f"clean {i}"} for i in range(5)] + [row])
    assert not (tmp_path / "private/public.parquet").exists()  # the check is before the file


def test_an_empty_partition_gives_two_empty_tables(tmp_path):
    private, public, figures = run_stage(tmp_path, [])
    assert private == public == []
    assert set(figures.values()) == {0}
