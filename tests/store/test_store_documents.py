"""The ledger follows documents by their text: whatever the file, place, partition, order or form they are read from."""

from __future__ import annotations

import json

import pytest
from support.toy import publishing
from test_store_ledger import DELTA, EVENT, ledger, release, roots, split_of

from pipelines.corpus.same_text import forms_of, normal_form
from pipelines.errors import PrivacyGateError
from pipelines.store.ledger.documents import check_documents
from pipelines.store.ledger.ledger import StoreLedger, enter_older, read_ledger
from pipelines.store.ledger.recovery import acknowledge_damage
from pipelines.store.objects.ledger_lines import ledger_dir
from pipelines.store.place.ledger_file import FILE, LedgerError
from pipelines.store.place.roots import Roots
from pipelines.store.upkeep.maintenance import verify

__all__ = ["roots"]
BUDGET = {"budget_epsilon": 2.4, "budget_delta": DELTA}
"""Enough for one release, and too little for two on the same records."""
TEXTS = ("Ann is ill.\nShe called.", "Ben moved.", "It rains.")


def training(roots: Roots, key: str, *splits: str, file: str = "x") -> StoreLedger:
    """A training on sentences, of files that no other training names."""
    made = ledger(roots, key, {f"{key}-{file}": key}, **BUDGET)
    made.split = splits
    return made


@pytest.mark.parametrize(
    "documents",
    [
        TEXTS,
        TEXTS[::-1],
        TEXTS[1:2],
        (*TEXTS, "Something new."),
        ("Ann is ill. She called.",),
        ("  Ann is ill.\r\nShe called.  ",),
        ("new", "Be\u006e moved."),
    ],
)
def test_a_shared_document_composes_whatever_its_file_place_and_partition(
    roots: Roots, documents: tuple[str, ...]
) -> None:
    release(training(roots, "k1", split_of(roots, *TEXTS[:2]), split_of(roots, TEXTS[2])))
    with pytest.raises(PrivacyGateError, match="1 earlier release on this data"):
        training(roots, "k2", *(split_of(roots, text) for text in documents)).reserve(EVENT, DELTA)
    release(training(roots, "k3", split_of(roots, "Ann is ill.\nShe calls.")))  # edited: not recognised


def test_the_normal_form_is_that_of_the_text_alone() -> None:
    composed, decomposed = "Ren\u00e9 is here.", "Rene\u0301 is here."
    assert normal_form([composed]) == normal_form([decomposed]) != normal_form(["Rene is here."])
    assert normal_form(["Hi there.", "How are you?"]) == normal_form([" Hi there. How\r\nare you?\n"])
    turns, lines = ["hi, it is late", "Bye"], ["USR: hi, it is late", "Agent 2: Bye"]
    assert normal_form(turns) == normal_form(lines)
    assert normal_form(["Name:"]) != normal_form(["Age:"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("We met the old\nFriends: Ann, Ben.", "We met the old Friends: Ann, Ben."),  # wrapped elsewhere
        ("It was at  the  very last: Ann.", "It was at the very last: Ann."),
        ("Ann is ill.\nShe called.", "\ufeffAnn is ill.\n\ufeffShe called."),  # files with such marks, put together
        ("Ann is ill.", "Ann\u200b is i\u00adll."),
        ("Hello, Ann.\nBye.", "\ufeffSYS:  Hello,  Ann.\n  USR:  Bye."),  # the mark hides that these are turns
    ],
)
def test_white_space_and_characters_of_no_width_hide_no_shared_document(roots: Roots, first: str, second: str) -> None:
    release(training(roots, "k1", split_of(roots, first)))
    with pytest.raises(PrivacyGateError, match="1 earlier release on this data"):
        training(roots, "k2", split_of(roots, second)).reserve(EVENT, DELTA)


def test_a_form_does_not_depend_on_where_rows_are_cut() -> None:
    cut, whole = ["one two", "three: four"], ["one two three: four"]
    assert normal_form(cut) != normal_form(whole)
    assert forms_of(cut)[1] == forms_of(whole)[1]


def test_each_document_is_kept_once_and_lines_name_none(roots: Roots) -> None:
    release(training(roots, "k1", split_of(roots, *TEXTS)))
    unlimited = training(roots, "k2", split_of(roots, *TEXTS, "Something new."))
    unlimited.session.configs = {"guarantee": type(unlimited.session.configs["guarantee"])()}
    release(unlimited)
    first, second = read_ledger(roots)
    assert first.documents
    assert second.documents
    assert (first.documents.num_new, second.documents.num_new) == (3, 1)
    assert second.overlaps == (first.release_id,)
    files = sorted((ledger_dir(roots) / "documents").iterdir())
    assert sorted(path.stat().st_size for path in files) == [8, 24]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


