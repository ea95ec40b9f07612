"""Keys of sentences as the filters take them: two halves of 64 bits."""

import numpy as np


def random_keys(rng, size):
    """Both halves of so many keys."""
    return (rng.integers(0, 2**64, size, dtype=np.uint64) for _ in range(2))


def as_arrays(keys):
    """Both halves of keys that are pairs."""
    pairs = np.array(keys, dtype=np.uint64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
