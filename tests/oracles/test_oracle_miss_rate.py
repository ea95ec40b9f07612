"""The paper's interval for the miss rate on its own counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipelines.intervals import clip, student_t

ORACLES = json.loads((Path(__file__).parent / "privacy_oracles.json").read_text())["jft_missing_rate_ci"]


def rates_of(name):
    return np.array(ORACLES[name]["miss"]) / np.array(ORACLES[name]["total"])


def test_an_interval_that_leaves_the_range_is_clipped_beside_the_raw_one():
    rates = rates_of("sst2")
    raw = student_t(rates, 0.95)
    assert raw[0] < 0
    assert clip(raw) == (0.0, raw[1])


@pytest.mark.parametrize("name", ["wiki", "mnli", "sst2"])
def test_student_t_intervals_of_the_whole_table(name):
    row, rates = ORACLES[name], rates_of(name)
    assert rates.mean() == pytest.approx(row["mean"], abs=1e-9)
    assert student_t(rates, 0.95) == pytest.approx((row["lo"], row["hi"]), abs=1e-9)


def test_every_row_of_the_table_is_tested():
    assert {name for name in ORACLES if name != "provenance"} == {"wiki", "mnli", "sst2"}
