"""What is extrapolated follows from what was measured; the page says what the program says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import scale_plan
from scale_plan import Plan

from pipelines.gate.masked_strings import CHUNK_STRINGS, HASHED_STRINGS
from pipelines.graph import GRAPH

STAGES = ("split", "dedup_buckets", "gate", "shard")
SENTENCE, PARTITION, BYTES = 3e-4, 0.02, 40


def measured_size(sentences: int, partitions: int) -> dict[str, Any]:
    """As `benchmarks/growth.py` writes it, of a machine whose costs are known, with half a second of its own."""
    stages = {
        name: {
            "cpu_seconds": 0.5 + SENTENCE * sentences + PARTITION * partitions,
            "bytes": BYTES * sentences,
            "num_built": partitions,
            "num_strings": sentences // 10,
        }
        for name in STAGES
    }
    return {"sentences": sentences, "input_bytes": 70 * sentences, "stages": {"scan": {}, **stages}}


@pytest.fixture
def measured() -> dict[str, Any]:
    sizes = [measured_size(20_000, 6), measured_size(200_000, 60)]
    ways = {
        way: {"cpu_seconds": seconds} for way, seconds in (("as it is", 6), ("all at once", 4), ("one pass more", 9))
    }
    return {"sizes": sizes, "many_partitions": measured_size(20_000, 150), "gate": {"sizes": [{"ways": ways}]}}


def test_costs_are_those_of_the_measured_machine(measured: dict[str, Any]) -> None:
    for name, cost in scale_plan.costs(measured).items():
        assert (cost.partition, cost.bytes) == pytest.approx((PARTITION, BYTES)), name
        own = PARTITION * (60 - 6) / 180_000
        assert cost.sentence == pytest.approx(SENTENCE + own)


def test_loads_are_what_a_run_of_that_size_would_take(measured: dict[str, Any]) -> None:
    plan = Plan(sentences=1e8, sentences_in_partition=1e5)
    found, cost = scale_plan.loads(plan, measured), scale_plan.costs(measured)
    assert found["split"].partitions == found["shard"].partitions == 1_000
    assert found["split"].seconds == pytest.approx(cost["split"].sentence * 1e5 + PARTITION)
    assert found["dedup_buckets"].partitions == 4  # of 7 GB
    assert found["dedup_buckets"].seconds == pytest.approx(cost["dedup_buckets"].sentence * 1e8 / 4 + PARTITION * 1_000)
    assert found["gate"].partitions == 1
    assert found["gate"].seconds == pytest.approx(6 / 4 * (cost["gate"].sentence * 1e8 + PARTITION * 1_000))


def test_the_gate_takes_one_more_pass_for_so_many_more_strings(measured: dict[str, Any]) -> None:
    in_text = 10 * CHUNK_STRINGS  # a masked string for ten sentences
    assert [scale_plan.gate_passes(in_text * n, measured) for n in (0.5, 1, 1.1)] == [0, 0, 1]
    assert [scale_plan.gate_passes(10 * HASHED_STRINGS * n, measured) for n in (1, 2, 2.1)] == [1, 2, 3]
    assert [scale_plan.gate_factor(n, measured) for n in (in_text, 20 * HASHED_STRINGS)] == [1, 9 / 4]


def test_a_filter_is_as_large_as_the_one_that_a_bucket_makes() -> None:
    assert 39.0 < 8 * scale_plan.filter_bytes(1) - 2 < 40.0  # bits an item at a rate of 1e-6, and two for the marks


def test_the_block_is_replaced_and_the_page_around_it_kept() -> None:
    page = f"above\n\n<!-- scale: made by `{scale_plan.MAKER}` -->\n\nold\n\n<!-- end -->\nbelow\n"
    written = scale_plan.with_block(page, "new")
    assert written == page.replace("old", "new")
    assert scale_plan.with_block(written, "new") == written


def test_what_was_measured_names_the_stages_that_there_are() -> None:
    named = set(scale_plan.read()["sizes"][-1]["stages"]) - {"scan"}
    assert named <= set(GRAPH)
    assert {"split", "dedup_buckets", "redact", "gate", "shard"} <= named


@pytest.mark.slow
def test_the_page_holds_what_the_program_prints() -> None:
    text = scale_plan.PAGE.read_text("utf-8")
    assert scale_plan.with_block(text, scale_plan.page(Plan())) == text
