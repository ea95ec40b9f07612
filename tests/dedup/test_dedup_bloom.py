"""The Bloom filter: no false negatives, and answers as if keys came one at a time."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.keys import as_arrays, random_keys

from pipelines.dedup import bloom as module
from pipelines.dedup.bloom import BloomFilter, ScalableBloomFilter
from pipelines.dedup.bloom_rate import exact_false_positive_rate


def splitmix(high, low):
    """SplitMix64 in Python integers, from its publication, with the increment set by the key."""
    mask = 2**64 - 1
    for i in itertools.count(1):
        z = (high + i * (low | 1)) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


def positions_of(high, low, num_blocks, hashes_per_word, num_lines):
    """The bits of a key, counted through the whole filter."""
    numbers, found = splitmix(high, low), set()
    for line in range(num_lines):
        block = line * num_blocks + (next(numbers) * num_blocks >> 64)
        for _ in range(hashes_per_word):
            number = next(numbers)
            found |= {512 * block + 64 * word + (number >> 6 * word) % 64 for word in range(8)}
    return found


def one_at_a_time(keys, *sizes):
    """The textbook filter: a Python set of bit positions, one key after the other."""
    bits, seen = set(), []
    for high, low in keys:
        positions = positions_of(high, low, *sizes)
        seen.append(bits.issuperset(positions))
        bits.update(positions)
    return seen, bits


KEY = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
FEW_KEYS = st.lists(KEY, max_size=60).flatmap(lambda pool: st.lists(st.sampled_from(pool or [(0, 0)]), max_size=120))
SIZES = st.tuples(st.integers(1, 20), st.integers(1, 4), st.integers(1, 3))


def set_bits(bloom):
    return set(np.flatnonzero(np.unpackbits(bloom.words.view(np.uint8), bitorder="little")).tolist())


@settings(deadline=None, max_examples=150)
@given(FEW_KEYS, SIZES, st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_answers_as_if_keys_came_one_at_a_time_for_any_batches(keys, filter_sizes, sizes):
    expected, bits = one_at_a_time(keys, *filter_sizes)
    high, low = as_arrays(keys)
    bloom, answers, at = BloomFilter(*filter_sizes), [], 0
    for size in itertools.cycle(sizes):
        if at >= len(keys):
            break
        answers += bloom.add_and_test(high[at : at + size], low[at : at + size]).tolist()
        at += size
    assert answers == expected
    assert set_bits(bloom) == bits
    assert bloom.num_items == expected.count(False)
    assert bloom.contains(high, low).all()


def test_crowded_blocks_answer_as_if_keys_came_one_at_a_time():
    """Many keys of one chunk in one block, so full that about half of the new ones are taken for seen."""
    rng = np.random.default_rng(3)
    high, low = random_keys(rng, 900)
    again = rng.integers(0, 900, 600)
    high, low = np.concatenate([high, high[again]]), np.concatenate([low, low[again]])
    for sizes in ((3, 1, 1), (2, 2, 1), (2, 1, 2)):
        expected, bits = one_at_a_time(list(zip(high.tolist(), low.tolist(), strict=True)), *sizes)
        assert 200 < sum(expected[:900]) < 800
        bloom = BloomFilter(*sizes)
        assert bloom.add_and_test(high, low).tolist() == expected
        assert set_bits(bloom) == bits


def test_chunks_inside_do_not_show(patch):
    rng = np.random.default_rng(3)
    high, low = random_keys(rng, 3_000)
    again = rng.integers(0, 3_000, 3_000)
    high, low = np.concatenate([high, high[again]]), np.concatenate([low, low[again]])
    whole = BloomFilter(41, 2)
    expected = whole.add_and_test(high, low)
    assert not expected[:3_000].all()
    assert expected[:3_000].any()
    patch.constant(module, "_CHUNK_KEYS", 7)
    chopped = BloomFilter(41, 2)
    np.testing.assert_array_equal(chopped.add_and_test(high, low), expected)
    np.testing.assert_array_equal(chopped.words, whole.words)
    assert chopped.num_items == whole.num_items


@settings(deadline=None, max_examples=100)
@given(FEW_KEYS, SIZES, st.integers(0, 30))
def test_stops_right_after_the_last_new_key_allowed(keys, sizes, max_new):
    expected, _ = one_at_a_time(keys, *sizes)
    new = [at for at, seen in enumerate(expected) if not seen]
    taken = len(keys) if len(new) < max_new else (new[max_new - 1] + 1 if max_new else 0)
    bloom = BloomFilter(*sizes)
    answers = bloom.add_and_test(*as_arrays(keys), max_new)
    assert answers.tolist() == expected[:taken]
    assert bloom.num_items == min(max_new, len(new))
    rest = bloom.add_and_test(*as_arrays(keys[len(answers) :]))
    assert answers.tolist() + rest.tolist() == expected


@pytest.mark.parametrize("expected_items", [1_000_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_no_false_negative_in_a_million_keys(expected_items):
    """The second size makes the chain grow three times on the way."""
    rng = np.random.default_rng(11)
    high, low = random_keys(rng, 1_000_000)
    bloom = ScalableBloomFilter(expected_items, 1e-6)
    new_ones = bloom.add_and_test(high, low)
    assert new_ones.sum() <= 12  # expected: below 1; a Poisson of mean 1 exceeds 12 once in 10^10
    assert bloom.add_and_test(high, low).all()
    assert len(bloom.filters) == (1 if expected_items == 1_000_000 else 4)


@settings(deadline=None, max_examples=60)
@given(FEW_KEYS, st.integers(1, 8), st.sampled_from([0.5, 0.1, 1e-3]), st.lists(st.integers(1, 40), min_size=1))
def test_chain_does_not_depend_on_batches_and_forgets_nothing(keys, expected_items, rate, sizes):
    one = ScalableBloomFilter(expected_items, rate)
    singly = [bool(one.add_and_test(*as_arrays([key]))[0]) for key in keys]
    many, answers, at = ScalableBloomFilter(expected_items, rate), [], 0
    for size in itertools.cycle(sizes):
        if at >= len(keys):
            break
        answers += many.add_and_test(*as_arrays(keys[at : at + size])).tolist()
        at += size
    assert answers == singly
    assert [f.num_items for f in many.filters] == [f.num_items for f in one.filters]
    assert all(seen for at, seen in enumerate(answers) if keys[at] in keys[:at])
    assert many.num_items == answers.count(False)


def test_chain_fills_each_filter_exactly_and_tightens_it():
    rng = np.random.default_rng(5)
    bloom = ScalableBloomFilter(1_000, 0.01)
    bloom.add_and_test(*random_keys(rng, 6_000))
    *full, newest = bloom.filters
    assert [f.num_items for f in full] == [1_000, 2_000]
    assert newest.num_items <= 4_000
    rates = [
        exact_false_positive_rate(
            f.num_blocks, 1_000 * 2**level, hashes_per_word=f.hashes_per_word, num_lines=f.num_lines
        )
        for level, f in enumerate(bloom.filters)
    ]
    assert sum(rates) <= 0.01
    assert rates[0] > 0.7 * 0.01 * 7 / 8  # the first filter is not sized more strictly than to a block it must be
    assert bloom.num_bits == sum(f.num_bits for f in bloom.filters)


@pytest.mark.parametrize(
    "num_blocks", [1, 2, 3, 127, 128, 129, 1_025, *(pytest.param(n, marks=pytest.mark.slow) for n in (1_023, 1_024))]
)
def test_every_bit_can_be_reached_and_nothing_else(num_blocks):
    bloom = BloomFilter(num_blocks, 4, 2)
    places, bits = bloom.patterns(*random_keys(np.random.default_rng(num_blocks), 400 * num_blocks))
    assert places.shape == bits.shape == (16, 400 * num_blocks)
    np.testing.assert_array_equal(np.unique(places), np.arange(16 * num_blocks))
    reached = np.zeros(len(bloom.words), dtype=np.uint64)
    np.bitwise_or.at(reached, places.ravel(), bits.ravel())
    assert (reached == np.uint64(2**64 - 1)).all()
    for line in range(2):  # a key has one block in each part
        blocks = places[8 * line : 8 * line + 8] // 8
        assert (blocks == blocks[0]).all()
        assert (blocks[0] // num_blocks == line).all()


def test_blocks_begin_at_cache_lines():
    for num_blocks in (1, 2, 1_000, 100_000):
        assert BloomFilter(num_blocks).words.ctypes.data % 64 == 0


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0), (-3, 2), (1, 1, 0)])
def test_refuses_impossible_sizes(arguments):
    with pytest.raises(ValueError, match="at least 1"):
        BloomFilter(*arguments)
