"""A Bloom filter over 128-bit keys that meets its false-positive target at any number of items.

Formal guarantees
    * No false negatives: a key that was inserted is reported as seen by every later call.
    * At most ``capacity`` items: the chance that a key never inserted is reported as seen is at most the target.
      The chance is over the keys' hash, taken as uniform; the value is exact (`exact_false_positive_rate`), not the
      usual approximation, which is too low for small filters.
    * Past ``expected_items`` a `ScalableBloomFilter` chains further filters whose rates sum to at most the target.
    * Deterministic, and independent of how the keys are cut into batches: ``add_and_test`` answers exactly as if
      the keys were inserted one at a time.

Every quantity carries its unit in its name: ``num_bits`` are bits, never bytes.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from types import ModuleType

import numpy as np
import numpy.typing as npt

UInt64Array = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]

_CHUNK_KEYS = 8_192  # bounds the temporary (keys, num_hashes) arrays to a few MB; never changes an answer
_ARITHMETIC = Context(prec=120)
_LOWEST_RATE = 1e-40


def exact_false_positive_rate(num_bits: int, num_hashes: int, num_items: int) -> float:
    """Probability that a key never inserted is reported as seen, for independent uniform hashes.

    Args:
        num_bits: size of the filter in bits, at least 1.
        num_hashes: positions per key, drawn with replacement, at least 1.
        num_items: distinct keys inserted.

    Returns:
        E[(X / num_bits)^num_hashes], X being the number of bits that are set.

    Source: Bose et al., "On the false-positive rate of Bloom filters" (2008), in an inclusion-exclusion form. With
    S the Stirling numbers of the second kind, a key hits exactly d distinct positions with probability
    S(k, d) m(m-1)...(m-d+1) / m^k, and all d are occupied after t = k n throws with probability
    sum_j (-1)^j C(d, j) (1 - j/m)^t. The sum alternates, hence 120 decimal digits.
    """
    m, k, throws = num_bits, num_hashes, num_hashes * num_items
    largest = min(m, k)
    a = _ARITHMETIC
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
    return float(rate)


def _stirling_second_kind(k: int) -> list[int]:
    """S(k, d) for d = 0..k: the number of ways to split k labelled things into d non-empty groups."""
    row = [1]
    for n in range(1, k + 1):
        row = [0] + [d * (row[d] if d < n else 0) + row[d - 1] for d in range(1, n + 1)]
    return row


def smallest_num_bits(num_hashes: int, capacity: int, false_positive_rate: float) -> int:
    """The fewest bits for which `exact_false_positive_rate` at ``capacity`` items is at most the target."""
    # The textbook rate (1 - e^(-kn/m))^k gives a start that is a few bits off; gallop to a bracket, then bisect.
    load = -math.log1p(-(false_positive_rate ** (1.0 / num_hashes)))
    guess = max(1, math.ceil(num_hashes * capacity / load))

    def enough(num_bits: int) -> bool:
        return exact_false_positive_rate(num_bits, num_hashes, capacity) <= false_positive_rate

    step, high = 1, guess
    while not enough(high):
        high, step = high + step, 2 * step
    step, low = 1, high
    while low > 0 and (low == high or enough(low)):
        high, low, step = low, max(0, low - step), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def choose_size(capacity: int, false_positive_rate: float) -> tuple[int, int]:
    """The (num_bits, num_hashes) of a filter that meets the target at ``capacity`` items.

    It has half as many hashes as the smallest such filter, log2(1 / rate): half the accesses to memory, which are what
    a filter costs, for a fifth more bits (1.74 instead of 1.44 log2(1 / rate) an item).

    Raises:
        ValueError: ``capacity`` is below 1, or the rate is not between 1e-40 and 0.5.
    """
    if capacity < 1:
        raise ValueError("capacity must be at least 1")
    if not _LOWEST_RATE <= false_positive_rate <= 0.5:
        raise ValueError("false_positive_rate must lie between 1e-40 and 0.5")
    num_hashes = max(1, round(-math.log2(false_positive_rate) / 2))
    return smallest_num_bits(num_hashes, capacity, false_positive_rate), num_hashes


def expected_false_positives(num_new: int, expected_items: int, false_positive_rate: float) -> float:
    """How many keys a `ScalableBloomFilter` takes for seen while it takes ``num_new`` others for new: an estimate.

    The rate rises as a filter fills; it is averaged over the fill of each filter of the chain, by Simpson's rule.
    """
    expected, passed, level = 0.0, 0.0, 0
    while num_new > 0:
        capacity, rate = _level(level, expected_items, false_positive_rate)
        num_bits, num_hashes = choose_size(capacity, rate)
        held = min(num_new, capacity)
        grid = [exact_false_positive_rate(num_bits, num_hashes, held * n // 64) for n in range(65)]
        mean = (grid[0] + 4 * sum(grid[1::2]) + 2 * sum(grid[2:-1:2]) + grid[-1]) / (3 * 64)
        expected += held * (mean + passed)
        passed += exact_false_positive_rate(num_bits, num_hashes, capacity)
        num_new -= held
        level += 1
    return expected


def _level(level: int, expected_items: int, false_positive_rate: float) -> tuple[int, float]:
    """Capacity and rate of one filter of a chain, from 0."""
    chain = ScalableBloomFilter
    rate = false_positive_rate * (1 - chain.TIGHTENING) * chain.TIGHTENING**level
    return expected_items * chain.GROWTH**level, rate


def mix(x: UInt64Array) -> UInt64Array:
    """SplitMix64's finaliser: a bijection of 64-bit words that scatters neighbouring inputs (Steele et al., 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def reduce_words(words: UInt64Array, size: int) -> UInt64Array:
    """Words of 64 bits to numbers below ``size``: the upper half of the 128-bit product, from halves of 32 bits.

    As even as a remainder (each number has floor or ceil of 2^64 / size words), without a division.
    Source: Lemire, "Fast random integer generation in an interval" (2019), section 4.
    """
    half, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    size_low, size_high = np.uint64(size) & half, np.uint64(size) >> shift
    word_low, word_high = words & half, words >> shift
    high_low = word_high * size_low + ((word_low * size_low) >> shift)
    low_high = word_low * size_high + (high_low & half)
    reduced: UInt64Array = word_high * size_high + (high_low >> shift) + (low_high >> shift)
    return reduced


