"""The compiled passes answer as mmh3 and numpy do, bit by bit."""

from __future__ import annotations

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dedup.bloom import BloomFilter, ScalableBloomFilter, reduce_words
from pipelines.dedup.keys import KeyMaker

pytest.importorskip("numba", reason="the extra 'fast' (numba) is not installed")

from pipelines.dedup import compiled, kernels

FIELD = st.none() | st.sampled_from(["", "a", "é", "speaker"])
ROW = st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=70), FIELD, FIELD, FIELD, st.booleans())


def columns(rows):
    texts = pa.array([row[0] for row in rows], pa.string())
    fields = [pa.array([row[i] for row in rows], pa.string()) for i in (1, 2, 3)]
    return texts, fields, np.array([row[4] for row in rows], dtype=bool)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(ROW, max_size=30),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["none", "whitespace", "casefold"]),
    st.integers(0, 5),
)
def test_keys_equal_mmh3(rows, seed, normalise, skip):
    texts, fields, scope = columns(rows)
    # Slices share their buffers with what was cut off.
    texts, fields, scope = texts[skip:], [field[skip:] for field in fields], scope[skip:]
    plain = KeyMaker(normalise, seed).key_arrays(texts, fields, scope)
    fast = KeyMaker(normalise, seed, compiled).key_arrays(texts, fields, scope)
    for one, other in zip(plain, fast, strict=True):
        np.testing.assert_array_equal(one, other)
    one_by_one = [KeyMaker(normalise, seed).key(*row[:4]) if row[4] else (0, 0) for row in rows[skip:]]
    assert list(zip(*(half.tolist() for half in plain), strict=True)) == one_by_one


def test_every_length_equals_mmh3():
    rng = np.random.default_rng(1)
    texts = [rng.integers(1, 128, n, dtype=np.uint8).tobytes().decode() for n in [*range(200), 5_000, 100_000]]
    none = pa.nulls(len(texts), pa.string())
    high, low = KeyMaker("none", 7, compiled).key_arrays(
        pa.array(texts), [none, none, none], np.ones(len(texts), dtype=bool)
    )
    expected = [mmh3.mmh3_x64_128_utupledigest(b"\0\0\0" + text.encode(), 7) for text in texts]
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == expected


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(0, 90), max_size=200),
    st.tuples(st.integers(1, 20), st.integers(1, 4), st.integers(1, 3)),
    st.integers(0, 90),
)
def test_filters_equal_numpy(picks, sizes, room):
    pool = np.random.default_rng(5).integers(0, 2**64, (91, 2), dtype=np.uint64)
    keys = pool[np.array(picks, dtype=np.int64)]
    high, low = keys[:, 0].copy(), keys[:, 1].copy()
    plain, fast = BloomFilter(*sizes), BloomFilter(*sizes, kernels=compiled)
    one, other = plain.add_and_test(high, low, room), fast.add_and_test(high, low, room)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(plain.words, fast.words)
    assert plain.num_items == fast.num_items
    np.testing.assert_array_equal(plain.contains(high, low), fast.contains(high, low))
    np.testing.assert_array_equal(plain.add_and_test(high, low), fast.add_and_test(high, low))


def test_chained_filters_equal_numpy():
    rng = np.random.default_rng(8)
    pool = rng.integers(0, 2**64, (3_000, 2), dtype=np.uint64)
    keys = pool[rng.integers(0, len(pool), 8_000)]
    plain, fast = ScalableBloomFilter(100, 0.1), ScalableBloomFilter(100, 0.1, compiled)
    for part in np.array_split(keys, 9):
        high, low = part[:, 0].copy(), part[:, 1].copy()
        np.testing.assert_array_equal(plain.add_and_test(high, low), fast.add_and_test(high, low))
    assert [f.words.tobytes() for f in plain.filters] == [f.words.tobytes() for f in fast.filters]


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**40))
def test_words_are_reduced_by_the_upper_half_of_the_product(word, size):
    expected = word * size >> 64
    assert int(reduce_words(np.array([word], dtype=np.uint64), size)[0]) == expected
    assert int(compiled._reduce(np.uint64(word), np.uint64(size))) == expected


def test_small_jobs_are_not_compiled(monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "pipelines.dedup.compiled", raising=False)
    assert kernels.compiled(1000) is None
