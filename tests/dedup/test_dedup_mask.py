"""Spreading a list of duplicates over the sentences of a partition."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dedup.mask import decide_rows
from pipelines.dedup.tables import DUPLICATES
from pipelines.errors import StoreError

ROWS = [(f"d{n // 3}", n % 3) for n in range(12)]


def decide(rows, listed, cuts=()):
    """Decisions of rows, given (row, doc_id, sentence_index, duplicate_of, occurrence) of those listed."""
    edges = [0, *sorted(cuts), len(rows)]
    table = pa.table(
        {
            "doc_id": pa.array([r[0] for r in rows], pa.string()),
            "sentence_index": pa.array([r[1] for r in rows], pa.uint32()),
        }
    )
    batches = [
        table.slice(a, b - a).combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        for a, b in itertools.pairwise(edges)
    ]
    names = DUPLICATES.names
    duplicates = pa.Table.from_pylist([dict(zip(names, r, strict=True)) for r in listed], DUPLICATES.columns)
    decided = []
    for (batch,), columns in zip(batches, decide_rows((b for (b,) in batches), duplicates), strict=True):
        assert [len(column) for column in columns] == [batch.num_rows] * 3
        decided += zip(*(column.tolist() for column in columns), strict=True)
    return decided


@settings(deadline=None, max_examples=150)
@given(st.sets(st.integers(0, 11)), st.lists(st.integers(0, 12), max_size=4), st.booleans())
def test_listed_rows_get_their_decision_and_all_others_are_kept(listed, cuts, is_first):
    source = None if is_first else "d0:0"
    duplicates = [(n, *ROWS[n], source, n + 2) for n in sorted(listed)]
    expected = [(True, source, n + 2) if n in listed else (False, None, 1) for n in range(12)]
    assert decide(ROWS, duplicates, cuts) == expected


def test_no_sentences_no_decisions():
    assert decide([], []) == []


@pytest.mark.parametrize("cuts", [(), (2, 5), (0, 12)])
@pytest.mark.parametrize(
    "listed",
    [
        [(12, "elsewhere", 0)],
        [(1, "d0", 2)],
        [(1, "d1", 1)],
        [(3, "d1", 0), (1, "d0", 1)],
        [(1, "d0", 1), (1, "d0", 1)],
        [(0, "d0", 0), (1, "elsewhere", 0), (3, "d1", 0)],
    ],
)
def test_a_list_that_does_not_fit_is_refused(listed, cuts):
    with pytest.raises(StoreError, match="does not match"):
        decide(ROWS, [(*row, "d0:0", 2) for row in listed], cuts)
    with pytest.raises(StoreError, match="does not match"):
        decide([], [(*row, "d0:0", 2) for row in listed])