class BloomFilter:
    """One filter of a fixed size. It counts what it holds, but leaves the choice of when it is full to the caller.

    Args:
        num_bits: size in bits, at least 1; need not be a power of two or a multiple of 8.
        num_hashes: positions per key, at least 1.
        kernels: the compiled passes (`pipelines.dedup.kernels.compiled`), which change no answer; None for numpy's.

    Attributes:
        bits: the filter itself, uint8; bit ``b`` is bit ``b % 8`` of byte ``b // 8``.

    Raises:
        ValueError: a size below 1.
    """

    def __init__(self, num_bits: int, num_hashes: int, kernels: ModuleType | None = None) -> None:
        if num_bits < 1 or num_hashes < 1:
            raise ValueError("num_bits and num_hashes must be at least 1")
        self.num_bits = num_bits
        self.num_hashes = num_hashes
        self.num_items = 0
        self.bits = np.zeros((num_bits + 7) // 8, dtype=np.uint8)
        self._kernels = kernels
        self._steps = np.arange(1, num_hashes + 1, dtype=np.uint64)

    @property
    def num_set_bits(self) -> int:
        """How many bits are set."""
        return int(np.bitwise_count(self.bits).sum(dtype=np.int64))

    def positions(self, high: UInt64Array, low: UInt64Array) -> UInt64Array:
        """Bit positions of keys, uint64 of shape (keys, num_hashes), each below ``num_bits``.

        Each key seeds its own SplitMix64 sequence: ``high`` is the start and ``low`` the increment, made odd. Plain
        double hashing, high + i * low modulo the size, walks short cycles whenever ``low`` and the size share
        a factor, which lifts the false-positive rate of small filters. The 64-bit word is reduced to the number of
        *bits*, so that every bit can be reached whatever the size.
        """
        return reduce_words(mix(high[:, None] + self._steps * (low | np.uint64(1))[:, None]), self.num_bits)

    def _is_set(self, positions: UInt64Array) -> BoolArray:
        in_byte = self.bits[(positions >> np.uint64(3)).astype(np.int64)] >> (positions & np.uint64(7)).astype(np.uint8)
        found: BoolArray = (in_byte & np.uint8(1)).astype(np.bool_)
        return found

    def contains(self, high: UInt64Array, low: UInt64Array) -> BoolArray:
        """Whether each key was inserted before; True by mistake at the false-positive rate, never False by mistake."""
        found = np.empty(len(high), dtype=np.bool_)
        if self._kernels is not None:
            self._kernels.contains(self.bits, self.num_bits, self.num_hashes, high, low, found)
            return found
        for at in range(0, len(high), _CHUNK_KEYS):
            part = slice(at, at + _CHUNK_KEYS)
            found[part] = self._is_set(self.positions(high[part], low[part])).all(axis=1)
        return found

    def add_and_test(self, high: UInt64Array, low: UInt64Array, max_new: int | None = None) -> BoolArray:
        """Inserts keys in order and says of each whether it had been seen before.

        Args:
            high, low: the halves of the keys, uint64 of shape (keys,).
            max_new: stop right after this many unseen keys; None for no limit.

        Returns:
            The seen mask of the keys that were taken, which are all of them unless ``max_new`` was reached.
        """
        room = len(high) if max_new is None else max_new
        if self._kernels is not None:
            mask = np.empty(len(high), dtype=np.bool_)
            taken, num_new = self._kernels.add_and_test(
                self.bits, self.num_bits, self.num_hashes, high, low, room, mask
            )
            self.num_items += int(num_new)
            return mask[:taken]
        masks: list[BoolArray] = []
        for at in range(0, len(high), _CHUNK_KEYS):
            part = slice(at, at + _CHUNK_KEYS)
            if room <= 0:
                break
            seen = self._add_chunk(high[part], low[part], room)
            masks.append(seen)
            room -= int(len(seen) - seen.sum())
        return np.concatenate(masks) if masks else np.empty(0, dtype=np.bool_)

    def _add_chunk(self, high: UInt64Array, low: UInt64Array, room: int) -> BoolArray:
        """`add_and_test` for one chunk.

        Inserting a key that was seen changes no bit. So the bits before key i are those of the filter plus those of
        all keys before i in the chunk, and key i is unseen exactly when it is the first to reach some clear bit.
        Sorting (bit, row) pairs finds the first row of every clear bit at once.
        """
        num_keys = np.uint64(len(high))
        positions = self.positions(high, low)
        clear = ~self._is_set(positions)
        rows = np.broadcast_to(np.arange(num_keys, dtype=np.uint64)[:, None], positions.shape)
        pairs = positions[clear] * num_keys + rows[clear]
        pairs.sort()
        bit = pairs // num_keys
        first = np.ones(len(bit), dtype=np.bool_)
        first[1:] = bit[1:] != bit[:-1]
        bit, row = bit[first], (pairs[first] - bit[first] * num_keys).astype(np.int64)
        seen = np.ones(len(high), dtype=np.bool_)
        seen[row] = False
        unseen = np.flatnonzero(~seen)
        if len(unseen) > room:
            last = int(unseen[room - 1])
            bit = bit[row <= last]
            seen = seen[: last + 1]
        np.bitwise_or.at(
            self.bits, (bit >> np.uint64(3)).astype(np.int64), np.uint8(1) << (bit & np.uint64(7)).astype(np.uint8)
        )
        self.num_items += min(len(unseen), room)
        return seen


class ScalableBloomFilter:
    """A chain of Bloom filters that keeps its false-positive target however many keys arrive.

    The i-th filter holds ``expected_items * 2^i`` keys at rate ``target * (1 - r) * r^i``; the rates sum to at most
    the target (Almeida et al., "Scalable Bloom Filters", 2007). r = 1/8 leaves the first filter seven eighths of
    the budget, so that a corpus of the expected size pays 0.2 bits per key for the chance to grow.

    Args:
        expected_items: distinct keys that the first filter is sized for.
        false_positive_rate: the target for the whole chain.
        kernels: as for `BloomFilter`.

    Raises:
        ValueError: ``expected_items`` is below 1, or the rate is not between 1e-15 and 0.5.
    """

    GROWTH = 2
    TIGHTENING = 1 / 8

    def __init__(self, expected_items: int, false_positive_rate: float, kernels: ModuleType | None = None) -> None:
        # Below 1e-15 the 128-bit keys and the corpus size make the difference moot; the margin down to 1e-40 is for
        # the chained filters (25 of them, 3e7 times the expected items).
        if not 1e-15 <= false_positive_rate <= 0.5:
            raise ValueError("false_positive_rate must lie between 1e-15 and 0.5")
        self.expected_items = expected_items
        self.false_positive_rate = false_positive_rate
        self.filters: list[BloomFilter] = []
        self._kernels = kernels
        self._capacities: list[int] = []
        self._append()

    def _append(self) -> None:
        capacity, rate = _level(len(self.filters), self.expected_items, self.false_positive_rate)
        self.filters.append(BloomFilter(*choose_size(capacity, rate), self._kernels))
        self._capacities.append(capacity)

    def grow_to(self, num_filters: int) -> None:
        """Appends empty filters until there are so many."""
        while len(self.filters) < num_filters:
            self._append()

    @property
    def num_items(self) -> int:
        """Distinct keys held, less those that were taken for seen."""
        return sum(f.num_items for f in self.filters)

    @property
    def num_bits(self) -> int:
        """Size of the whole chain in bits."""
        return sum(f.num_bits for f in self.filters)

    def contains(self, high: UInt64Array, low: UInt64Array) -> BoolArray:
        """Whether each key was inserted before, by mistake at most at the target rate (shape (keys,))."""
        found = self.filters[0].contains(high, low)
        for other in self.filters[1:]:
            found |= other.contains(high, low)
        return found

    def add_and_test(self, high: UInt64Array, low: UInt64Array) -> BoolArray:
        """Inserts keys in order and says of each whether it had been seen before (shape (keys,))."""
        seen = np.zeros(len(high), dtype=np.bool_)
        pending = np.arange(len(high))  # rows not yet answered
        while len(pending):
            room = self._capacities[-1] - self.filters[-1].num_items
            for full in self.filters if room == 0 else self.filters[:-1]:
                found = full.contains(high[pending], low[pending])
                seen[pending[found]] = True
                pending = pending[~found]
            if room == 0:
                if len(pending):  # a key that is new for certain: only now does the chain have to grow
                    self._append()
                continue
            taken = self.filters[-1].add_and_test(high[pending], low[pending], room)
            seen[pending[: len(taken)]] = taken
            pending = pending[len(taken) :]
        return seen
