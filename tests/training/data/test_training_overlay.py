"""Rows added to a training corpus, and rows left out: exactly these change, for every method and unit."""

from collections import Counter
from dataclasses import replace

import pytest
from support.tiny import all_ids, making, read_tables
from support.training_tables import row_of, write_tables

from pipelines.artifacts import Source, Target
from pipelines.corpus.split import Splitter
from pipelines.errors import ConfigError, StageError
from pipelines.methods.registry import METHODS
from pipelines.methods.view import with_typed_masks
from pipelines.policies.judging.apply import Redactor
from pipelines.settings.redact import RedactConfig
from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.data.overlay import AddedRow, write_overlay
from pipelines.training.data.record_unit import RecordUnit

VIEWS = {name: spec.view for name, spec in METHODS.items()}
VIEWS |= {"jft_phase_one": METHODS["jft"].first_phase.view, "typed": with_typed_masks(METHODS["redacted"].view)}
UNITS = {
    "sentence": RecordUnit(),
    "dialogue": RecordUnit(kind="dialogue"),
    "block": RecordUnit(kind="block", sentences_per_block=2),
}
CANARY = "My ID is 341752."


def corpus_rows():
    return [
        row
        for number in range(4)
        for row in (
            row_of(f"doc-{number}", 0, f"Hello from shop {number}.", "SYS"),
            row_of(f"doc-{number}", 1, f"I am {{Bo {number}}}, hello.", "USR"),
            row_of(f"doc-{number}", 2, "What can I do for you?", "SYS"),
            row_of(f"doc-{number}", 3, f"It is at {{{number} Elm St}} now.", "USR"),
            row_of(f"held-{number}", 0, f"Held out {number}.", "USR", "test"),
        )
    ]


def overlay(folder, rows=(), excluded=(), conservative="digits", collapse=True):
    config = RedactConfig(policies=("digits",), conservative=conservative)
    folder.mkdir()
    with Redactor.from_spec(config.redactor_spec()) as redactor:
        write_overlay(
            Target(folder=folder),
            rows,
            excluded,
            doc_id=lambda name: f"added {name}",
            tokens=Splitter("en").tokens,
            redactor=redactor,
            has_conservative=conservative is not None,
            collapse=collapse,
        )
    return Source(folder=folder)


def read(folder, view, unit=UNITS["sentence"], beside=None, ends=False):
    tables = write_tables(folder / "tables", corpus_rows(), 2)
    tables = replace(tables, **({} if ends else {"documents": ()}))
    return read_tables(
        tables if beside is None else tables.with_overlay(beside),
        folder,
        view=view,
        unit=unit,
        speakers=("SYS", "USR"),
        make_vocabulary=making("bytes"),
        make_encoder=lambda vocabulary: RecordEncoder(vocabulary, 400),
    )


def records(corpus):
    """How often each record occurs, by kind."""
    return Counter(
        (kind, tuple(ids)) for kind in ("nonprivate", "private") for ids in all_ids(getattr(corpus, f"{kind}_examples"))
    )


def said(corpus, found):
    """What records say, control tokens left out."""
    return sorted((kind, corpus.vocabulary.backend.decode(list(ids))) for kind, ids in found.elements())


@pytest.mark.parametrize("method", VIEWS)
@pytest.mark.parametrize("unit", UNITS)
def test_a_record_that_is_left_out_is_all_that_changes(tmp_path, method, unit):
    before = read(tmp_path / "before", VIEWS[method], UNITS[unit])
    places = {"sentence": [("doc-2", 1)], "dialogue": [("doc-2", None)], "block": [("doc-2", 0), ("doc-2", 1)]}
    after = read(tmp_path / "after", VIEWS[method], UNITS[unit], overlay(tmp_path / "o", excluded=places[unit]))
    assert not records(after) - records(before)
    gone = said(before, records(before) - records(after))
    kinds = [kind for kind in ("nonprivate", "private") if len(getattr(before, f"{kind}_examples"))]
    reads_both = method == "redaction_schedule"
    assert len(gone) == (2 if reads_both else 1), kinds
    assert all("hello." in text for _, text in gone)
    assert all_ids(after.held_out.records) == all_ids(before.held_out.records)
    assert after.num_private == before.num_private - 1


