"""The log of reviews: nothing confirmed is lost, and it outlives a change of policy."""

from __future__ import annotations

import json
import multiprocessing
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import InputError, StoreError
from pipelines.miss_rate.review_files import FORMATS, export_reviews, import_reviews
from pipelines.miss_rate.review_items import Item, Mask, agreement, cohens_kappa, judged_secrets
from pipelines.miss_rate.review_log import (
    Decision,
    DecisionLog,
    Secret,
    asks_again,
    ballots_of,
    covered,
    read_decisions,
    sentence_key,
)

TEXT = "Jane Doe 😀 lives at 12 Elm Street"
STARTS, ENDS = (0, 5, 9, 11, 17, 20, 23, 27), (4, 8, 10, 16, 19, 22, 26, 33)


def key_of(text):
    return sentence_key(b"secret", text)


def item(*masks, text=TEXT):
    return Item(key_of(text), text, STARTS, ENDS, tuple(Mask(*m) for m in masks), None, ("d", 0), 0)


def decision(number=0, reviewer="ana", secrets=(), **values):
    given_values = {"id": f"id{number:06}", "at": "2026-01-01T00:00:00+00:00", "key": key_of(TEXT)} | values
    return Decision(reviewer=reviewer, secrets=tuple(Secret(*s) for s in secrets), **given_values)


def test_what_was_appended_is_read_again_and_quotes_nothing(tmp_path):
    log = DecisionLog(tmp_path / "reviews" / "decisions.jsonl")
    made = [decision(1, secrets=[(0, 8, "NAME")], wrong=((20, 22),), trusted=((0, 8),)), decision(2, kind="skip")]
    for one in made:
        log.append([one])
    assert read_decisions(log.path) == made
    assert "Jane" not in log.path.read_text()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


@settings(deadline=None, max_examples=40)
@given(cut=st.integers(1, 400))
def test_a_crash_inside_a_line_loses_that_line_only(tmp_path_factory, cut):
    log = DecisionLog(tmp_path_factory.mktemp("log") / "decisions.jsonl")
    log.append([decision(1)])
    whole = log.path.read_bytes()
    log.append([decision(2, secrets=[(0, 8, "NAME")])])
    data = log.path.read_bytes()
    log.path.write_bytes(data[: len(whole) + min(cut, len(data) - len(whole) - 1)])
    assert read_decisions(log.path) == [decision(1)]
    log.append([decision(3)])  # the next writer clears the torn line away
    assert read_decisions(log.path) == [decision(1), decision(3)]


def test_a_damaged_line_in_the_middle_is_told_without_its_content(tmp_path):
    log = DecisionLog(tmp_path / "decisions.jsonl")
    log.append([decision(1), decision(2)])
    log.path.write_bytes(b'{"v": 1, "Jane Doe"}\n' + log.path.read_bytes())
    with pytest.raises(StoreError, match="line 1 of") as error:
        read_decisions(log.path)
    assert "Jane" not in str(error.value)


def test_the_length_at_the_start_of_a_run_names_a_state(tmp_path):
    log = DecisionLog(tmp_path / "decisions.jsonl")
    log.append([decision(1)])
    size = log.path.stat().st_size
    log.append([decision(2)])
    assert read_decisions(log.path, size) == [decision(1)]


def _append(path, first):
    log = DecisionLog(path)
    for number in range(first, first + 25):
        log.append([decision(number)])


def test_two_processes_append_without_mixing_their_lines(tmp_path):
    path = tmp_path / "decisions.jsonl"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append, args=(path, first)) for first in (0, 100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(read_decisions(path)) == 50


def test_a_full_disk_is_told_and_loses_nothing(tmp_path, monkeypatch):
    import errno
    import os

    log = DecisionLog(tmp_path / "decisions.jsonl")
    log.append([decision(1)])
    real = os.write

    def full(descriptor, data):
        if len(data) > 40:
            return real(descriptor, data[:40])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match="could not be saved"):
        log.append([decision(2)])
    monkeypatch.setattr(os, "write", real)
    assert read_decisions(log.path) == [decision(1)]
    assert log.path.read_bytes().endswith(b"\n")


def test_the_same_id_is_one_decision(tmp_path):
    log = DecisionLog(tmp_path / "decisions.jsonl")
    log.append([decision(1), decision(1)])
    assert len(read_decisions(log.path)) == 1


def test_the_last_word_counts_and_undo_takes_it_back():
    first, second = decision(1, secrets=[(0, 4, "NAME")]), decision(2, secrets=[(0, 8, "NAME")])
    ballot = ballots_of([first, second])[first.key]
    assert ballot.judgement().secrets == second.secrets
    back = decision(3, kind="undo", undoes=second.id)
    assert ballots_of([first, second, back])[first.key].judgement().secrets == first.secrets
    assert ballots_of([decision(4, kind="skip")])[first.key].judgement() is None


def test_until_adjudicated_the_stricter_reviewer_counts():
    ana, ben = decision(1, secrets=[(0, 4, "NAME")]), decision(2, "ben", secrets=[(20, 33, "ADDRESS")])
    ballot = ballots_of([ana, ben])[ana.key]
    assert ballot.is_disputed
    assert covered(ballot.judgement().secrets) == {*range(4), *range(20, 33)}
    chief = decision(3, "chief", secrets=[(0, 4, "NAME")], role="adjudicator")
    settled = ballots_of([ana, ben, chief])[ana.key].judgement()
    assert settled.secrets == ana.secrets
    assert not settled.is_disputed
    # Another label for the same words is no dispute about what is sensitive.
    assert not ballots_of([ana, decision(4, "ben", secrets=[(0, 4, "OTHER")])])[ana.key].is_disputed


