import pytest

from pipelines.corpus.documents import DocumentNames, fold_of
from pipelines.corpus.items import Document
from pipelines.corpus.rejection import check_rejected, check_trainable
from pipelines.errors import InputError


def document(row: int, source_id: str | None = None, name: str = "a.jsonl") -> Document:
    return Document(name=name, row=row, text="x", source_id=source_id)


def test_an_own_id_survives_other_rows_and_a_repeated_one_stays_unique():
    names = DocumentNames(b"k")
    first, base = names.name(document(1, "john"), 1)
    again, base_again = names.name(document(2, "john"), 1)
    other_piece, base_there = DocumentNames(b"k").name(document(900, "john"), 501)
    other_file, _ = names.name(document(1, "john", "b.jsonl"), 1)
    assert len({first, again, other_piece, other_file}) == 4
    # The same document falls into the same fold wherever it lies.
    assert base == base_again == base_there
    assert DocumentNames(b"k").name(document(7, "john"), 1)[0] == first
    assert DocumentNames(b"other").name(document(1, "john"), 1)[0] != first


def test_without_an_own_id_file_and_row_name_the_document():
    names = DocumentNames(b"k")
    found = {names.name(document(row, None, name), 1)[0] for row in (1, 2) for name in ("a", "b")}
    assert len(found) == 4
    assert DocumentNames(b"k").name(document(2, None, "a"), 2)[0] in found
    assert all(len(doc_id) == 32 and doc_id != "a" for doc_id in found)


def test_folds_have_the_shares_that_were_asked_for():
    bases = [f"{i:032x}" for i in range(20_000)]
    folds = [fold_of(base, 0.05, 0.10) for base in bases]
    shares = {fold: folds.count(fold) / len(folds) for fold in ("train", "valid", "test")}
    # Five standard deviations of a share of 20,000: a swap of valid and test, or 0.06 for 0.05, would fail.
    assert shares["valid"] == pytest.approx(0.05, abs=0.0077)
    assert shares["test"] == pytest.approx(0.10, abs=0.0106)
    assert all(fold_of(base, 0, 0) == "train" for base in bases[:100])
    # Enlarging valid leaves test where it was.
    assert [f == "test" for f in folds] == [fold_of(base, 0.5, 0.10) == "test" for base in bases]


def figures(documents: int, **reasons: int) -> dict[str, object]:
    return {"num_documents": documents, "num_rejected": sum(reasons.values()), "rejected_by_reason": reasons}


def test_too_many_rejected_rows_stop_the_run():
    parts = [figures(95, nul=2), figures(0, nul=1, over_long=2)]
    check_rejected(parts, 0.05)
    with pytest.raises(InputError, match=r"5 of 100 rows were rejected \(3 nul, 2 over_long\)"):
        check_rejected(parts, 0.049)


def test_lines_of_a_conversation_are_rows():
    part = {**figures(2, bad_columns=3), "num_rows": 97}
    check_rejected([part], 0.03)
    with pytest.raises(InputError, match="3 of 100 rows") as refused:
        check_rejected([part], 0.029)
    assert "text_field" not in str(refused.value)


def test_a_corpus_without_a_usable_document_stops_the_run():
    with pytest.raises(InputError, match=r"all 2 rows were rejected \(2 missing_text\).* set corpus\.text_field to"):
        check_rejected([figures(0, missing_text=2)], 1.0)
    with pytest.raises(InputError, match="no usable document"):
        check_rejected([], 1.0)


def test_a_corpus_of_held_out_text_alone_is_refused():
    parts = [{"num_sentences_by_fold": {"train": 0, "valid": 2, "test": number}} for number in (3, 4)]
    with pytest.raises(InputError, match=r"no sentence to train on \(7 in test, 4 in valid\).*corpus\.name_folds"):
        check_trainable(parts)
    check_trainable([*parts, {"num_sentences_by_fold": {"train": 1, "valid": 0, "test": 0}}])


def test_empty_rows_are_not_rejected_ones():
    check_rejected([{**figures(5, nul=0), "num_empty": 500}, figures(5, empty=500)], 0.0)
    with pytest.raises(InputError, match="all 2 rows are empty"):
        check_rejected([{**figures(0), "num_empty": 2}], 1.0)
    with pytest.raises(InputError, match=r"all 1 rows were rejected \(1 nul\), and 2 are empty"):
        check_rejected([{**figures(0, nul=1), "num_empty": 2}], 1.0)
