"""States of the shared random generators: torch's, on every device in use, numpy's and Python's."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from pipelines.dp.errors import UnsupportedLayerError

RandomStates = dict[str, Any]


def random_states() -> RandomStates:
    """Returns the states of the shared generators."""
    states: RandomStates = {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def set_random_states(states: RandomStates) -> None:
    """Sets the shared generators to these states."""
    torch.set_rng_state(states["torch"])
    np.random.set_state(states["numpy"])
    random.setstate(states["python"])
    if "cuda" in states:
        torch.cuda.set_rng_state_all(states["cuda"])


def random_states_digest() -> bytes:
    """Returns a digest that is equal if the shared generators have the same states."""
    states = random_states()
    digest = hashlib.sha256()
    for tensor in (states["torch"], *states.get("cuda", ())):
        digest.update(tensor.numpy().tobytes())
    name, keys, *rest = states["numpy"]
    digest.update(repr((name, keys.tobytes(), rest, states["python"])).encode())
    return digest.digest()


@contextlib.contextmanager
def repeatable(is_repeated: bool) -> Iterator[None]:
    """Runs a backward pass that another one repeats, if ``is_repeated``.

    Raises:
        UnsupportedLayerError: it drew random numbers, so that another one has other gradients.
    """
    before = random_states_digest() if is_repeated else b""
    yield
    if is_repeated and random_states_digest() != before:
        raise UnsupportedLayerError(
            "the backward pass draws random numbers, as a checkpoint of dropout with preserve_rng_state=False does. A "
            "second pass over the same batch would have other gradients, so that the norms would not bound the sum. "
            "Set preserve_rng_state=True"
        )


@contextlib.contextmanager
def kept_random_states() -> Iterator[Callable[[], None]]:
    """Yields a function that restores the current states of the shared generators. Restores them at the end too."""
    states = random_states()
    try:
        yield lambda: set_random_states(states)
    finally:
        set_random_states(states)
