"""What a store holds after it was made on another kind of processor.

Instruction sets are taken away from torch, numpy and OpenBLAS, as an older processor lacks them. This is real: the
libraries then run other kernels, which round in another order.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import polars as pl
import pytest
from increment import write_project
from support import REPOSITORY, run_command

pytestmark = pytest.mark.slow

OLDER = {
    "ATEN_CPU_CAPABILITY": "default",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
    "OPENBLAS_CORETYPE": "Nehalem",
    "BLIS_ARCH_TYPE": "generic",
}
POLICIES = ("customersim", "high_contextual", "presidio", "noisy_entities", "identifiers")
PROGRAM = """
import json, sys
from pathlib import Path
import torch
from increment import drive
outcomes = drive(Path(sys.argv[1]))
print(json.dumps([torch.backends.cpu.get_cpu_capability(), [[o.stage, o.partition, o.key] for o in outcomes]]))
"""
Tables = dict[tuple[str, str | None, str], pl.DataFrame]


def prepared(folder: Path, **processor: str) -> tuple[str, Tables]:
    """Prepares the same corpus under the same secret; the instruction set that torch used, and all tables."""
    config = write_project(folder, 2, 15, policies=POLICIES)
    done = run_command(
        [sys.executable, "-c", PROGRAM, config],
        cwd=REPOSITORY,
        check=True,
        env={**os.environ, **processor, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'benchmarks'}"},
    )
    capability, outcomes = json.loads(done.stdout.splitlines()[-1])
    objects = config.parent / "reticent-store/private/objects"
    return capability, {
        (stage, partition, path.name): pl.read_parquet(path)
        for stage, partition, key in outcomes
        for path in (objects / stage / key).rglob("*.parquet")
    }


def test_another_processor_prepares_the_same_rows_but_for_scores(tmp_path: Path) -> None:
    """Text, folds, duplicates, masks, shards and what the gate found are equal; a score may differ by rounding."""
    here, tables = prepared(tmp_path / "here")
    elsewhere, others = prepared(tmp_path / "elsewhere", **OLDER)
    assert elsewhere == "DEFAULT"
    if here == "DEFAULT":
        pytest.skip("this processor has no instruction set that could be taken away")
    assert tables.keys() == others.keys()
    assert {stage for stage, _, _ in tables} >= {"split", "dedup_mask", "redact", "shard", "gate"}
    for name, table in tables.items():
        other = others[name]
        if "spans" in table.columns:
            scores, theirs = (t["spans"].explode().drop_nulls().struct.field("score") for t in (table, other))
            assert scores.to_list() == pytest.approx(theirs.to_list(), abs=1e-4), name
            assert len(scores) > 0
            table, other = (t.with_columns(spans=_without_scores(t)) for t in (table, other))
        assert table.equals(other), name


def _without_scores(table: pl.DataFrame) -> pl.Series:
    rows = table["spans"].to_list()
    return pl.Series([[{**span, "score": None} for span in spans] for spans in rows], strict=False)
