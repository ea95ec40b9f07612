"""Where the randomness of private steps comes from.

The guarantee holds only if nobody can predict the samples and the noise. Each private step therefore gets a generator
with a fresh 128-bit key from the operating system; keys are never stored, so a resumed run cannot repeat them, and
nobody can subtract the noise later. `seeded` is for tests that compare bytes, and voids the guarantee.

Public: the model's initial weights and the order of public batches, which derive from the stage's seed instead.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

import numpy as np

PrivateRandomness = Callable[[int], np.random.Generator]
"""The generator of a private step, by step number. It gives the step's sample first, then its noise."""


def unpredictable(step: int) -> np.random.Generator:
    """A generator with a fresh secret key, whatever the step."""
    del step
    return np.random.Generator(np.random.Philox(key=secrets.randbits(128)))


def seeded(seed: int, rank: int = 0) -> PrivateRandomness:
    """Generators that anyone who knows ``seed`` can repeat, others for each process of a training. For tests only."""
    name = f"private step/{seed}" if rank == 0 else f"private step/{seed}/rank {rank}"

    def generator(step: int) -> np.random.Generator:
        digest = hashlib.sha256(f"{name}/{step}".encode()).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "big")))

    return generator


def of_training(seed: int, rank: int, *, insecure_test_seed: bool) -> PrivateRandomness:
    """The generators of a training, or of a game on it.

    Args:
        seed: of the stage; without a meaning unless the next is set.
        rank: number of the process among those that train together.
        insecure_test_seed: whether anyone may repeat samples and noise, in tests.
    """
    return seeded(seed, rank) if insecure_test_seed else unpredictable
