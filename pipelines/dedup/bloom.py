"""A Bloom filter over 128-bit keys that meets its false-positive target at any number of items.

Formal guarantees
    * No false negatives: a key that was inserted is reported as seen by every later call.
    * At most ``capacity`` items: the chance that a key never inserted is reported as seen is at most the target.
      The chance is over the keys' hash, taken as uniform; the value is exact
      (`pipelines.dedup.bloom_rate.exact_false_positive_rate`), not the usual approximation, which is too low.
    * Past ``expected_items`` a `ScalableBloomFilter` chains further filters whose rates sum to at most the target.
    * Deterministic, and independent of how the keys are cut into batches: ``add_and_test`` answers exactly as if
      the keys were inserted one at a time.

Every quantity carries its unit in its name: ``num_bits`` are bits, never bytes.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType

import numpy as np
import numpy.typing as npt

from pipelines.dedup.bloom_rate import BLOCK_BITS, WORD_BITS, WORDS_PER_BLOCK, choose_size, exact_false_positive_rate

UInt64Array = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]

_CHUNK_KEYS = 8_192  # bounds the temporary (words, keys) arrays to a few MB; never changes an answer
_LINE_BYTES = BLOCK_BITS // 8
_BITS_OF_POSITION = np.uint64(6)  # of a position in a word


def expected_false_positives(num_new: int, expected_items: int, false_positive_rate: float) -> float:
    """Estimates how many keys a `ScalableBloomFilter` takes for seen while it takes ``num_new`` others for new.

    The rate rises as a filter fills, so it is averaged over the fill of each filter of the chain, by Simpson's rule.
    """
    expected, passed, level = 0.0, 0.0, 0
    while num_new > 0:
        capacity, rate = _level(level, expected_items, false_positive_rate)
        num_blocks, hashes_per_word, num_lines = _size(capacity, rate)
        rate_at = partial(exact_false_positive_rate, num_blocks, hashes_per_word=hashes_per_word, num_lines=num_lines)
        held = min(num_new, capacity)
        grid = [rate_at(held * n // 64) for n in range(65)]
        mean = (grid[0] + 4 * sum(grid[1::2]) + 2 * sum(grid[2:-1:2]) + grid[-1]) / (3 * 64)
        expected += held * (mean + passed)
        passed += rate_at(capacity)
        num_new -= held
        level += 1
    return expected


def _level(level: int, expected_items: int, false_positive_rate: float) -> tuple[int, float]:
    """Returns capacity and rate of one filter of a chain. Levels count from 0."""
    chain = ScalableBloomFilter
    rate = false_positive_rate * (1 - chain.TIGHTENING) * chain.TIGHTENING**level
    return expected_items * chain.GROWTH**level, rate


def _size(capacity: int, rate: float) -> tuple[int, int, int]:
    """Chooses a size (`choose_size`) for a filter that is full when it has taken ``capacity`` keys for new.

    A full filter also holds the keys that it took for seen by mistake while it filled. Their share is the mean rate so
    far, which is less than half of the final rate, because the rate rises ever faster until it is near one half.
    """
    return choose_size(round(capacity / (1 - rate / 2)), rate)


def mix(x: UInt64Array) -> UInt64Array:
    """Applies SplitMix64's finaliser, a bijection of 64-bit words that scatters near inputs (Steele et al., 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def reduce_words(words: UInt64Array, size: int) -> UInt64Array:
    """Maps words of 64 bits to numbers below ``size``: the upper half of the 128-bit product, from halves of 32 bits.

    The numbers are as even as a remainder (each has floor or ceil of 2^64 / size words), without a division.
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
    """A filter of a fixed size. It counts its keys, but the caller decides when it is full.

    Every key has a block of 512 bits, which is one cache line, and sets ``hashes_per_word`` bits in each of the
    block's eight words. For low rates it has ``num_lines`` such blocks, each in a part of its own.
    Source: Putze, Sanders and Singler, "Cache-, hash- and space-efficient Bloom filters" (2007), section 3; one or
    more bits in every word as in the split blocks of Apache Parquet.

    Args:
        num_blocks: blocks of each part, at least 1; need not be a power of two
        hashes_per_word: bits per key and word, at least 1
        num_lines: number of parts, at least 1
        kernels: compiled passes (`pipelines.dedup.kernels.compiled`), which change no answer; None for numpy's

    Attributes:
        words: bits of the filter, uint64, shape (num_lines * num_blocks * 8,): part by part, block by block
        num_items: number of inserted keys, without those that were taken for seen

    Raises:
        ValueError: a size is below 1.
    """

    def __init__(
        self, num_blocks: int, hashes_per_word: int = 1, num_lines: int = 1, kernels: ModuleType | None = None
    ) -> None:
        if min(num_blocks, hashes_per_word, num_lines) < 1:
            raise ValueError("num_blocks, hashes_per_word and num_lines must be at least 1")
        self.num_blocks = num_blocks
        self.hashes_per_word = hashes_per_word
        self.num_lines = num_lines
        self.num_items = 0
        self._kernels = kernels
        num_bytes = num_lines * num_blocks * _LINE_BYTES
        memory = np.zeros(num_bytes + _LINE_BYTES, dtype=np.uint8)
        start = -memory.ctypes.data % _LINE_BYTES  # a block across two lines would cost two accesses
        self.words = memory[start : start + num_bytes].view(np.uint64)

    @property
    def num_bits(self) -> int:
        """Size in bits."""
        return self.num_lines * self.num_blocks * BLOCK_BITS

    @property
    def num_hashes(self) -> int:
        """Bits that a key sets; fewer if two of them coincide."""
        return self.num_lines * self.hashes_per_word * WORDS_PER_BLOCK

    def patterns(self, high: UInt64Array, low: UInt64Array) -> tuple[UInt64Array, UInt64Array]:
        """Returns the words that a key touches, and the bits in them.

        Each key seeds its own SplitMix64 sequence: ``high`` is the start and ``low`` the increment, made odd. For
        every part, one number of the sequence is reduced to the number of blocks, and ``hashes_per_word`` more give
        six bits for each of the eight words, from the lowest on.

        Args:
            high, low: halves of the keys, uint64 of shape (keys,)

        Returns:
            The places in `words`, and the bits, both uint64 of shape (num_lines * 8, keys).
        """
        step, state = low | np.uint64(1), high
        of_word = np.arange(WORDS_PER_BLOCK, dtype=np.uint64)[:, None]
        shape = (self.num_lines, WORDS_PER_BLOCK, len(high))
        places, bits = np.empty(shape, dtype=np.uint64), np.zeros(shape, dtype=np.uint64)
        for line in range(self.num_lines):
            state = state + step
            block = reduce_words(mix(state), self.num_blocks) + np.uint64(line * self.num_blocks)
            np.add(block * np.uint64(WORDS_PER_BLOCK), of_word, out=places[line])
            for _ in range(self.hashes_per_word):
                state = state + step
                at = (mix(state) >> (of_word * _BITS_OF_POSITION)) & np.uint64(WORD_BITS - 1)
                bits[line] |= np.uint64(1) << at
        return places.reshape(-1, len(high)), bits.reshape(-1, len(high))

    def contains(self, high: UInt64Array, low: UInt64Array) -> BoolArray:
        """Checks if each key was inserted. True by mistake at the false-positive rate, never False by mistake."""
        found = np.empty(len(high), dtype=np.bool_)
        if self._kernels is not None:
            self._kernels.contains(self.words, self.num_blocks, self.hashes_per_word, self.num_lines, high, low, found)
            return found
        for at in range(0, len(high), _CHUNK_KEYS):
            part = slice(at, at + _CHUNK_KEYS)
            places, bits = self.patterns(high[part], low[part])
            found[part] = np.bitwise_or.reduce(bits & ~self.words.take(places.view(np.int64)), axis=0) == 0
        return found

    def add_and_test(self, high: UInt64Array, low: UInt64Array, max_new: int | None = None) -> BoolArray:
        """Inserts keys in order, and checks for each if it had been seen before.

        Args:
            high, low: halves of the keys, uint64 of shape (keys,)
            max_new: number of unseen keys after which to stop; None for no limit

        Returns:
            The seen mask of the keys that were taken: all keys, unless ``max_new`` was reached.
        """
        room = len(high) if max_new is None else max_new
        if self._kernels is not None:
            mask = np.empty(len(high), dtype=np.bool_)
            taken, num_new = self._kernels.add_and_test(
                self.words, self.num_blocks, self.hashes_per_word, self.num_lines, high, low, room, mask
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
        """Does `add_and_test` for one chunk.

        Inserting a key that was seen changes no bit. So the bits before key i are those of the filter plus those of
        all keys before i in the chunk, and key i is unseen exactly when it is the first to reach some clear bit. Most
        keys share no block with another key of the chunk. Only the others are compared with each other.
        """
        places, bits = self.patterns(high, low)
        at = places.view(np.int64)
        held = self.words.take(at)
        clear = bits & ~held
        seen: BoolArray = np.bitwise_or.reduce(clear, axis=0) == 0
        shared = np.flatnonzero(_share_a_block(places) & ~seen)
        seen[shared] = True
        seen[shared[_first_to_reach(places[:, shared], clear[:, shared])]] = False
        unseen = np.flatnonzero(~seen)
        if len(unseen) >= room:
            seen = seen[: int(unseen[room - 1]) + 1]
            unseen = unseen[:room]
        self.words[at[:, unseen]] = held[:, unseen] | bits[:, unseen]  # right if a key shares no block
        again = shared[shared < len(seen)]
        np.bitwise_or.at(self.words, at[:, again].ravel(), bits[:, again].ravel())
        self.num_items += len(unseen)
        return seen


def _share_a_block(places: UInt64Array) -> BoolArray:
    """Checks for each key if another key shares one of its blocks (shape (keys,))."""
    blocks = places[::WORDS_PER_BLOCK] // np.uint64(WORDS_PER_BLOCK)
    num_keys = np.uint64(blocks.shape[1])
    pairs = blocks * num_keys + np.arange(num_keys, dtype=np.uint64)
    pairs = np.sort(pairs, axis=None)
    same = np.diff(pairs // num_keys) == 0
    shared = np.zeros(int(num_keys), dtype=np.bool_)
    shared[(pairs[:-1][same] % num_keys).view(np.int64)] = True
    shared[(pairs[1:][same] % num_keys).view(np.int64)] = True
    return shared


def _first_to_reach(places: UInt64Array, clear: UInt64Array) -> npt.NDArray[np.int64]:
    """Finds the keys that are the first of these to set some bit.

    Args:
        places: words, shape (words, keys)
        clear: bits of the words that each key sets and the filter has not

    Returns:
        The keys' numbers, in no order, some of them more than once.
    """
    num_keys = np.uint64(places.shape[1])
    rows = np.broadcast_to(np.arange(num_keys, dtype=np.uint64), places.shape)
    found = []
    while clear.any():
        has = clear != 0
        lowest = clear & (~clear + np.uint64(1))
        bit = places * np.uint64(WORD_BITS) + np.bitwise_count(lowest - np.uint64(1))
        found.append((bit * num_keys + rows)[has])
        clear = clear ^ lowest
    pairs = np.sort(np.concatenate(found)) if found else np.empty(0, dtype=np.uint64)
    first = np.ones(len(pairs), dtype=np.bool_)
    first[1:] = np.diff(pairs // num_keys) != 0
    return (pairs[first] % num_keys).astype(np.int64)


class ScalableBloomFilter:
    """A chain of Bloom filters that keeps its false-positive target however many keys arrive.

    The i-th filter holds ``expected_items * 2^i`` keys at rate ``target * (1 - r) * r^i``; the rates sum to at most
    the target (Almeida et al., "Scalable Bloom Filters", 2007). r = 1/8 leaves the first filter seven eighths of
    the budget, so that a corpus of the expected size pays 0.2 bits per key for the chance to grow.

    Args:
        expected_items: number of distinct keys that the first filter is sized for
        false_positive_rate: target for the whole chain
        kernels: compiled passes; see `BloomFilter`

    Raises:
        ValueError: ``expected_items`` is below 1, or the rate is not between 1e-15 and 0.5.
    """

    GROWTH = 2
    TIGHTENING = 1 / 8

    def __init__(self, expected_items: int, false_positive_rate: float, kernels: ModuleType | None = None) -> None:
        # Below 1e-15 the difference does not matter, given 128-bit keys and the sizes of corpora. The margin down to
        # 1e-40 is for the chained filters (25 of them, 3e7 times the expected items).
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
        self.filters.append(BloomFilter(*_size(capacity, rate), kernels=self._kernels))
        self._capacities.append(capacity)

    def grow_to(self, num_filters: int) -> None:
        """Appends empty filters until there are ``num_filters``."""
        while len(self.filters) < num_filters:
            self._append()

    @property
    def num_items(self) -> int:
        """Number of distinct keys, without those that were taken for seen."""
        return sum(f.num_items for f in self.filters)

    @property
    def num_bits(self) -> int:
        """Size of the whole chain in bits."""
        return sum(f.num_bits for f in self.filters)

    def contains(self, high: UInt64Array, low: UInt64Array) -> BoolArray:
        """Checks if each key was inserted (shape (keys,)). True by mistake at most at the target rate."""
        found = self.filters[0].contains(high, low)
        for other in self.filters[1:]:
            found |= other.contains(high, low)
        return found

    def add_and_test(self, high: UInt64Array, low: UInt64Array) -> BoolArray:
        """Inserts keys in order, and checks for each if it had been seen before (shape (keys,))."""
        seen = np.zeros(len(high), dtype=np.bool_)
        pending = np.arange(len(high))  # rows not yet answered
        while len(pending):
            room = self._capacities[-1] - self.filters[-1].num_items
            for full in self.filters if room == 0 else self.filters[:-1]:
                found = full.contains(high[pending], low[pending])
                seen[pending[found]] = True
                pending = pending[~found]
            if room == 0:
                if len(pending):  # a key that is certainly new: only now must the chain grow
                    self._append()
                continue
            taken = self.filters[-1].add_and_test(high[pending], low[pending], room)
            seen[pending[: len(taken)]] = taken
            pending = pending[len(taken) :]
        return seen
