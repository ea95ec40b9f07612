"""Compiled passes over Arrow buffers and keys (extra ``fast``: numba). They give the numpy code's answers, bit by bit.

Only `pipelines.dedup.kernels` imports this module, after it has decided that compiling pays.
"""

from __future__ import annotations

from functools import partial

import numba
import numpy as np

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_WORDS = 8  # of a block
_GROUP = 64  # keys whose blocks are fetched together
_ONE, _SIX, _LAST = np.uint64(1), np.uint64(6), np.uint64(63)


# The cache is in this file's folder, or in the user's cache folder if that one is read-only.
_compile = partial(numba.njit, cache=True, nogil=True)


@_compile(inline="always")
def _mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@_compile(inline="always")
def _reduce(word, size):
    """Returns the upper half of the 128-bit product; see `pipelines.dedup.bloom.reduce_words`."""
    half = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    low_low = (word & half) * (size & half)
    high_low = (word >> shift) * (size & half) + (low_low >> shift)
    low_high = (word & half) * (size >> shift) + (high_low & half)
    return (word >> shift) * (size >> shift) + (high_low >> shift) + (low_high >> shift)


@_compile(inline="always")
def _final(k):
    k ^= k >> np.uint64(33)
    k *= np.uint64(0xFF51AFD7ED558CCD)
    k ^= k >> np.uint64(33)
    k *= np.uint64(0xC4CEB9FE1A85EC53)
    return k ^ (k >> np.uint64(33))