@pytest.mark.parametrize(
    "damage", [lambda p: p.unlink(), lambda p: p.write_bytes(bytes(8)), lambda p: p.write_bytes(b"")]
)
def test_a_lost_or_changed_set_of_documents_is_noticed_and_never_cheaper(roots: Roots, damage) -> None:  # type: ignore[no-untyped-def]
    release(training(roots, "k1", split_of(roots, *TEXTS)))
    (path,) = (ledger_dir(roots) / "documents").iterdir()
    damage(path)
    with pytest.raises(LedgerError, match="says what documents a release read"):
        check_documents(roots, read_ledger(roots))
    with pytest.raises(LedgerError):
        training(roots, "k2", split_of(roots, "unrelated")).reserve(EVENT, DELTA)
    assert any(c.stage == "ledger" and c.problem for c in verify(roots))
    acknowledge_damage(roots, "the disk failed")
    with pytest.raises(PrivacyGateError, match="1 earlier release"):
        training(roots, "k2", split_of(roots, "unrelated")).reserve(EVENT, DELTA)


def test_a_release_of_which_the_sentences_are_gone_composes_with_all(roots: Roots) -> None:
    release(training(roots, "k1", "gone"))
    with pytest.raises(PrivacyGateError, match="1 earlier release"):
        training(roots, "k2", split_of(roots, "unrelated")).reserve(EVENT, DELTA)


def older(roots: Roots, key: str, *, is_kept: bool = True) -> None:
    """A release as an earlier version entered it; ``is_kept``: its model names the sentences, which are there."""
    split = split_of(roots, *TEXTS)
    made = training(roots, key, split)
    release(made)
    path = ledger_dir(roots) / FILE
    from pipelines.store.place import ledger_file

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    plain = [{n: v for n, v in line.items() if n not in ("documents", "seal", "number", "previous")} for line in lines]
    (roots.private / "store.json").unlink()
    ledger_file.append(path, roots.secret, plain)
    if is_kept:
        with publishing(roots, "train", key, {"ingredients": {}, "inputs": {"split": [["p", split]]}}):
            pass


@pytest.mark.parametrize("is_entered", [False, True])
def test_a_release_of_an_earlier_version_composes_unless_its_sentences_tell_otherwise(
    roots: Roots, is_entered: bool
) -> None:
    older(roots, "k1")
    (before,) = read_ledger(roots)
    assert before.documents is None
    if is_entered:
        for _ in range(2):
            enter_older(roots)
        (now,) = read_ledger(roots)
        assert now.documents
        assert now.documents.num_new == 3
        assert (ledger_dir(roots) / FILE).read_text().count('"type":"documents"') == 1
    with pytest.raises(PrivacyGateError, match="1 earlier release"):
        training(roots, "k2", split_of(roots, TEXTS[1])).reserve(EVENT, DELTA)
    other = training(roots, "k3", split_of(roots, "unrelated"))
    if is_entered:
        release(other)
    else:
        with pytest.raises(PrivacyGateError, match="1 earlier release"):
            other.reserve(EVENT, DELTA)


def test_an_earlier_versions_release_without_its_sentences_composes_with_all(roots: Roots) -> None:
    older(roots, "k1", is_kept=False)
    enter_older(roots)
    (line,) = [json.loads(t) for t in (ledger_dir(roots) / FILE).read_text().splitlines() if '"documents"' in t]
    assert line["documents"] is None
    with pytest.raises(PrivacyGateError, match="1 earlier release"):
        training(roots, "k2", split_of(roots, "unrelated")).reserve(EVENT, DELTA)


def test_what_a_training_that_ended_early_named_links_later_ones(roots: Roots) -> None:
    """Later lines do not repeat its documents, so groups must be made with it."""
    from pipelines.accounting.ledger import overlapping

    training(roots, "k0", split_of(roots, *TEXTS)).reserve(EVENT, DELTA)  # and was killed
    release(training(roots, "k1", split_of(roots, *TEXTS)))
    with pytest.raises(PrivacyGateError, match="1 earlier release"):
        training(roots, "k2", split_of(roots, TEXTS[0])).reserve(EVENT, DELTA)
    assert len(overlapping(read_ledger(roots))) == 1
