"""The randomness of private steps, and samples of streams.

The guarantee holds only if nobody can predict the samples and the noise. Each private step therefore gets a generator
with a fresh 128-bit key from the operating system. Keys are never stored, so a resumed run cannot repeat them, and
nobody can subtract the noise later. `seeded` is for tests that compare bytes, and voids the guarantee.

The model's initial weights and the order of public batches are public. They derive from the stage's seed instead.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")

PrivateRandomness = Callable[[int], np.random.Generator]
"""Returns the generator of a private step, by step number. It draws the step's sample first, then its noise."""


def unpredictable(step: int) -> np.random.Generator:
    """Returns a generator with a fresh secret key, whatever the step."""
    del step
    return np.random.Generator(np.random.Philox(key=secrets.randbits(128)))


def seeded(seed: int, rank: int = 0) -> PrivateRandomness:
    """Returns generators that anyone who knows ``seed`` can repeat, different for each process. For tests only."""
    name = f"private step/{seed}" if rank == 0 else f"private step/{seed}/rank {rank}"

    def generator(step: int) -> np.random.Generator:
        digest = hashlib.sha256(f"{name}/{step}".encode()).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "big")))

    return generator


def of_training(seed: int, rank: int, *, insecure_test_seed: bool) -> PrivateRandomness:
    """Returns the generators of a training, or of a game on it.

    Args:
        seed: seed of the stage, used only with ``insecure_test_seed``.
        rank: number of the process among those that train together.
        insecure_test_seed: true if anyone may repeat samples and noise, in tests.
    """
    return seeded(seed, rank) if insecure_test_seed else unpredictable


def sample_of(items: Iterable[Item], most: int, generator: np.random.Generator) -> list[Item]:
    """Draws at most so many of the items that stream by, uniformly (reservoir sampling)."""
    drawn: list[Item] = []
    for num_before, item in enumerate(items):
        at = num_before if len(drawn) < most else int(generator.integers(num_before + 1))
        if at < most:
            drawn[at : at + 1] = [item]
    return drawn
