"""Resolving against a dictionary: decisions depend on the order of the sentences and on nothing else."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.patches import patching

from pipelines.artifacts import Target
from pipelines.dedup import buckets
from pipelines.dedup.bloom import BloomFilter, ScalableBloomFilter
from pipelines.dedup.key_tables import FOUND
from pipelines.dedup.resolve import KeyBatch, Tally, merge, resolve, resolve_unverified

# A row: (doc_id, sentence_index, key, in_scope).


def rows_of(keys, in_scope=None):
    scope = [True] * len(keys) if in_scope is None else in_scope
    return [(f"d{n // 4}", n % 4, key, s) for n, (key, s) in enumerate(zip(keys, scope, strict=True))]


def as_batch(rows, start=0):
    keys = np.array([row[2] for row in rows], dtype=np.uint64).reshape(-1, 2)
    return KeyBatch(
        row=np.arange(start, start + len(rows), dtype=np.uint64),
        doc_id=pa.array([row[0] for row in rows], type=pa.string()),
        sentence_index=pa.array([row[1] for row in rows], type=pa.uint32()),
        high=keys[:, 0].copy(),
        low=keys[:, 1].copy(),
        in_scope=np.array([row[3] for row in rows], dtype=bool),
        in_other=np.zeros(len(rows), dtype=bool),
    )


def as_partitions(parts, batch_rows):
    def opener(rows):
        return lambda: (as_batch(rows[at : at + batch_rows], at) for at in range(0, len(rows), batch_rows))

    return [opener(rows) for rows in parts]


def resolved(parts, folder, bloom, batch_rows=700, tally=None, **options):
    given_options = {"mode": "mask_later", "max_rows_in_memory": 10**6, "num_rows": sum(map(len, parts)), **options}
    scratch = Target(folder=folder)
    return resolve(as_partitions(parts, batch_rows), bloom, tally or Tally(), scratch=scratch, **given_options)


def listed(found):
    columns = (found[name].to_pylist() for name in ("doc_id", "sentence_index", "duplicate_of", "occurrence"))
    return list(zip(*columns, strict=True))


def oracle(rows, mode):
    """One dictionary, one row after the other."""
    total = Counter(key for *_, key, scope in rows if scope)
    first, count, out = {}, Counter(), []
    for doc_id, sentence_index, key, scope in rows:
        if not scope:
            continue
        count[key] += 1
        where = first.setdefault(key, f"{doc_id}:{sentence_index}")
        if count[key] > 1:
            out.append((doc_id, sentence_index, where, count[key]))
        elif mode == "mask_all" and total[key] > 1:
            out.append((doc_id, sentence_index, None, 1))
    return out


def cut(rows, cuts):
    edges = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    return [rows[a:b] for a, b in itertools.pairwise(edges)]


WORD = st.sampled_from([0, 1, 5, 2**63 + 1, 2**64 - 1])
CORPUS = st.lists(st.tuples(st.tuples(WORD, WORD), st.booleans() | st.just(True)), max_size=60)


@pytest.mark.parametrize("mode", ["mask_later", "mask_all"])
@settings(deadline=None, max_examples=80)
@given(
    corpus=CORPUS,
    cuts=st.lists(st.integers(0, 60), max_size=4),
    batch_rows=st.integers(1, 64),
    max_rows=st.integers(1, 30),
    num_rows=st.integers(0, 100),
    rate=st.sampled_from([0.5, 1e-6]),
    num_threads=st.sampled_from([1, 3]),
    buffered=st.sampled_from([1, 3, 32_768]),
)
def test_agrees_with_a_dictionary_for_any_partitions_batches_memory_and_threads(
    tmp_path_factory, mode, corpus, cuts, batch_rows, max_rows, num_rows, rate, num_threads, buffered
):
    rows = rows_of([key for key, _ in corpus], [scope for _, scope in corpus])
    parts = cut(rows, cuts)
    tally = Tally()
    options = {"mode": mode, "max_rows_in_memory": max_rows, "num_rows": num_rows, "num_threads": num_threads}
    folder = tmp_path_factory.mktemp("scratch")
    with patching() as patch:
        patch.constant(buckets, "_BUFFERED_ROWS", buffered)
        found = list(resolved(parts, folder, ScalableBloomFilter(4, rate), batch_rows, tally, **options))
    assert len(found) == len(parts)
    expected = oracle(rows, mode)
    assert [row for part in found for row in listed(part)] == expected
    for part, duplicates in zip(parts, found, strict=True):
        assert [part[row][:2] for row in duplicates["row"].to_pylist()] == [row[:2] for row in listed(duplicates)]
    num_repeats = len(oracle(rows, "mask_later"))
    assert tally.num_sentences == len(rows)
    assert tally.num_in_scope == sum(row[3] for row in rows)
    assert tally.num_duplicates == len(expected)
    assert tally.num_repeats == num_repeats
    assert tally.num_false_positives == tally.num_nominated - num_repeats >= 0


@settings(deadline=None, max_examples=60)
@given(corpus=CORPUS, cuts=st.lists(st.integers(0, 60), max_size=4), max_rows=st.integers(1, 30))
def test_without_a_filter_the_decisions_are_the_same(tmp_path_factory, corpus, cuts, max_rows):
    rows = rows_of([key for key, _ in corpus], [scope for _, scope in corpus])
    tally = Tally()
    folder = tmp_path_factory.mktemp("exact")
    found = resolved(cut(rows, cuts), folder, None, 7, tally, max_rows_in_memory=max_rows)
    assert [row for part in found for row in listed(part)] == oracle(rows, "mask_later")
    assert (tally.num_nominated, tally.num_false_positives) == (0, 0)
    assert tally.num_repeats == tally.num_duplicates


def test_false_positives_are_nominated_and_removed(tmp_path):
    """With a target of one half the filter errs often; no decision shows it."""
    rng = np.random.default_rng(2)
    keys = [tuple(pair) for pair in rng.integers(0, 2**64, (4_000, 2), dtype=np.uint64).tolist()]
    rows = rows_of([*keys, *keys[:500]])
    tally = Tally()
    (found,) = resolved([rows], tmp_path, ScalableBloomFilter(5_000, 0.5), tally=tally)
    assert listed(found) == oracle(rows, "mask_later")
    assert tally.num_duplicates == 500
    assert tally.num_false_positives > 50


@settings(deadline=None, max_examples=60)
@given(corpus=CORPUS, cuts=st.lists(st.integers(0, 60), max_size=4), batch_rows=st.integers(1, 64))
def test_unverified_is_the_plain_filter(corpus, cuts, batch_rows):
    rows = rows_of([key for key, _ in corpus], [scope for _, scope in corpus])
    tally = Tally()
    parts = cut(rows, cuts)
    found = list(resolve_unverified(as_partitions(parts, batch_rows), ScalableBloomFilter(100, 0.5), tally))
    size = ScalableBloomFilter(100, 0.5).filters[0]
    plain = BloomFilter(size.num_blocks, size.hashes_per_word, size.num_lines)
    expected = []
    for doc_id, sentence_index, key, scope in rows:
        one = np.array([key], dtype=np.uint64)
        if scope and plain.add_and_test(one[:, 0], one[:, 1])[0]:
            expected.append((doc_id, sentence_index, None, 0))
    assert [row for part in found for row in listed(part)] == expected
    assert len(found) == len(parts)
    assert {row[:2] for row in oracle(rows, "mask_later")} <= {row[:2] for row in expected}  # no false negatives
    assert tally.num_duplicates == tally.num_nominated == len(expected)
    assert tally.num_false_positives is None


def test_large_corpus_in_many_buckets_equals_one_bucket(tmp_path):
    rng = np.random.default_rng(9)
    pool = rng.integers(0, 2**64, (20_000, 2), dtype=np.uint64)
    rows = rows_of([tuple(pair) for pair in pool[rng.integers(0, len(pool), 40_000)].tolist()])
    parts = cut(rows, [15_000, 15_000, 33_000])
    results = []
    for max_rows, num_threads in ((10**6, 1), (3_000, 1), (3_000, 2)):
        scratch = tmp_path / f"{max_rows}-{num_threads}"
        scratch.mkdir()
        options = {"max_rows_in_memory": max_rows, "num_threads": num_threads}
        found = resolved(parts, scratch, ScalableBloomFilter(10_000, 1e-6), 4_096, **options)
        results.append([listed(part) for part in found])
    assert results[0] == results[1] == results[2]
    assert [row for part in results[0] for row in part] == oracle(rows, "mask_later")


@pytest.mark.parametrize("mode", ["mask_later", "mask_all"])
def test_a_sentence_that_is_everywhere_is_never_held_at_once(tmp_path, patch, mode):
    held = []

    class Counted(buckets._Grouped):
        def __init__(self, known, part):
            held.append(len(known.rows) + len(part))
            super().__init__(known, part)

    patch(buckets, "_Grouped", Counted)
    patch.constant(buckets, "_BUFFERED_ROWS", 200)
    keys = [(1, 1) if n % 4 else (2, n // 8) for n in range(8_000)]
    rows = rows_of(keys)
    found = resolved([rows], tmp_path, ScalableBloomFilter(3_000, 1e-6), 200, mode=mode, max_rows_in_memory=50)
    assert [row for part in found for row in listed(part)] == oracle(rows, mode)
    assert max(held) <= 600


def found_in(places):
    """Batches of one stream of `merge`: (partition, row) of each."""
    numbers = [np.array(column, dtype=np.uint64) for column in zip(*places, strict=True)] or [np.empty(0)] * 2
    names = [f"{partition}-{row}" for partition, row in places]
    zeros = np.zeros(len(places), dtype=np.uint32)
    columns = dict(zip(FOUND.names, (*numbers, names, zeros, names, zeros), strict=True))
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in FOUND.columns], schema=FOUND.columns)


@settings(deadline=None, max_examples=100)
@given(
    places=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=60),
    num_streams=st.integers(1, 5),
    batch_rows=st.integers(1, 8),
    pooled_rows=st.integers(0, 30),
    data=st.data(),
)
def test_what_was_found_apart_comes_together_by_partition_and_row(places, num_streams, batch_rows, pooled_rows, data):
    streams = [[] for _ in range(num_streams)]
    for place in sorted(places):
        streams[data.draw(st.integers(0, num_streams - 1))].append(place)
    batches = [iter([found_in(s[at : at + batch_rows]) for at in range(0, len(s), batch_rows)]) for s in streams]
    merged = list(merge(batches, 8, pooled_rows))
    assert [table["row"].to_pylist() for table in merged] == [
        [row for partition, row in sorted(places) if partition == p] for p in range(8)
    ]
    assert [name for table in merged for name in table["doc_id"].to_pylist()] == [f"{p}-{r}" for p, r in sorted(places)]


def test_merging_reads_no_further_ahead_than_it_must():
    taken = [0, 0]

    def stream(number):
        for partition in range(100):
            taken[number] += 1
            yield found_in([(partition, 2 * row + number) for row in range(10)])

    merged = merge([stream(0), stream(1)], 100, 50)
    assert [len(next(merged)) for _ in range(3)] == [20] * 3
    assert max(taken) <= 5  # some 50 rows, and a batch of each
    assert [len(table) for table in merged] == [20] * 97