@_compile(inline="always")
def _rotate(x, by):
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@_compile(inline="always")
def _murmur(words, length, seed):
    """Computes MurmurHash3 x64-128 (Appleby, public domain): both words of the digest of the first ``length`` bytes.

    Args:
        words: uint64, little-endian; bytes from ``length`` up to the next multiple of 16 are zero
    """
    h1 = h2 = np.uint64(seed)
    num_blocks = length // 16
    for block in range(num_blocks):
        h1 ^= _rotate(words[2 * block] * _C1, 31) * _C2
        h1 = (_rotate(h1, 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
        h2 ^= _rotate(words[2 * block + 1] * _C2, 33) * _C1
        h2 = (_rotate(h2, 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
    if length % 16:  # a word of zeros changes nothing, as in the reference code, which leaves it out
        h2 ^= _rotate(words[2 * num_blocks + 1] * _C2, 33) * _C1
        h1 ^= _rotate(words[2 * num_blocks] * _C1, 31) * _C2
    h1 ^= np.uint64(length)
    h2 ^= np.uint64(length)
    h1 += h2
    h2 += h1
    h1, h2 = _final(h1), _final(h2)
    h1 += h2
    h2 += h1
    return h1, h2


@_compile(inline="always")
def _copy_words(data, aligned, base, text, scratch, words, size):
    """Copies ``data[base : base + text]`` to byte ``size`` of ``scratch``, a word at a time if a whole word fits.

    Neither end is aligned. Copies bytes up to the first whole word of the target, then words combined from two words
    of the source. Returns the number of copied bytes.
    """
    head = min(-size % 8, text)
    for i in range(head):
        scratch[size + i] = data[base + i]
    target, source = (size + head) // 8, base + head
    num_words = (text - head) // 8
    at, right = source // 8, np.uint64(8 * (source % 8))
    if right == 0:
        for i in range(num_words):
            words[target + i] = aligned[at + i]
    else:
        left = np.uint64(64) - right
        for i in range(num_words):
            words[target + i] = (aligned[at + i] >> right) | (aligned[at + i + 1] << left)
    return head + 8 * num_words


@_compile
def hash_rows(data, offsets, prefixes, prefix_offsets, prefix_of, wanted, seed, high, low):
    """Writes keys of prefix + text of each wanted row into ``high`` and ``low``, and zero for other rows.

    Args:
        data: uint8, all texts
        offsets: int64 (rows + 1,), starts of the texts
        prefixes: uint8, distinct prefixes
        prefix_offsets: int64 (prefixes + 1,), starts of the prefixes
        prefix_of: int64 (rows,), prefix of each row
        wanted: bool (rows,)
        seed: uint64
        high, low: uint64 (rows,), written
    """
    aligned = data[: len(data) // 8 * 8].view(np.uint64)
    words = np.empty(512, dtype=np.uint64)
    scratch = words.view(np.uint8)
    for row in range(len(wanted)):
        if not wanted[row]:
            high[row] = 0
            low[row] = 0
            continue
        start, stop = prefix_offsets[prefix_of[row]], prefix_offsets[prefix_of[row] + 1]
        size = stop - start
        base, text = offsets[row], offsets[row + 1] - offsets[row]
        length = size + text
        if length + 16 > len(scratch):
            words = np.empty(2 * ((length + 15) // 8), dtype=np.uint64)
            scratch = words.view(np.uint8)
        # Writes zeros first, so that they remain after the end of the copy.
        words[length // 16 * 2] = 0
        words[length // 16 * 2 + 1] = 0
        for i in range(size):
            scratch[i] = prefixes[start + i]
        copied = 0
        if base + text + 16 <= len(data):  # otherwise it could read beyond the texts
            copied = _copy_words(data, aligned, base, text, scratch, words, size)
        for i in range(copied, text):
            scratch[size + i] = data[base + i]
        first, second = _murmur(words, length, seed)
        high[row] = second
        low[row] = first


@_compile
def _fetch(words, num_blocks, high, low, start, stop, bases, patterns, fetched):
    """Writes the block starts of a group of keys, and their bits (`pipelines.dedup.bloom.BloomFilter.patterns`).

    Reads a word of every block, so that the processor waits for many lines of memory at once and has them in the cache
    when they are used. Reading key by key takes three times as long.

    Args:
        bases: uint64 (group, parts), written
        patterns: uint64 (group, parts, hashes a word), written
        fetched: uint64 (group,), written, so that no compiler leaves out the reading
    """
    size = np.uint64(num_blocks)
    for row in range(start, stop):
        step = low[row] | np.uint64(1)
        state = high[row]
        for line in range(bases.shape[1]):
            state += step
            bases[row - start, line] = np.uint64(_WORDS) * (_reduce(_mix(state), size) + np.uint64(line) * size)
            for i in range(patterns.shape[2]):
                state += step
                patterns[row - start, line, i] = _mix(state)
    for key in range(stop - start):
        fetched[key] = 0
        for line in range(bases.shape[1]):
            fetched[key] ^= words[bases[key, line]]


@_compile
def contains(words, num_blocks, hashes_per_word, num_lines, high, low, found):
    """Writes into ``found``, for each key, true if it was inserted."""
    bases = np.empty((_GROUP, num_lines), dtype=np.uint64)
    patterns = np.empty((_GROUP, num_lines, hashes_per_word), dtype=np.uint64)
    fetched = np.empty(_GROUP, dtype=np.uint64)
    for start in range(0, len(high), _GROUP):
        stop = min(start + _GROUP, len(high))
        _fetch(words, num_blocks, high, low, start, stop, bases, patterns, fetched)
        for row in range(start, stop):
            missing = np.uint64(0)
            for line in range(num_lines):
                base = bases[row - start, line]
                for i in range(hashes_per_word):
                    pattern = patterns[row - start, line, i]
                    for n in range(_WORDS):
                        bit = _ONE << ((pattern >> (_SIX * np.uint64(n))) & _LAST)
                        missing |= ~words[base + np.uint64(n)] & bit
            found[row] = missing == 0


@_compile
def add_and_test(words, num_blocks, hashes_per_word, num_lines, high, low, room, seen):
    """Inserts keys in order until ``room`` new ones are taken. Returns the numbers of taken rows and of new keys."""
    bases = np.empty((_GROUP, num_lines), dtype=np.uint64)
    patterns = np.empty((_GROUP, num_lines, hashes_per_word), dtype=np.uint64)
    fetched = np.empty(_GROUP, dtype=np.uint64)
    num_new = 0
    for start in range(0, len(high), _GROUP):
        stop = min(start + _GROUP, len(high))
        _fetch(words, num_blocks, high, low, start, stop, bases, patterns, fetched)
        for row in range(start, stop):
            if num_new == room:
                return row, num_new
            missing = np.uint64(0)
            for line in range(num_lines):
                base = bases[row - start, line]
                for i in range(hashes_per_word):
                    pattern = patterns[row - start, line, i]
                    for n in range(_WORDS):  # without a branch, because no processor can predict set bits
                        bit = _ONE << ((pattern >> (_SIX * np.uint64(n))) & _LAST)
                        word = words[base + np.uint64(n)]
                        missing |= ~word & bit
                        words[base + np.uint64(n)] = word | bit
            seen[row] = missing == 0
            num_new += missing != 0
    return len(high), num_new
