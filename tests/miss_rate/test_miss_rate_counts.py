"""Estimates from plain counts, as JFT's own files hold them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import TESTS
from support.project import reticent

from flows.commands.estimate import counts_document, counts_text
from pipelines.errors import InputError
from pipelines.miss_rate.counts import ReplicateCounts, estimate_counts, read_counts

ORACLES = json.loads((TESTS / "oracles" / "privacy_oracles.json").read_text())
WIKI = [10, 5, 4, 3, 3, 7, 4, 7, 9, 3]
INTERVALS = ("student_t_clipped", "clopper_pearson", "cluster_robust", "bootstrap", "recommended")


@pytest.mark.slow
def test_the_command_reproduces_the_papers_interval(tmp_path):
    file = tmp_path / "wiki.csv"
    file.write_text("missed,total\n" + "".join(f"{missed},1024\n" for missed in WIKI))
    done = reticent("estimate", "--counts", file, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["schema_version"] == 1
    assert found["mean"] == pytest.approx(0.00537109375, abs=1e-9)
    assert found["student_t"] == pytest.approx([0.0035598401982469634, 0.007182347301753036], abs=1e-9)
    # With rows of one size the linearised interval is Student's t itself.
    assert found["cluster_robust"] == pytest.approx(found["student_t"], abs=1e-9)
    assert found["clopper_pearson"] == pytest.approx([0.004048730106832222, 0.006985549225100973], abs=1e-9)
    assert found["design_effect"] > 1


@pytest.mark.parametrize("name", ["wiki", "mnli", "sst2"])
def test_every_oracle_row(name):
    row = ORACLES["jft_missing_rate_ci"][name]
    found = estimate_counts(ReplicateCounts(tuple(row["miss"]), tuple(row["total"])), 0.95)
    assert found["mean"] == pytest.approx(row["mean"], abs=1e-9)
    assert found["student_t"] == pytest.approx((row["lo"], row["hi"]), abs=1e-9)
    assert found["student_t_clipped"][0] == max(0.0, found["student_t"][0])
    assert found["recommended"][1] > found["mean"]


def test_no_miss_is_a_bound_and_not_zero():
    found = estimate_counts(ReplicateCounts((0,) * 10, (1024,) * 10), 0.95)
    assert found["student_t"] == (0.0, 0.0)  # as in the paper, and said to be no interval
    assert found["clopper_pearson"][1] == pytest.approx(1 - 0.025 ** (1 / 10240))
    # Nothing shows how misses cluster, so no interval is defended, nor is a bound.
    assert found["recommended"] is found["upper_bound"] is found["assumption"] is None
    assert found["cluster_robust"] == pytest.approx((0.0, 1 - 0.025 ** (1 / 10)))  # a row may be missed as a whole
    assert any("not a rate of 0" in warning for warning in found["warnings"])
    known = estimate_counts(ReplicateCounts((0,) * 10, (1024,) * 10, (40,) * 10), 0.95)
    assert known["recommended"][1] == pytest.approx(1 - 0.025 ** (1 / 400))
    assert known["recommended_method"] == "korn_graubard"
    assert "no sentence, seen or unseen, holds far more units" in known["assumption"]


def test_one_row_has_no_student_t():
    found = estimate_counts(ReplicateCounts((3,), (100,)), 0.95)
    assert found["student_t"] is None
    assert found["recommended_method"] is found["recommended"] is found["design_effect"] is None
    assert any("single row" in warning for warning in found["warnings"])


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 500)), min_size=1, max_size=12), st.booleans())
def test_every_interval_lies_in_range_and_is_json(rows, with_sentences):
    missed, total = tuple(min(m, t) for m, t in rows), tuple(t for _, t in rows)
    sentences = tuple(max(1, t // 7) for t in total) if with_sentences else None
    found = estimate_counts(ReplicateCounts(missed, total, sentences), 0.9)
    json.dumps(found, allow_nan=False)
    assert 0 <= found["pooled"] <= 1
    for name in INTERVALS:
        if found[name] is not None:
            low, high = found[name]
            assert 0 <= low <= high <= 1
    if found["recommended"] is not None:
        assert found["pooled"] <= found["upper_bound"] <= 1
        assert found["recommended"][0] <= found["pooled"] <= found["recommended"][1]
        assert found["recommended"][1] > 0
    assert math.isfinite(found["mean"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column named missed"),
        ("missed,all\n1,2\n", "no column named total"),
        ("missed,total\n", "no counts"),
        ("missed,total\n3,2\n", "row 2: missed is larger"),
        ("missed,total\n1,2\n0,0\n", "row 3: total is 0"),
        ("missed,total\n-1,2\n", "row 2: missed must be a whole number"),
        ("missed,total\n1.5,2\n", "row 2: missed must be a whole number"),
        ("missed,total\n1\n", "row 2: total must be a whole number"),
        ("missed,total,sentences\n1,2,3\n", "sentences must lie"),
    ],
)
def test_unusable_files_say_what_is_wrong(text, message):
    with pytest.raises(InputError, match=message):
        read_counts(text.splitlines(), "counts.csv")


def test_columns_may_be_spaced_reordered_and_accompanied():
    counts = read_counts(["replicate, Total ,MISSED", "a, 10, 1", "b,20,2"], "f")
    assert counts == ReplicateCounts((1, 2), (10, 20))


def test_a_missing_file_is_an_input_error(tmp_path):
    done = reticent("estimate", "--counts", tmp_path / "none.csv", cwd=tmp_path)
    assert done.returncode == 3
    assert "does not exist" in done.stderr


def test_each_interval_is_labelled_and_totals_alone_have_none(tmp_path):
    file = tmp_path / "totals.csv"
    file.write_text("missed,total\n3,1000\n")
    lines = {line.strip()[:24].strip(): line for line in counts_text(counts_document(file, 0.95)).splitlines()}
    assert lines["recommended"].endswith("none")
    assert lines["one-sided upper bound"].endswith("none")
    assert "if units were independent" in lines["clopper pearson"]
    file.write_text("missed,total\n3,1000\n1,1000\n")
    assert "assumes that the rows are random samples" in counts_text(counts_document(file, 0.95))
