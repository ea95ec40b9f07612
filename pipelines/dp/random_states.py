"""The random numbers that programs share: torch's, on every device in use, numpy's and Python's."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

RandomStates = dict[str, Any]


def random_states() -> RandomStates:
    """Where the shared generators are."""
    states: RandomStates = {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(),
        "python": random.getstate(),
    }
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def set_random_states(states: RandomStates) -> None:
    """Puts the shared generators where they were."""
    torch.set_rng_state(states["torch"])
    np.random.set_state(states["numpy"])
    random.setstate(states["python"])
    if "cuda" in states:
        torch.cuda.set_rng_state_all(states["cuda"])


def random_states_digest() -> bytes:
    """Equal where the shared generators are at the same place."""
    states = random_states()
    digest = hashlib.sha256()
    for tensor in (states["torch"], *states.get("cuda", ())):
        digest.update(tensor.numpy().tobytes())
    name, keys, *rest = states["numpy"]
    digest.update(repr((name, keys.tobytes(), rest, states["python"])).encode())
    return digest.digest()


@contextlib.contextmanager
def kept_random_states() -> Iterator[Callable[[], None]]:
    """Gives a function that sets the shared generators to where they are now; they are there at the end too."""
    states = random_states()
    try:
        yield lambda: set_random_states(states)
    finally:
        set_random_states(states)
