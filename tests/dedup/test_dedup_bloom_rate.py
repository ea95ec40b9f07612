"""The false-positive rate of blocked filters, and sizes that follow from it."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from pipelines.dedup import bloom_rate as module
from pipelines.dedup.bloom import ScalableBloomFilter, expected_false_positives
from pipelines.dedup.bloom_rate import choose_size, exact_false_positive_rate


def keys_of(num_blocks, hashes_per_word, words, bits):
    """Every equally likely choice of a key in one part: its bits."""
    for block in range(num_blocks):
        for chosen in itertools.product(range(bits), repeat=words * hashes_per_word):
            yield frozenset((block, at % words, bit) for at, bit in enumerate(chosen))


def enumerated_rate(num_blocks, num_items, hashes_per_word, words, bits):
    """Every way to insert keys and ask for another, counted."""
    keys = list(keys_of(num_blocks, hashes_per_word, words, bits))
    hits = 0
    for inserted in itertools.product(keys, repeat=num_items):
        held = frozenset().union(*inserted)
        hits += sum(held.issuperset(key) for key in keys)
    return Fraction(hits, len(keys) ** (num_items + 1))


@pytest.mark.parametrize(
    ("num_blocks", "num_items", "hashes_per_word", "words", "bits"),
    [(1, 2, 1, 2, 3), (2, 2, 1, 2, 2), (3, 2, 1, 2, 2), (2, 3, 1, 1, 3), (2, 1, 2, 2, 2), (1, 2, 2, 1, 3),
     (3, 4, 1, 1, 1), (5, 2, 2, 1, 2), (2, 0, 1, 1, 2), (1, 0, 1, 1, 2)],
)  # fmt: skip
@pytest.mark.parametrize("num_lines", [1, 2])
def test_exact_rate_equals_the_enumeration(patch, num_blocks, num_items, hashes_per_word, words, bits, num_lines):
    patch.constant(module, "WORDS_PER_BLOCK", words)
    patch.constant(module, "WORD_BITS", bits)
    expected = float(enumerated_rate(num_blocks, num_items, hashes_per_word, words, bits) ** num_lines)
    found = exact_false_positive_rate(num_blocks, num_items, hashes_per_word=hashes_per_word, num_lines=num_lines)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_exact_rate_of_large_filters_is_the_mixture_over_poisson_loads():
    """Putze et al., equation 3, with the textbook rate of each block; the plain textbook value is far too low."""
    num_blocks, num_items = 77_361, 1_000_000
    load = num_items / num_blocks
    j = np.arange(200)
    mixed = (poisson.pmf(j, load) * (1 - (1 - 1 / 64) ** (2 * j)) ** 16).sum()
    exact = exact_false_positive_rate(num_blocks, num_items, hashes_per_word=2)
    assert exact == pytest.approx(mixed, rel=0.05)
    assert exact > 5 * (1 - np.exp(-2 * load / 64)) ** 16


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 50), st.integers(0, 300), st.integers(1, 2), st.integers(1, 3))
def test_exact_rate_rises_with_items_and_falls_with_blocks_and_lines(num_blocks, num_items, hashes, lines):
    def rate(blocks=num_blocks, items=num_items, lines=lines):
        return exact_false_positive_rate(blocks, items, hashes_per_word=hashes, num_lines=lines)

    assert 0 <= rate(lines=lines + 1) <= rate() <= rate(items=num_items + 1) <= 1
    assert rate(items=0) == 0
    if num_items <= 20 * num_blocks:  # in a filter that is nearly full, few overfull blocks are better than many
        assert rate(blocks=num_blocks + 1) <= rate() * (1 + 1e-12)


@pytest.mark.parametrize("capacity", [1, 2, 10, 127, 1_000, 1_000_000])
@pytest.mark.parametrize("rate", [0.5, 0.03, 1e-3, 1e-6, 1e-9, 1e-15, 1e-30])
def test_size_meets_the_target_with_no_block_to_spare(capacity, rate):
    num_blocks, hashes, lines = choose_size(capacity, rate)
    assert exact_false_positive_rate(num_blocks, capacity, hashes_per_word=hashes, num_lines=lines) <= rate
    if num_blocks > 1:
        fewer = exact_false_positive_rate(num_blocks - 1, capacity, hashes_per_word=hashes, num_lines=lines)
        assert fewer > rate
    assert lines == math.ceil(-math.log2(rate) / 21)
    if capacity >= 1_000:
        ideal_bits = -capacity * np.log(rate) / np.log(2) ** 2
        assert ideal_bits <= 512 * num_blocks * lines <= (2.3 if rate > 0.1 else 1.41) * ideal_bits + 512 * lines


@pytest.mark.parametrize("num_new", [500, 1_000, 2_500])
def test_expected_false_positives_are_what_happens(num_new):
    target, repetitions = 0.02, 60
    rng = np.random.default_rng(num_new)
    hits = []
    for _ in range(repetitions):
        chain, found = ScalableBloomFilter(1_000, target), 0
        while chain.num_items < num_new:
            keys = rng.integers(0, 2**64, (2, num_new - chain.num_items), dtype=np.uint64)
            found += chain.add_and_test(*keys).sum()
        hits.append(found)
    expected = expected_false_positives(num_new, 1_000, target)
    slack = 4 * np.std(hits, ddof=1) / math.sqrt(repetitions)
    assert abs(np.mean(hits) - expected) <= slack
    assert abs(np.mean(hits) - num_new * target) > slack  # not the rate of a full filter


@pytest.mark.parametrize(("capacity", "rate"), [(0, 0.1), (1, 0.0), (1, 0.6), (1, 1e-50)])
def test_refuses_impossible_targets(capacity, rate):
    with pytest.raises(ValueError):
        choose_size(capacity, rate)
    with pytest.raises(ValueError):
        ScalableBloomFilter(capacity, rate)
