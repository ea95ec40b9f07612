"""The log of reviews: nothing confirmed is lost, and it outlives a change of policy."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import stat
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.contexts import artifact
from support.patches import patching
from support.tables import write_rows

from pipelines.errors import InputError, StoreError
from pipelines.miss_rate.review_files import FORMATS, export_reviews, find_format, import_reviews
from pipelines.miss_rate.review_items import Item, Mask, Neighbour, agreement, cohens_kappa, judged_secrets, load_items
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
from pipelines.miss_rate.sampling import Partition
from pipelines.miss_rate.tables import SAMPLE
from pipelines.policies.labels import ReviewLabels
from pipelines.settings.estimate import EstimateConfig

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


@pytest.mark.slow
def test_two_processes_append_without_mixing_their_lines(tmp_path):
    path = tmp_path / "decisions.jsonl"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append, args=(path, first)) for first in (0, 100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(read_decisions(path)) == 50


def test_a_full_disk_is_told_and_loses_nothing(tmp_path):
    import errno
    import os

    log = DecisionLog(tmp_path / "decisions.jsonl")
    log.append([decision(1)])
    real = os.write

    def full(descriptor, data):
        if len(data) > 40:
            return real(descriptor, data[:40])
        raise OSError(errno.ENOSPC, "No space left on device")

    with patching() as patch:
        patch(os, "write", full)
        with pytest.raises(StoreError, match="could not be saved"):
            log.append([decision(2)])
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


def test_a_review_of_another_kind_is_refused_and_the_page_that_says_how_is_named():
    review = {"v": 1, "id": "a", "at": "now", "reviewer": "ana", "role": "reviewer", "kind": "sample", "secrets": []}
    line = json.dumps({"text": item().text, "reviews": [{**review, "wrong": [], "trusted": []}]})
    with pytest.raises(InputError, match=r"line 1: .* docs/reviewing\.md") as error:
        import_reviews(line, [item()], "jsonl", reviewer="ana", source="f", key_of=key_of)
    assert item().text not in str(error.value)


@pytest.mark.parametrize("file_format", FORMATS)
def test_what_nobody_has_judged_is_written_and_comes_back_as_no_review(file_format):
    shown = replace(item((0, 8, "PERSON")), before=(Neighbour("USR", "who is it"),), after=(Neighbour(None, "fine"),))
    text, number = export_reviews([shown], [], file_format)
    assert number == 0
    for part in (TEXT, "who is it", "fine", "PERSON"):
        assert part in text
    assert find_format(text, "f") == file_format
    assert import_reviews(text, [shown], file_format, reviewer="ana", source="f", key_of=key_of) == ([], 0)


def test_a_sheet_is_filled_in():
    shown = item((0, 8, "PERSON"), (20, 22, "NUMBER"))
    text, _ = export_reviews([shown], [], "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["what"] for row in rows] == ["mask", "mask"]

    def filled(*changes):
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows[0] | change for change in changes)
        (found,), _ = import_reviews(out.getvalue(), [shown], "csv", reviewer="ana", source="f", key_of=key_of)
        return found

    nothing = filled({"kind": "judge"})
    assert (covered(nothing.secrets), nothing.trusted) == ({*range(8), *range(20, 22)}, ((0, 8), (20, 22)))
    marked = filled({}, {"what": "secret", "start": "23", "end": "33", "label": "LOCATION"})
    assert (23, 33, "LOCATION") in marked.secrets
    wrong = filled({}, {"what": "wrong", "start": "20", "end": "22"})
    assert wrong.secrets == ((0, 8, "PERSON"),)


@pytest.mark.parametrize("text", ["", "  \n", "a,b\n1,2\n", "no table", "<xml/>"])
def test_a_file_that_looks_like_none_is_refused_by_name(text):
    with pytest.raises(InputError, match=r"sheet\.txt is in none of the formats jsonl, csv, label-studio"):
        find_format(text, "sheet.txt")


def test_items_have_their_neighbours_and_labels_of_the_list(tmp_path):
    texts = ["one a", "two b", "three c", "four d"]
    for name in ("split", "redact"):
        (tmp_path / name).mkdir()
    rows = [{"doc_id": d, "sentence_index": i, "text": f"{text}{d}"} for d in "xy" for i, text in enumerate(texts)]
    offsets = [
        {"token_starts": [0, len(row["text"]) - 2], "token_ends": [len(row["text"]) - 3, len(row["text"])]}
        for row in rows
    ]
    write_rows(
        tmp_path / "split" / "sentences.parquet",
        "sentences",
        [a | b for a, b in zip(rows, offsets, strict=True)],
        speaker="USR",
    )
    span = {"start": 0, "end": 1, "score": 1.0, "start_token": 1, "end_token": 2}
    spans = [
        span | {"label": "CARDINAL", "policy": "high_entity"},
        span | {"label": "PHONE_NUMBER", "policy": "presidio"},
    ]
    masked = [{k: v for k, v in row.items() if k != "text"} for row in rows]
    write_rows(tmp_path / "redact" / "redacted.parquet", "redacted", masked, num_tokens=2, spans=spans, speaker="USR")
    drawn = [
        {"doc_id": "x", "sentence_index": 0},
        {"doc_id": "x", "sentence_index": 3},
        {"doc_id": "y", "sentence_index": 2},
    ]
    write_rows(tmp_path / "sample.parquet", "sample", drawn, partition="p", replicate=0, inclusion_probability=0.5)
    partition = Partition("p", artifact("split", tmp_path / "split", "p"), artifact("redact", tmp_path / "redact", "p"))
    items = load_items(artifact("sample", tmp_path).table(SAMPLE), [partition], key_of, ReviewLabels())
    found = {i.row: i for i in items}
    assert [near.text for near in found["x", 0].before] == []
    assert [near.text for near in found["x", 0].after] == ["two bx", "three cx"]
    assert [near.text for near in found["x", 3].before] == ["two bx", "three cx"]
    assert found["x", 3].after == ()  # not the next document's
    assert found["y", 2].before == (Neighbour("USR", "one ay"), Neighbour("USR", "two by"))
    assert [mask.label for mask in found["y", 2].masks] == ["OTHER"]  # without specs, by name alone
    declared = EstimateConfig().review_labels(())
    again = load_items(artifact("sample", tmp_path).table(SAMPLE), [partition], key_of, declared)
    assert {mask.label for i in again for mask in i.masks} == {"CONTACT"}