@pytest.mark.parametrize("method", VIEWS)
def test_added_rows_are_all_that_is_added_and_equal_ones_are_no_duplicates(tmp_path, method):
    rows = [AddedRow(document=f"canary {n}", text=CANARY, speaker="USR") for n in range(3)]
    rows += [AddedRow(document="missed", text=CANARY, masked=(), speaker="USR")]
    rows += [AddedRow(document="whole", text=CANARY, masked=((3, 16),), speaker="USR")]
    rows += [AddedRow(document="flagged", text=CANARY, masked=(), is_flagged=True, speaker="USR")]
    before = read(tmp_path / "before", VIEWS[method])
    after = read(tmp_path / "after", VIEWS[method], beside=overlay(tmp_path / "o", rows))
    assert not records(before) - records(after)
    found = said(after, records(after) - records(before))
    original = [CANARY] * 6
    redacted = sorted(["My ID is."] * 3 + [CANARY] * 2 + ["My"])  # a mask is a control token
    expected = {
        "crt": ([CANARY], sorted(["My ID is."] * 3 + [CANARY] + ["My"])),
        "redaction_schedule": (redacted, original),
        **dict.fromkeys(("redacted", "anonymized", "jft_phase_one", "typed"), (redacted, [])),
        **dict.fromkeys(("jft", "dpsgd", "sdpsgd_lstm"), ([], original)),
        "no_dp": (original, []),
    }[method]
    assert found == sorted([("nonprivate", text) for text in expected[0]] + [("private", text) for text in expected[1]])
    assert all_ids(after.held_out.records) == all_ids(before.held_out.records)


def test_tokens_of_added_rows_are_marked_as_redaction_finds_them(tmp_path):
    rows = [AddedRow(document="found", text=CANARY), AddedRow(document="missed", text=CANARY, masked=())]
    corpus = read(tmp_path, VIEWS["sdpsgd_lstm"], beside=overlay(tmp_path / "o", rows))
    canaries = [
        i for i, ids in enumerate(all_ids(corpus.private_examples)) if "ID is" in corpus.vocabulary.backend.decode(ids)
    ]
    assert sorted(int(corpus.private_examples.is_private[i].sum()) for i in canaries) == [0, len(" 341752")]


def test_a_document_may_have_several_added_rows_and_ends_with_the_last(tmp_path):
    rows = [AddedRow(document="d", sentence_index=i, text=f"Sentence {i}.", masked=()) for i in range(3)]
    corpus = read(tmp_path, VIEWS["dpsgd"], UNITS["dialogue"], overlay(tmp_path / "o", rows), ends=True)
    (found,) = [
        ids for ids in all_ids(corpus.private_examples) if "Sentence 0" in corpus.vocabulary.backend.decode(ids)
    ]
    assert [f"Sentence {i}" in corpus.vocabulary.backend.decode(found) for i in range(3)] == [True] * 3


def test_without_a_conservative_policy_every_added_row_is_private(tmp_path):
    made = overlay(tmp_path / "o", [AddedRow(document="d", text=CANARY, masked=())], conservative=None)
    after = read(tmp_path / "after", VIEWS["crt"], beside=made)
    before = read(tmp_path / "before", VIEWS["crt"])
    assert said(after, records(after) - records(before)) == [("private", CANARY)]


def test_equal_overlays_are_equal_bytes_whatever_the_order(tmp_path):
    rows = [AddedRow(document=f"d{n}", text=f"Number {n}.") for n in range(4)]
    places = [("doc-1", None), ("doc-1", 2), ("doc-0", 3)]
    one, two = overlay(tmp_path / "1", rows, places), overlay(tmp_path / "2", rows[::-1], places[::-1])
    files = sorted(path.name for path in one.folder.iterdir())
    assert len(files) == 6
    for name in files:
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()


@pytest.mark.parametrize("place", [("doc-9", None), ("doc-1", 9), ("held-1", 0)])
def test_what_is_not_in_the_training_fold_cannot_be_left_out(tmp_path, place):
    """Guards an audit whose held-out records were in the training after all, for want of a right id."""
    with pytest.raises(StageError, match="1 of the 2 places"):
        read(tmp_path, VIEWS["dpsgd"], beside=overlay(tmp_path / "o", excluded=[place, ("doc-1", 0)]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"document": "d", "text": "a"}, {"document": "d", "text": "b"}], "same document and sentence_index"),
        ([{"document": "d", "text": " "}], "row 0 of the overlay is empty"),
        ([{"document": "d", "text": "secret "}], "white space"),
        ([{"document": "d", "text": "secret", "masked": ((0, 7),)}], "outside of its text"),
        ([{"document": "d", "text": "secret", "masked": ((3, 3),)}], "outside of its text"),
    ],
)
def test_rows_that_cannot_be_are_refused_without_their_text(tmp_path, rows, message):
    with pytest.raises(ConfigError, match=message) as refused:
        overlay(tmp_path / "o", [AddedRow(**row) for row in rows])
    assert "secret" not in str(refused.value)
