"""The benchmark of the audit's power, at toy size."""

import audit_power
import pytest
from audit_faults import CORRECT


def test_jobs_are_every_fault_of_every_kind_of_step():
    first = list(audit_power.jobs(0, 100))
    assert {method for method, *_ in first} == {*audit_power.FULL, *audit_power.FEWER}
    assert {fault for _, fault, *_ in first} == set(audit_power.ALL)
    assert len(list(audit_power.jobs(1, 100))) < len(first) == len(set(first))


def test_rows_that_were_not_measured_again_are_kept():
    def rows(**counts):
        found = [{"method": "dpsgd", "fault": fault, "epsilon": 1.0, "num_runs": n} for fault, n in counts.items()]
        return {"num_trials": 100, "seconds": 2, "rows": found}

    found = audit_power.merged(rows(correct=20, other=20), rows(other=4))
    assert (found["rows"], found["seconds"]) == (rows(correct=20, other=4)["rows"], 4)
    assert audit_power.merged({}, rows(other=4)) == rows(other=4)
    with pytest.raises(SystemExit, match="--trials"):
        audit_power.merged({**rows(correct=20), "num_trials": 1_000}, rows(other=4))


@pytest.mark.slow
def test_the_table_is_made_from_a_run():
    chosen = ("correct", "noise × 0.9")
    methods = ("dpsgd", "jft, phase 1", "sdpsgd_lstm")
    jobs = [job for job in audit_power.jobs(0, 100) if job[0] in methods and job[1] in chosen and job[2] == 3.0]
    result = audit_power.summary(list(map(audit_power.audited, jobs)), 100, 1.0)
    assert len(result["rows"]) == 6
    for row in result["rows"]:
        assert row["num_flagged"] == (row["fault"] != CORRECT.name)
    shown = audit_power.table(result).splitlines()
    assert len(shown) == 2 + len(audit_power.ALL)
    assert "cannot be" in shown[-1]
