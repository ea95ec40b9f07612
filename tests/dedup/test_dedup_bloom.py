"""The Bloom filter: no false negatives, answers as if keys came one at a time, sizes from an exact formula."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dedup import bloom as module
from pipelines.dedup.bloom import (
    BloomFilter,
    ScalableBloomFilter,
    choose_size,
    exact_false_positive_rate,
)


def random_keys(rng, size):
    return (rng.integers(0, 2**64, size, dtype=np.uint64) for _ in range(2))


def as_arrays(keys):
    pairs = np.array(keys, dtype=np.uint64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def splitmix_positions(high, low, num_bits, num_hashes):
    """SplitMix64 in Python integers, from its publication, with the increment set by the key."""
    mask, out = 2**64 - 1, []
    for i in range(1, num_hashes + 1):
        z = (high + i * (low | 1)) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(((z ^ (z >> 31)) * num_bits) >> 64)
    return out


def one_at_a_time(keys, num_bits, num_hashes):
    """The textbook filter: a Python set of bit positions, one key after the other."""
    bits, seen = set(), []
    for high, low in keys:
        positions = splitmix_positions(high, low, num_bits, num_hashes)
        seen.append(bits.issuperset(positions))
        bits.update(positions)
    return seen, bits


KEY = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
FEW_KEYS = st.lists(KEY, max_size=60).flatmap(lambda pool: st.lists(st.sampled_from(pool or [(0, 0)]), max_size=120))


@settings(deadline=None, max_examples=150)
@given(FEW_KEYS, st.integers(1, 300), st.integers(1, 8), st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_answers_as_if_keys_came_one_at_a_time_for_any_batches(keys, num_bits, num_hashes, sizes):
    expected, bits = one_at_a_time(keys, num_bits, num_hashes)
    high, low = as_arrays(keys)
    bloom, answers, at = BloomFilter(num_bits, num_hashes), [], 0
    for size in itertools.cycle(sizes):
        if at >= len(keys):
            break
        answers += bloom.add_and_test(high[at : at + size], low[at : at + size]).tolist()
        at += size
    assert answers == expected
    assert bloom.num_set_bits == len(bits)
    assert bloom.num_items == expected.count(False)
    assert bloom.contains(high, low).all()


def test_chunks_inside_do_not_show(monkeypatch):
    rng = np.random.default_rng(3)
    high, low = random_keys(rng, 3_000)
    again = rng.integers(0, 3_000, 3_000)
    high, low = np.concatenate([high, high[again]]), np.concatenate([low, low[again]])
    whole = BloomFilter(20_011, 5)
    expected = whole.add_and_test(high, low)
    monkeypatch.setattr(module, "_CHUNK_KEYS", 7)
    chopped = BloomFilter(20_011, 5)
    np.testing.assert_array_equal(chopped.add_and_test(high, low), expected)
    assert chopped.num_items == whole.num_items


@settings(deadline=None, max_examples=100)
@given(FEW_KEYS, st.integers(1, 200), st.integers(1, 4), st.integers(0, 30))
def test_stops_right_after_the_last_new_key_allowed(keys, num_bits, num_hashes, max_new):
    expected, _ = one_at_a_time(keys, num_bits, num_hashes)
    new = [at for at, seen in enumerate(expected) if not seen]
    taken = len(keys) if len(new) < max_new else (new[max_new - 1] + 1 if max_new else 0)
    bloom = BloomFilter(num_bits, num_hashes)
    answers = bloom.add_and_test(*as_arrays(keys), max_new)
    # With exactly max_new new keys the rest of the chunk are repeats of what is in; both cuts are sound.
    assert len(answers) >= taken
    assert answers.tolist() == expected[: len(answers)]
    assert bloom.num_items == min(max_new, len(new))
    rest = bloom.add_and_test(*as_arrays(keys[len(answers) :]))
    assert answers.tolist() + rest.tolist() == expected


@pytest.mark.parametrize("expected_items", [1_000_000, 100_000])
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
        exact_false_positive_rate(f.num_bits, f.num_hashes, 1_000 * 2**level) for level, f in enumerate(bloom.filters)
    ]
    assert sum(rates) <= 0.01
    assert rates[0] > 0.99 * 0.01 * 7 / 8  # the first filter is not sized more strictly than it must be
    assert bloom.num_bits == sum(f.num_bits for f in bloom.filters)


def enumerated_rate(num_bits, num_hashes, num_items):
    """Every equally likely way to throw all positions, counted."""
    throws = num_hashes * num_items
    total = Fraction(0)
    for thrown in itertools.product(range(num_bits), repeat=throws):
        total += Fraction(len(set(thrown)), num_bits) ** num_hashes
    return total / num_bits**throws


@pytest.mark.parametrize("num_bits", [1, 2, 3, 5])
@pytest.mark.parametrize(("num_hashes", "num_items"), [(1, 1), (1, 4), (2, 1), (2, 3), (3, 2), (4, 1), (2, 0)])
def test_exact_rate_equals_the_enumeration(num_bits, num_hashes, num_items):
    expected = float(enumerated_rate(num_bits, num_hashes, num_items))
    assert exact_false_positive_rate(num_bits, num_hashes, num_items) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_exact_rate_is_near_the_textbook_value_for_large_filters_and_above_it_for_small_ones():
    assert exact_false_positive_rate(28_755_176, 20, 1_000_000) == pytest.approx(
        (1 - np.exp(-20 * 1e6 / 28_755_176)) ** 20, rel=1e-4
    )
    assert exact_false_positive_rate(64, 7, 6) > 1.05 * (1 - np.exp(-7 * 6 / 64)) ** 7


@pytest.mark.parametrize("capacity", [1, 2, 10, 127, 1_000, 1_000_000])
@pytest.mark.parametrize("rate", [0.5, 0.03, 1e-6, 1e-15, 1e-30])
def test_size_meets_the_target_with_no_bit_to_spare_and_half_the_hashes(capacity, rate):
    num_bits, num_hashes = choose_size(capacity, rate)
    assert exact_false_positive_rate(num_bits, num_hashes, capacity) <= rate
    assert exact_false_positive_rate(num_bits - 1, num_hashes, capacity) > rate
    assert num_hashes == max(1, round(-np.log2(rate) / 2))
    if capacity >= 1_000:
        ideal_bits = -capacity * np.log(rate) / np.log(2) ** 2
        assert ideal_bits <= num_bits <= 1.23 * ideal_bits + 2_000


@pytest.mark.parametrize("num_bits", [1, 2, 7, 8, 9, 511, 512, 513, 1_024 * 8, 1_023 * 8])
def test_every_bit_can_be_reached_and_nothing_else(num_bits):
    rng = np.random.default_rng(num_bits)
    positions = BloomFilter(num_bits, 4).positions(*random_keys(rng, 40_000))
    np.testing.assert_array_equal(np.unique(positions), np.arange(num_bits))


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0), (-3, 2)])
def test_refuses_impossible_sizes(arguments):
    with pytest.raises(ValueError, match="at least 1"):
        BloomFilter(*arguments)


@pytest.mark.parametrize(("capacity", "rate"), [(0, 0.1), (1, 0.0), (1, 0.6), (1, 1e-50)])
def test_refuses_impossible_targets(capacity, rate):
    with pytest.raises(ValueError):
        choose_size(capacity, rate)
    with pytest.raises(ValueError):
        ScalableBloomFilter(capacity, rate)
