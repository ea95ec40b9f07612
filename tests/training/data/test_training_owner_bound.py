"""Surplus records of a person are left out: the bound holds, person by person, and no text decides which stay."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.project import SECRET
from support.tiny import making, read_tables
from support.training_tables import document_row, row_of, write_tables

from pipelines.artifacts import Target
from pipelines.context import pseudonym
from pipelines.corpus.tables import DOCUMENTS
from pipelines.errors import StageError
from pipelines.methods.registry import METHODS
from pipelines.tables import Table, TableWriter
from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.data.row_store import RowStore, owners_of
from pipelines.training.data.rows import TrainingRow


def name_of(owner, number):
    """The name of a document, which is an HMAC of its place under the store's secret, as `split` gives it."""
    return pseudonym(SECRET.encode(), "row", str(owner), str(number))


def stored(folder, lengths, unit, word="text"):
    """Records of documents with so many rows, by (owner, number)."""
    store = RowStore(Target(folder=folder), "rows", unit)
    rows = (
        TrainingRow(name_of(*place), index, f"{word} {index}", None, None, None)
        for place, length in lengths.items()
        for index in range(length)
    )
    store.add(rows, is_private=True)
    return store.records()


def kept(folder, lengths, most, unit=RecordUnit(), word="text"):  # noqa: B008
    """The places of the records that stay, by owner."""
    records = stored(folder, lengths, unit, word)
    owners = {name_of(*place): place[0] for place in lengths}
    numbers = np.arange(len(records))
    of_records = np.asarray([owners[records.keys(int(n))[0][0]] for n in numbers], dtype=np.int64)
    chosen = records.at_most(most, numbers, of_records)
    assert (np.diff(chosen) > 0).all()  # in the order of before
    found = {owner: set() for owner, _ in lengths}
    for number in chosen:
        found[owners[records.keys(int(number))[0][0]]].add(tuple(records.keys(int(number))))
    return found


@settings(deadline=None, max_examples=25)
@given(
    st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 3)), st.integers(1, 5), max_size=8),
    st.integers(1, 6),
    st.sampled_from([RecordUnit(), RecordUnit(kind="block", sentences_per_block=2), RecordUnit(kind="dialogue")]),
)
def test_everybody_keeps_as_many_as_the_bound_allows(tmp_path_factory, lengths, most, unit):
    folder = tmp_path_factory.mktemp("bound")
    found = kept(folder, lengths, most, unit)
    every = kept(folder, lengths, 10**6, unit)
    assert {owner: len(places) for owner, places in found.items()} == {
        owner: min(most, len(places)) for owner, places in every.items()
    }
    assert kept(folder, lengths, most, unit, word="quite another text") == found
    for owner in found:
        alone = {place: length for place, length in lengths.items() if place[0] == owner}
        assert kept(folder, alone, most, unit)[owner] == found[owner]  # whatever others have


def test_which_records_stay_follows_from_the_secret_and_not_from_their_order(tmp_path):
    lengths = {(0, number): 1 for number in range(40)}
    found = kept(tmp_path, lengths, 10)[0]
    numbers = sorted(number for number in range(40) if ((name_of(0, number), 0),) in found)
    assert len(numbers) == 10
    assert numbers != list(range(10))
    assert kept(tmp_path, dict(reversed(lengths.items())), 10)[0] == found
    of_one_document = kept(tmp_path, {(0, 0): 40}, 10)[0]
    assert sorted(index for ((_, index),) in of_one_document) != list(range(10))


def documents_of(folder, owners):
    """A table of documents of the training fold, by their names."""
    with TableWriter(folder / "documents.parquet", DOCUMENTS.whole) as table:
        for name, owner in owners.items():
            table.append(**document_row(name, 1), owner=owner)
    return Table(folder / "documents.parquet", DOCUMENTS)


@pytest.mark.parametrize("method", ["crt", "dpsgd"])
def test_training_reads_no_more_private_records_of_a_person_than_the_bound(tmp_path, method):
    rows = [row_of(f"doc-{n}", i, f"I am {{Bo {n} {i}}}, hello.", "USR") for n in range(4) for i in range(3)]
    tables = write_tables(tmp_path / "tables", rows)
    owners = {f"doc-{n}": "ann" if n < 3 else "bob" for n in range(4)}
    tables = replace(tables, documents=[documents_of(tmp_path, owners)])

    def read(bound):
        folder = tmp_path / str(bound)
        folder.mkdir()
        return read_tables(
            tables,
            folder,
            view=METHODS[method].view,
            owner_bound=bound,
            make_vocabulary=making("bytes"),
            make_encoder=lambda vocabulary: RecordEncoder(vocabulary, 32),
        )

    every = read(None)
    assert (len(every.private_examples), every.owner_bound, every.num_over_bound) == (12, None, 0)
    bounded = read(2)
    assert (len(bounded.private_examples), bounded.owner_bound, bounded.num_over_bound) == (4, 2, 8)
    assert bounded.num_private == 4
    assert len(read(100).private_examples) == 12
    assert len(bounded.nonprivate_examples) == len(every.nonprivate_examples)


def test_a_record_without_an_owner_is_no_record_of_nobody(tmp_path):
    with pytest.raises(StageError, match="without an owner"):
        owners_of([documents_of(tmp_path, {"other": "ann"})], [b"0" * 16], 1)
