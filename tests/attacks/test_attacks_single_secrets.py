"""Membership of single secrets: others of the same form, what a memorised secret shows, and what a made-up one does."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.contexts import stage_context
from support.memorised import trained_on
from support.tables import span_of, write_rows
from support.torch_threads import one_thread  # noqa: F401

from pipelines.attacks.single_secrets import ALONE, HELD_OUT, IN_CONTEXT, Row, SecretAttacker, made_up, refined_accuracy
from pipelines.settings.audit import AuditConfig
from pipelines.settings.train import TrainConfig
from pipelines.stages.audit import secrets as audit_secrets
from pipelines.training.encoded import Record

SECRETS = st.from_regex(r"[A-Za-z0-9éß٣ .,()-]{1,20}", fullmatch=True)


@settings(max_examples=40)
@given(SECRETS, st.lists(SECRETS, min_size=1, max_size=4), st.integers(0, 99))
def test_a_made_up_secret_has_the_form_of_another_and_occurs_nowhere(secret, pool, seed):
    known = frozenset({secret, *pool})
    found = made_up(secret, pool, known, np.random.default_rng(seed))
    if found is not None:
        assert found not in known
        assert re.sub(r"\w+", "", found) == re.sub(r"\w+", "", secret)
        for mine, other in zip(re.findall(r"\w+", found), re.findall(r"\w+", secret), strict=True):
            if any(char.isdigit() for char in other):
                kinds = [[(c.isdigit(), c.isalpha(), c.isupper()) for c in word] for word in (mine, other)]
                assert [k[:2] for k in kinds[0]] == [k[:2] for k in kinds[1]]


def test_words_come_from_the_same_place_of_another_secret():
    rng = np.random.default_rng(0)
    pool = ["Betty Sims", "Ann Lee", "Joe Roe"]
    found = {made_up("Betty Sims", pool, frozenset(pool), rng) for _ in range(50)}
    assert found == {"Betty Lee", "Betty Roe", "Ann Sims", "Ann Roe", "Joe Sims", "Joe Lee"}
    assert made_up("Betty", ["Betty", "Ann"], frozenset(["Betty", "Ann"]), rng) is None  # there is no other


def test_a_row_gets_other_secrets_and_its_other_spans_move():
    row = Row(text="Ann, 12 and 345", spans=[("ID", 12, 15), ("PERSON", 0, 3), ("ID", 5, 7)], speaker="USR")
    assert row.secrets("ID") == ["345", "12"]
    changed = row.with_secrets("PERSON", ["Annabel"])
    assert (changed.text, changed.speaker) == ("Annabel, 12 and 345", "USR")
    assert changed.secrets("ID") == ["12", "345"]
    assert changed.secrets("PERSON") == ["Annabel"]


def test_the_surest_answers_are_chosen_without_the_truth():
    assert refined_accuracy(np.arange(100.0, 200), np.arange(100.0)) == (60, 60)
    assert refined_accuracy(np.arange(100.0), np.arange(100.0, 200)) == (0, 60)  # the truth would have made it 60
    rng = np.random.default_rng(0)
    right, num = refined_accuracy(rng.normal(size=5_000), rng.normal(size=5_000))
    assert num == 3_000
    assert abs(right / num - 0.5) < 0.04


def rows_of(numbers):
    return [Row(text=f"{n:06}", spans=[("ID", 0, 6)]) for n in numbers]


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(5).choice(1_000_000, 48, replace=False).tolist()


@pytest.fixture(scope="module")
def memorised(numbers):
    return trained_on([Record(texts=[row.text]) for row in rows_of(numbers[:24])], 120)


def test_what_was_learnt_by_heart_is_told_from_what_was_not(memorised, numbers, one_thread):  # noqa: F811
    def attacked(rows):
        attacker = SecretAttacker(
            memorised, rows, rows_of(numbers[36:]), most=100, marks_tokens=False, rng=np.random.default_rng(0)
        )
        return {found.kind: found for found in attacker.attacks()}

    learnt = attacked(rows_of(numbers[:24]))
    assert learnt.keys() == {ALONE, IN_CONTEXT, HELD_OUT}
    for kind, num in ((ALONE, 24), (HELD_OUT, 24), (IN_CONTEXT, 12)):
        assert learnt[kind].num_members == num
    assert min(found.auc for found in learnt.values()) > 0.9
    assert learnt[IN_CONTEXT].p_value < 0.01
    unknown = attacked(rows_of(numbers[24:36]))  # it never read these
    assert max(found.p_value for found in unknown.values()) > 0.01
    assert unknown[HELD_OUT].auc < 0.85


def test_a_label_with_few_secrets_is_not_attacked(memorised, numbers):
    few = SecretAttacker(
        memorised, rows_of(numbers[:7]), [], most=100, marks_tokens=False, rng=np.random.default_rng(0)
    )
    assert few.attacks() == []


def test_the_stage_tells_figures_and_no_secret(tmp_path, patch, memorised, numbers, one_thread):  # noqa: F811
    texts = [f"{number:06}" for number in numbers]
    folds = ["train"] * 24 + ["test"] * 24
    rows = [{"doc_id": f"d{at}", "fold": fold} for at, fold in enumerate(folds)]
    sentences = [row | {"text": text} for row, text in zip(rows, texts, strict=True)]
    redacted = [row | {"is_duplicate": at == 0} for at, row in enumerate(rows)]
    found = {"redacted_text": "<MASK>", "spans": [span_of(0, 6, "ID")], "flagged_by_conservative": True}
    write_rows(tmp_path / "split/sentences.parquet", "sentences", sentences, token_ends=[6])
    write_rows(tmp_path / "redact/redacted.parquet", "redacted", redacted, num_masked_tokens=1, **found)
    patch(audit_secrets, "open_audited", lambda ctx, stage: memorised)
    configs = {"audit": AuditConfig(enabled=True, num_secrets=20), "train": TrainConfig(method="no_dp")}
    inputs = {"split": tmp_path / "split", "redact": tmp_path / "redact"}
    ctx = stage_context("audit_secrets", tmp_path / "out", configs, inputs)
    assert audit_secrets.run(ctx) == {"num_attacks": 3}
    found = json.loads((tmp_path / "out/secrets.json").read_text())
    assert found["any_leak"] is True
    assert {attack["kind"]: attack["num_members"] for attack in found["attacks"]} == {
        ALONE: 20,
        HELD_OUT: 20,
        IN_CONTEXT: 11,  # of 23 rows that are no copies, the first half
    }
    assert not any(text in json.dumps(found) for text in texts)


def test_the_stage_is_left_out_unless_it_is_asked_for():
    assert not AuditConfig(enabled=True).wants("audit_secrets")
    assert AuditConfig(enabled=True).wants("audit_membership")
    assert AuditConfig(enabled=True, num_secrets=1).wants("audit_secrets")
    assert not AuditConfig(num_secrets=1).wants("audit_secrets")
    assert not AuditConfig(enabled=True, num_secrets=1).wants("audit_domains")
