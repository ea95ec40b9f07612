"""What the report says of the audit's power was measured, by the benchmark, on the faults that the tests put in."""

import json

import pytest
from audit_faults import CORRECT, FAULTS, LOOP, SPANS
from support import REPOSITORY

from pipelines.attacks import engine_power
from pipelines.settings.audit import AuditConfig

RESULTS = json.loads((REPOSITORY / "benchmarks/results/audit_power.json").read_text())


@pytest.mark.parametrize(("takes_spans", "method", "kind"), [(False, "dpsgd", LOOP), (True, "sdpsgd_lstm", SPANS)])
def test_what_the_report_says_was_measured(takes_spans, method, kind):
    told = engine_power.measured_power(AuditConfig().num_trials, takes_spans=takes_spans)
    assert told is not None
    assert [row["fault"] for row in told["rows"]] == [f.name for f in (CORRECT, *FAULTS) if kind in f.patches]
    assert told["num_trials"] == RESULTS["num_trials"]
    for row in told["rows"]:
        measured = [m for m in RESULTS["rows"] if (m["method"], m["fault"]) == (method, row["fault"])]
        assert sorted(m["epsilon"] for m in measured) == told["epsilons"]
        assert sum(m["num_flagged"] for m in measured) == row["num_flagged"]
        assert sum(m["num_runs"] for m in measured) == row.get("num_runs", told["num_runs"])
    assert engine_power.measured_power(engine_power.NUM_TRIALS - 1, takes_spans=takes_spans) is None


def test_each_fault_is_caught_on_the_first_night_or_the_table_says_why_it_cannot_be():
    for row in RESULTS["rows"]:
        least, most = (0, 0) if row["fault"] == CORRECT.name else (0.95, 1)
        assert least <= row["num_flagged"] / row["num_runs"] <= most, row
    assert {(one["method"], one["fault"]) for one in RESULTS["impossible"]} == {
        (method, fault.name)
        for fault in FAULTS
        for method, kind in (("dpsgd", LOOP), ("sdpsgd_lstm", SPANS))
        if kind not in fault.patches
    }
    assert all(one["why"] for one in RESULTS["impossible"])
