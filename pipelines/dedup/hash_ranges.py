"""Hash buckets that are decided apart from each other: each holds the keys of one range of prefixes.

Equal keys have equal prefixes, so a bucket's decisions need no other bucket. Light to import, for a plan asks it.
"""

from __future__ import annotations

import math

PREFIX_BITS = 16
"""The upper bits of a key that say which bucket it is in; so many that the buckets are as good as equally large."""

MAX_BUCKETS = 256
"""What one bucket reads of a partition shrinks with their number, and at last the reading costs more than the rows."""

_BUCKET_BYTES = 1 << 30


def usual_buckets(input_bytes: int) -> int:
    """A power of two, so that a bucket holds what 1 to 2 GiB of input do (more from 512 GiB on).

    The number of partitions does not count: each bucket opens all of them, so that more buckets for more partitions
    would take the square of the time.
    """
    return min(MAX_BUCKETS, 1 << max(0, (input_bytes // _BUCKET_BYTES).bit_length() - 1))


def bucket_names(num_buckets: int) -> tuple[str, ...]:
    """The buckets, in order: what they are called among partitions."""
    return tuple(f"{number:03d}-of-{num_buckets:03d}" for number in range(1, num_buckets + 1))


def num_buckets(name: str) -> int:
    """Of how many buckets one is."""
    return int(name.partition("-of-")[2])


def prefixes(name: str) -> tuple[int, int]:
    """The half-open range of prefixes in a bucket."""
    number, _, of = name.partition("-of-")
    first, last = (-(-(n << PREFIX_BITS) // int(of)) for n in (int(number) - 1, int(number)))
    return first, last


def items_per_bucket(expected_items: int, num_buckets: int) -> int:
    """What the filter of one bucket is sized for, when so many distinct keys are expected in all.

    A hash fills buckets unevenly: four standard deviations more than the mean, so that as good as none outgrows it.
    """
    mean = expected_items / num_buckets
    return expected_items if num_buckets == 1 else math.ceil(mean + 4 * math.sqrt(mean))
