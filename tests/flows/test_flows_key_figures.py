"""The line that a stage leaves in Prefect's log."""

from __future__ import annotations

import re

import pytest
from looked_at import finished_run

from flows.commands.plan import open_planning
from pipelines.errors import InputError, PrivacyGateError
from pipelines.printable import first_sentence
from pipelines.store.objects import runs
from pipelines.store.place.outcome import Outcome
from tasks.base import failed_state
from tasks.key_figures import key_figure


def test_every_stage_of_a_run_says_what_it_made() -> None:
    session = open_planning(finished_run(), {})
    record = runs.latest(session.roots)
    assert record is not None
    outcomes: dict[str, list[Outcome]] = {}
    for stage, partition, key in record["artifacts"]:
        outcomes.setdefault(stage, []).append(Outcome(stage=stage, partition=partition, state="cached", key=key))
    lines = {stage: key_figure(session, stage, found) for stage, found in outcomes.items()}
    assert re.match(r"0 of \d partitions built: ", lines["split"])
    assert "2 rows rejected" in lines["split"]
    assert lines["report"].startswith("up to date: epsilon ")
    silent = [stage for stage, line in lines.items() if ":" not in line]
    assert silent in ([], ["train_phase1", "train_utility"], ["train_utility"], ["train_phase1"]), silent
    left_out = Outcome(stage="audit", partition=None, state="skipped", key=None)
    assert key_figure(session, "audit", [left_out]) == "left out"


@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        (PrivacyGateError("no: epsilon 4.302 is above 3.5. Do this"), "Refused", "No: epsilon 4.302 is above 3.5."),
        (InputError("no usable row. Look"), "Failed", "no usable row. Look"),
        (ValueError("Mary Jones"), "Failed", "unexpected ValueError at unknown place; set RETICENT_DEBUG=1 for the "),
    ],
)
def test_an_error_becomes_a_state_with_one_message(error: Exception, name: str, message: str) -> None:
    state = failed_state(error)
    assert (state.name, state.is_failed()) == (name, True)
    assert str(state.message).startswith(message)
    assert "Mary" not in str(state.message)
    assert first_sentence("one") == "one."