def test_a_change_of_policy_asks_again_for_what_was_trusted_and_for_nothing_else():
    masked = item((0, 8, "NAME"), (20, 22, "NUMBER"))
    secrets, trusted = judged_secrets(masked, [Secret(23, 33, "ADDRESS")], [(20, 22)])
    assert secrets == [(0, 8, "NAME"), (23, 33, "ADDRESS")]
    assert trusted == [(0, 8)]
    judgement = ballots_of([decision(1, secrets=secrets, wrong=((20, 22),), trusted=tuple(trusted))])[
        masked.key
    ].judgement()
    assert not masked.needs_review(judgement)
    assert not item((0, 8, "NAME")).needs_review(judgement)  # the wrong mask is gone: known to be no secret
    assert not item((0, 33, "ALL")).needs_review(judgement)  # more is masked: nothing new lies open
    opened = item((0, 4, "NAME"))
    assert opened.needs_review(judgement)
    assert asks_again(judgement, opened.open_tokens()) == [(5, 8)]


def test_a_mark_beside_a_mask_takes_it_in():
    half = item((5, 8, "NAME"))
    secrets, trusted = judged_secrets(half, [Secret(0, 6, "NAME")], [])
    assert (secrets, trusted) == ([(0, 8, "NAME")], [])
    apart, kept = judged_secrets(half, [Secret(0, 4, "NAME")], [])
    assert (apart, kept) == ([(0, 4, "NAME"), (5, 8, "NAME")], [(5, 8)])


def test_a_sentence_cannot_be_guessed_without_the_secret():
    assert sentence_key(b"one", TEXT) != sentence_key(b"two", TEXT)
    assert key_of(TEXT) == key_of(TEXT) != key_of(TEXT + " ")


def test_kappa_is_cohens():
    # Cohen 1960: observed 0.7, by chance 0.5.
    assert cohens_kappa(20, 25, 30, 50) == pytest.approx((35 / 50 - 0.5) / 0.5)
    assert cohens_kappa(5, 5, 5, 10) == 1
    assert cohens_kappa(25, 50, 50, 100) == 0
    assert cohens_kappa(0, 0, 0, 10) is None
    assert cohens_kappa(0, 0, 0, 0) is None


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_kappa_is_that_of_the_definition(pairs):
    n = len(pairs)
    both, a, b = sum(x and y for x, y in pairs), sum(x for x, _ in pairs), sum(y for _, y in pairs)
    chance = (a / n) * (b / n) + (1 - a / n) * (1 - b / n)
    found = cohens_kappa(both, a, b, n)
    if chance == pytest.approx(1):
        assert found is None or abs(found) <= 1
    else:
        assert found == pytest.approx((sum(x == y for x, y in pairs) / n - chance) / (1 - chance))


def test_agreement_counts_tokens_of_what_both_judged():
    ana, ben = decision(1, secrets=[(0, 8, "NAME")]), decision(2, "ben", secrets=[(0, 4, "NAME")])
    (row,) = agreement(ballots_of([ana, ben]), [item()])
    assert (row["reviewers"], row["num_tokens"], row["num_disputed"]) == (["ana", "ben"], 8, 1)
    assert row["kappa"] == pytest.approx(cohens_kappa(1, 2, 1, 8))
    assert agreement(ballots_of([ana]), [item()]) == []


@pytest.mark.parametrize("file_format", FORMATS)
def test_reviews_survive_a_file(file_format):
    shown = item((0, 8, "NAME"))
    secrets, trusted = judged_secrets(shown, [Secret(20, 33, "ADDRESS")], [])
    made = decision(1, secrets=secrets, trusted=tuple(trusted))
    text, number = export_reviews([shown], [made], file_format)
    assert number == 1

    def other_store(sentence):
        return sentence_key(b"another", sentence)

    moved = Item(other_store(TEXT), TEXT, STARTS, ENDS, shown.masks, None, ("d", 0), 0)
    found, unknown = import_reviews(text, [moved], file_format, reviewer="x", source="f", key_of=other_store)
    assert unknown == 0
    (back,) = found
    assert (back.reviewer, back.key) == ("ana", moved.key)
    assert covered(back.secrets) == covered(made.secrets)
    again, _ = import_reviews(text, [moved], file_format, reviewer="x", source="f", key_of=other_store)
    assert [d.id for d in again] == [d.id for d in found]
    nobody, number = import_reviews(text, [], file_format, reviewer="x", source="f", key_of=other_store)
    assert (nobody, number) == ([], 1)


def test_label_studio_offsets_in_utf_16_are_understood():
    region = {"type": "labels", "value": {"start": 12, "end": 17, "text": "lives", "labels": ["X"]}}  # after an emoji
    tasks = json.dumps([{"data": {"text": TEXT}, "annotations": [{"result": [region]}]}])
    (found,), _ = import_reviews(tasks, [item()], "label-studio", reviewer="ana", source="f", key_of=key_of)
    assert found.secrets == ((11, 16, "X"),)
    wrong = tasks.replace('"text": "lives"', '"text": "other"')
    with pytest.raises(InputError, match="task 1") as error:
        import_reviews(wrong, [item()], "label-studio", reviewer="ana", source="f", key_of=key_of)
    assert "Jane" not in str(error.value)


@pytest.mark.parametrize(
    ("file_format", "text"),
    [("jsonl", "{}\n"), ("jsonl", "no json"), ("csv", "a,b\n1,2\n"), ("label-studio", "{}"), ("label-studio", "[{}]")],
)
def test_other_files_are_refused(file_format, text):
    with pytest.raises(InputError):
        import_reviews(text, [item()], file_format, reviewer="ana", source="f", key_of=key_of)
