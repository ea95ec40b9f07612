"""The paper's interval for the miss rate on its own counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipelines.intervals import clip, student_t

ORACLES = json.loads((Path(__file__).parent / "privacy_oracles.json").read_text())["jft_missing_rate_ci"]

WIKI = ([10, 5, 4, 3, 3, 7, 4, 7, 9, 3], [1024] * 10, 0.00537109375, 0.0035598401982469634, 0.007182347301753036)
MNLI = (
    [4, 3, 4, 3, 3, 0, 5, 0, 2, 0],
    [359, 412, 356, 367, 366, 360, 306, 323, 341, 420],
    0.006823564988837336,
    0.0028822402537493673,
    0.010764889723925305,
)
SST2 = (
    [0, 0, 4, 0, 3, 0, 0, 0, 0, 3],
    [122, 94, 131, 103, 122, 99, 116, 92, 123, 105],
    0.008369594365089297,
    -0.0013247401890172355,
    0.01806392891919583,
)


@pytest.mark.parametrize(("missed", "total", "mean", "low", "high"), [WIKI, MNLI, SST2])
def test_student_t_interval_of_the_papers_counts(missed, total, mean, low, high):
    rates = np.array(missed) / np.array(total)
    assert rates.mean() == pytest.approx(mean, abs=1e-9)
    assert student_t(rates, 0.95) == pytest.approx((low, high), abs=1e-9)


def test_an_interval_that_leaves_the_range_is_clipped_beside_the_raw_one():
    rates = np.array(SST2[0]) / np.array(SST2[1])
    raw = student_t(rates, 0.95)
    assert raw[0] < 0
    assert clip(raw) == (0.0, raw[1])


@pytest.mark.parametrize("name", ["wiki", "mnli", "sst2"])
def test_student_t_intervals_of_the_whole_table(name):
    row = ORACLES[name]
    rates = np.array(row["miss"]) / np.array(row["total"])
    assert student_t(rates, 0.95) == pytest.approx((row["lo"], row["hi"]), abs=1e-9)


def test_every_row_of_the_table_is_tested():
    assert {name for name in ORACLES if name != "provenance"} == {"wiki", "mnli", "sst2"}
