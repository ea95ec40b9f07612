"""Hash buckets that are decided independently: each holds the keys of one range of prefixes.

Equal keys have equal prefixes, so a bucket's decisions need no other bucket. Light to import, because plans use it.
"""

from __future__ import annotations

import math

PREFIX_BITS = 16
"""Number of upper bits of a key that decide its bucket; enough to make the buckets nearly equal in size."""

MAX_BUCKETS = 256
"""Largest number of buckets. With more, a bucket reads so little of each partition that opening it costs more."""

_BUCKET_BYTES = 1 << 30


def usual_buckets(input_bytes: int) -> int:
    """Chooses a power of two, so that a bucket holds the keys of 1 to 2 GiB of input (more from 512 GiB on).

    The number of partitions does not count: each bucket opens all of them, so more buckets for more partitions would
    take the square of the time.
    """
    return min(MAX_BUCKETS, 1 << max(0, (input_bytes // _BUCKET_BYTES).bit_length() - 1))


def bucket_names(num_buckets: int) -> tuple[str, ...]:
    """Returns the names of the buckets, in order."""
    return tuple(f"{number:03d}-of-{num_buckets:03d}" for number in range(1, num_buckets + 1))


def num_buckets(name: str) -> int:
    """Returns the number of buckets from the name of one."""
    return int(name.partition("-of-")[2])


def prefixes(name: str) -> tuple[int, int]:
    """Returns the half-open range of prefixes in a bucket."""
    number, _, of = name.partition("-of-")
    first, last = (-(-(n << PREFIX_BITS) // int(of)) for n in (int(number) - 1, int(number)))
    return first, last


def items_per_bucket(expected_items: int, num_buckets: int) -> int:
    """Returns the number of keys to size one bucket's filter for, given the distinct keys expected in all buckets.

    A hash fills buckets unevenly, so this adds four standard deviations to the mean: almost no bucket outgrows it.
    """
    mean = expected_items / num_buckets
    return expected_items if num_buckets == 1 else math.ceil(mean + 4 * math.sqrt(mean))
