"""Compiled passes over Arrow buffers and keys (extra ``fast``: numba). Same answers as the numpy code, bit by bit.

Only `pipelines.dedup.kernels` imports this module, once it has decided that compiling pays.
"""

from __future__ import annotations

import numba
import numpy as np

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)


def _compile(function, **options):
    # The cache lies beside this file, or in the user's cache folder where that is read-only.
    return numba.njit(cache=True, nogil=True, **options)(function)


def _mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


_mix = _compile(_mix, inline="always")


def _reduce(word, size):
    """The upper half of the 128-bit product; see `pipelines.dedup.bloom.reduce_words`."""
    half = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    low_low = (word & half) * (size & half)
    high_low = (word >> shift) * (size & half) + (low_low >> shift)
    low_high = (word & half) * (size >> shift) + (high_low & half)
    return (word >> shift) * (size >> shift) + (high_low >> shift) + (low_high >> shift)


_reduce = _compile(_reduce, inline="always")


def _final(k):
    k ^= k >> np.uint64(33)
    k *= np.uint64(0xFF51AFD7ED558CCD)
    k ^= k >> np.uint64(33)
    k *= np.uint64(0xC4CEB9FE1A85EC53)
    return k ^ (k >> np.uint64(33))


_final = _compile(_final, inline="always")


def _rotate(x, by):
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


_rotate = _compile(_rotate, inline="always")


def _word(data, at, size):
    """Up to eight bytes, little-endian."""
    value = np.uint64(0)
    for i in range(size):
        value |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return value


_word = _compile(_word, inline="always")


def _murmur(data, length, seed):
    """MurmurHash3 x64-128 (Appleby, public domain): both words of the digest of ``data[:length]``."""
    h1 = h2 = np.uint64(seed)
    num_blocks = length // 16
    words = data[: num_blocks * 16].view(np.uint64)
    for block in range(num_blocks):
        k1, k2 = words[2 * block], words[2 * block + 1]
        h1 ^= _rotate(k1 * _C1, 31) * _C2
        h1 = (_rotate(h1, 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
        h2 ^= _rotate(k2 * _C2, 33) * _C1
        h2 = (_rotate(h2, 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
    at = num_blocks * 16
    left = length - at
    if left > 8:
        h2 ^= _rotate(_word(data, at + 8, left - 8) * _C2, 33) * _C1
    if left:
        h1 ^= _rotate(_word(data, at, min(left, 8)) * _C1, 31) * _C2
    h1 ^= np.uint64(length)
    h2 ^= np.uint64(length)
    h1 += h2
    h2 += h1
    h1, h2 = _final(h1), _final(h2)
    h1 += h2
    h2 += h1
    return h1, h2


_murmur = _compile(_murmur)


def _hash_rows(data, offsets, prefixes, prefix_offsets, prefix_of, wanted, seed, high, low):
    """Keys of prefix + text of each wanted row, into ``high`` and ``low``; zero elsewhere.

    Args:
        data: uint8, all texts; ``offsets``: int64 (rows + 1,), where each starts.
        prefixes: uint8, the distinct prefixes; ``prefix_offsets``: int64 (prefixes + 1,).
        prefix_of: int64 (rows,), the prefix of each row.
        wanted: bool (rows,). seed: uint64. high, low: uint64 (rows,), written.
    """
    scratch = np.empty(4096, dtype=np.uint8)
    for row in range(len(wanted)):
        if not wanted[row]:
            high[row] = 0
            low[row] = 0
            continue
        start, stop = prefix_offsets[prefix_of[row]], prefix_offsets[prefix_of[row] + 1]
        size = stop - start
        length = size + offsets[row + 1] - offsets[row]
        if length > len(scratch):
            scratch = np.empty(16 * ((2 * length + 15) // 16), dtype=np.uint8)
        for i in range(size):
            scratch[i] = prefixes[start + i]
        base = offsets[row]
        for i in range(length - size):
            scratch[size + i] = data[base + i]
        first, second = _murmur(scratch, length, seed)
        high[row] = second
        low[row] = first


hash_rows = _compile(_hash_rows)


def _contains(bits, num_bits, num_hashes, high, low, found):
    size = np.uint64(num_bits)
    for row in range(len(high)):
        step = low[row] | np.uint64(1)
        state = high[row]
        is_in = True
        for _ in range(num_hashes):
            state += step
            bit = _reduce(_mix(state), size)
            if not (bits[bit >> np.uint64(3)] >> (bit & np.uint64(7))) & np.uint8(1):
                is_in = False
                break
        found[row] = is_in


contains = _compile(_contains)


def _add_and_test(bits, num_bits, num_hashes, high, low, room, seen):
    """Inserts keys in order until ``room`` new ones were taken; returns how many rows were, and how many were new."""
    size = np.uint64(num_bits)
    num_new = 0
    for row in range(len(high)):
        if num_new == room:
            return row, num_new
        step = low[row] | np.uint64(1)
        state = high[row]
        missing = np.uint8(0)
        for _ in range(num_hashes):  # without a branch: half of the bits are set, no processor guesses which
            state += step
            bit = _reduce(_mix(state), size)
            at = bit >> np.uint64(3)
            mask = np.uint8(1) << np.uint8(bit & np.uint64(7))
            byte = bits[at]
            missing |= ~byte & mask
            bits[at] = byte | mask
        seen[row] = missing == 0
        num_new += missing != 0
    return len(high), num_new


add_and_test = _compile(_add_and_test)
