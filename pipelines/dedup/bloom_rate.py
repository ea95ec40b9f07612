"""The exact error rate of a blocked Bloom filter, and the size that meets a target rate.

The filters of `pipelines.dedup.bloom` keep a key's bits in few cache lines. That makes them several times faster than
scattered bits, and it makes the usual rate (1 - e^(-kn/m))^k too low: some blocks hold more keys than others, and the
errors of full blocks outweigh the gain of empty ones. Here the rate is averaged over the number of keys in a block.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from functools import lru_cache

WORDS_PER_BLOCK = 8
WORD_BITS = 64
BLOCK_BITS = WORDS_PER_BLOCK * WORD_BITS
"""512: one cache line of most processors."""

LOWEST_RATE = 1e-40

_ARITHMETIC = Context(prec=60)  # sums that alternate lose some 20 digits
_BITS_PER_LINE = 21
_NEGLIGIBLE = Decimal("1e-25")


def exact_false_positive_rate(
    num_blocks: int, num_items: int, *, hashes_per_word: int = 1, num_lines: int = 1
) -> float:
    """Computes the probability that a key never inserted is reported as seen, for independent uniform hashes.

    Args:
        num_blocks: blocks of each part of the filter, at least 1
        num_items: number of distinct keys inserted
        hashes_per_word: bits that a key chooses in each word of its block, with replacement, at least 1
        num_lines: parts of the filter, at least 1; a key has one block in each

    Returns:
        The probability (sum_j Binomial(num_items, 1 / num_blocks)(j) w_j^8)^num_lines, where w_j is the probability
        that the bits chosen in one word of 64 are all set after j keys. The words of a block are independent given the
        number of keys in it, and so are the parts.

    Source: Putze, Sanders and Singler, "Cache-, hash- and space-efficient Bloom filters" (2007), equation 3, with the
    binomial in place of its Poisson limit and with the exact rate of one word (`_word_rate`) in place of the usual
    approximation.
    """
    a = _ARITHMETIC
    n, others = num_items, Decimal(num_blocks - 1)
    if num_blocks == 1:
        return float(a.power(_block_rate(hashes_per_word, n), num_lines))
    share = a.power(a.divide(others, Decimal(num_blocks)), n) if n else Decimal(1)  # of blocks with j keys, from j = 0
    rate = Decimal(0)
    for j in range(n + 1):
        term = a.multiply(share, _block_rate(hashes_per_word, j))
        rate = a.add(rate, term)
        if term < a.multiply(rate, _NEGLIGIBLE):  # terms rise to one peak and then fall ever faster
            break
        share = a.divide(a.multiply(share, Decimal(n - j)), a.multiply(others, Decimal(j + 1)))
    return float(a.power(rate, num_lines))


def _block_rate(hashes_per_word: int, num_items: int) -> Decimal:
    return _ARITHMETIC.power(_word_rate(WORD_BITS, hashes_per_word, num_items), WORDS_PER_BLOCK)


@lru_cache(maxsize=100_000)
def _word_rate(num_bits: int, num_hashes: int, num_items: int) -> Decimal:
    """Computes E[(X / num_bits)^num_hashes], where X is the number of set bits.

    Source: Bose et al., "On the false-positive rate of Bloom filters" (2008), in an inclusion-exclusion form. With
    S the Stirling numbers of the second kind, a key hits exactly d distinct positions with probability
    S(k, d) m(m-1)...(m-d+1) / m^k, and all d are occupied after t = k n throws with probability
    sum_j (-1)^j C(d, j) (1 - j/m)^t.
    """
    a = _ARITHMETIC
    m, k, throws = num_bits, num_hashes, num_hashes * num_items
    largest = min(m, k)
    share = [a.divide(Decimal(m - j), Decimal(m)) for j in range(largest + 1)]  # (1 - j/m)
    empty = [a.power(s, throws) if s or throws else Decimal(1) for s in share]  # j given bits stay empty
    stirling = _stirling_second_kind(k)
    falling = Decimal(1)  # m (m-1) ... (m-d+1) / m^d
    rate = Decimal(0)
    for d in range(1, largest + 1):
        falling = a.multiply(falling, share[d - 1])
        exactly_d = a.divide(a.multiply(Decimal(stirling[d]), falling), a.power(Decimal(m), k - d))
        occupied = Decimal(0)
        for j in range(d + 1):
            occupied = a.add(occupied, a.multiply(Decimal((-1) ** j * math.comb(d, j)), empty[j]))
        rate = a.add(rate, a.multiply(exactly_d, occupied))
    return rate


def _stirling_second_kind(k: int) -> list[int]:
    """Computes S(k, d) for d = 0..k, the number of ways to split k labelled things into d non-empty groups."""
    row = [1]
    for n in range(1, k + 1):
        row = [0] + [d * (row[d] if d < n else 0) + row[d - 1] for d in range(1, n + 1)]
    return row


def smallest_num_blocks(hashes_per_word: int, num_lines: int, capacity: int, false_positive_rate: float) -> int:
    """Finds the fewest blocks for which `exact_false_positive_rate` at ``capacity`` items is at most the target."""

    def enough(num_blocks: int) -> bool:
        rate = exact_false_positive_rate(num_blocks, capacity, hashes_per_word=hashes_per_word, num_lines=num_lines)
        return rate <= false_positive_rate

    # Starts a little low, at the number for evenly filled blocks. Gallops to a bracket, then bisects.
    load = -math.log1p(-(false_positive_rate ** (1 / (WORDS_PER_BLOCK * hashes_per_word * num_lines))))
    high = max(1, int(hashes_per_word * capacity / (WORD_BITS * load)))
    low, step = high, max(1, high // 64)
    while not enough(high):
        low, high, step = high, high + step, 2 * step
    while low > 0 and enough(low):
        high, low, step = low, max(0, low - step), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@lru_cache(maxsize=1_000)
def choose_size(capacity: int, false_positive_rate: float) -> tuple[int, int, int]:
    """Chooses (num_blocks, hashes_per_word, num_lines) of a filter that meets the target at ``capacity`` items.

    A key gets one cache line for every 2^-21 of the rate. This keeps large filters within 1.4 times the least that any
    Bloom filter takes, 1.44 log2(1 / rate) bits an item (2.3 times for rates near one half). With fewer lines, the
    blocks would have to stay ever emptier. With more lines, a key would cost needless accesses to memory.

    Raises:
        ValueError: ``capacity`` is below 1, or the rate is not between 1e-40 and 0.5.
    """
    if capacity < 1:
        raise ValueError("capacity must be at least 1")
    if not LOWEST_RATE <= false_positive_rate <= 0.5:
        raise ValueError("false_positive_rate must lie between 1e-40 and 0.5")
    num_lines = math.ceil(-math.log2(false_positive_rate) / _BITS_PER_LINE)
    one, two = (smallest_num_blocks(hashes, num_lines, capacity, false_positive_rate) for hashes in (1, 2))
    return (one, 1, num_lines) if 0.9 * one <= two else (two, 2, num_lines)
