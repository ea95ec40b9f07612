"""Decisions of one reviewer and of several: kept before the next sentence, undone, shared, settled."""

from __future__ import annotations

import pytest
from sentences_to_review import make_items

from flows.review.session import ReviewSession
from pipelines.miss_rate.review_items import Item
from pipelines.miss_rate.review_log import Decision, DecisionLog, Secret, ballots_of, read_decisions
from pipelines.settings.estimate import EstimateConfig


def decide(session, number, marked=(), wrong=(), kind="judge"):
    key = session.state()["sentence"]["key"]
    return session.decide(
        {"id": f"decision{number}", "key": key, "kind": kind, "marked": list(marked), "wrong": list(wrong)}
    )


def test_a_decision_is_on_the_disk_before_the_next_sentence(tmp_path, patch):
    log = DecisionLog(tmp_path / "decisions.jsonl")
    session = ReviewSession(make_items(3), log, "ana")
    order = []
    import os

    real_fsync, real_state = os.fsync, session._state
    patch(os, "fsync", lambda d: (order.append("flushed"), real_fsync(d))[1])
    patch(session, "_state", lambda *a, **k: (order.append("shown"), real_state(*a, **k))[1])
    key = real_state()["sentence"]["key"]
    session.decide({"id": "decision1", "key": key, "kind": "judge", "marked": [], "wrong": []})
    assert order.index("flushed") < order.index("shown")


def test_skip_comes_back_at_the_end_and_undo_restores_the_marks(tmp_path):
    session = ReviewSession(make_items(3), DecisionLog(tmp_path / "d.jsonl"), "ana")
    skipped = session.state()["sentence"]["key"]
    state = decide(session, 1, kind="skip")
    assert state["sentence"]["key"] != skipped
    marked = state["sentence"]["key"]
    decide(session, 2, marked=[[0, 5, "NUMBER"]])
    state = session.undo({})
    assert state["sentence"]["key"] == marked
    assert state["sentence"]["marked"] == [[0, 5, "NUMBER"]]
    assert state["num_done"] == 0
    decide(session, 3)
    state = decide(session, 4)
    assert state["sentence"]["key"] == skipped
    state = decide(session, 5)
    assert state["sentence"] is None
    assert (state["num_done"], state["num_total"]) == (3, 3)


def test_two_reviewers_and_an_adjudicator(tmp_path):
    log, items = DecisionLog(tmp_path / "d.jsonl"), make_items(4)
    ana, ben = ReviewSession(items, log, "ana"), ReviewSession(items, log, "ben")
    for number in range(4):
        decide(ana, f"a{number:07}", marked=[[16, 24, "PERSON"]])
        decide(ben, f"b{number:07}", marked=[] if number == 0 else [[16, 24, "PERSON"]])
    (row,) = ben.state()["agreement"]
    assert row["num_disputed"] == 1
    assert 0.5 < row["kappa"] < 1
    chief = ReviewSession(items, log, "chief", mode="adjudicate")
    state = chief.state()
    assert state["num_total"] == 1
    assert [other["reviewer"] for other in state["sentence"]["others"]] == ["ana", "ben"]
    state = decide(chief, 9999, marked=[[16, 24, "PERSON"]])
    assert state["sentence"] is None
    judgement = ballots_of(read_decisions(log.path))[items[0].key].judgement()
    assert not judgement.is_disputed


def test_work_can_be_shared(tmp_path):
    log, items = DecisionLog(tmp_path / "d.jsonl"), make_items(6)
    spread = [Item(f"{i * 40:02x}" + item.key[2:], *list(vars(item).values())[1:]) for i, item in enumerate(items)]
    ana = ReviewSession(spread, log, "ana", overlap=0.0)
    for number in range(3):
        decide(ana, f"a{number:07}")
    ben = ReviewSession(spread, log, "ben", overlap=0.0)
    assert ben.state()["num_total"] == 3
    assert ReviewSession(spread, log, "ben", overlap=1.0).state()["num_total"] == 6


def test_labels_outside_the_list_are_refused_and_earlier_ones_shown_as_what_they_count_as(tmp_path):
    log = DecisionLog(tmp_path / "d.jsonl")
    labels = EstimateConfig().review_labels(())
    session = ReviewSession(make_items(3), log, "ana", labels=labels)
    with pytest.raises(ValueError):
        decide(session, 1, marked=[[0, 5, "PLACE"]])
    first = session.state()["sentence"]["key"]
    fields = {"id": "earlier1", "at": "2026-01-01", "reviewer": "ana", "key": first}
    log.append([Decision(secrets=(Secret(0, 5, "CARDINAL+PHONE_NUMBER"),), **fields)])
    assert session.undo({})["sentence"]["marked"] == [[0, 5, "CONTACT"]]
