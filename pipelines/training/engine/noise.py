"""Gaussian noise for private sums, from generators whose keys nobody knows.

Floating-point noise and a counter-based generator (Philox, 128 bits of secret key) are taken for ideal Gaussian noise;
that is an assumption of every guarantee. torch's own generator on the CPU keeps 32 bits of its seed, so that all its
noise can be tried out: it is not used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

_BLOCK: Final = 2**18
"""Numbers from one stream. Streams depend on the key and their number only, never on threads."""


def add_noise(sums: Sequence[torch.Tensor], standard_deviation: float, rng: np.random.Generator) -> None:
    """Adds independent Gaussian noise to every coordinate, in place. Called exactly once a step.

    Args:
        sums: contiguous float32 or float64 tensors of any shape, on any device.
        standard_deviation: of the noise; 0 adds nothing.
        rng: gives the key of the noise, 128 bits.
    """
    key = rng.integers(0, 2**64, size=2, dtype=np.uint64)
    if standard_deviation == 0:
        return
    on_cpu = [tensor.view(-1) for tensor in sums if tensor.device.type == "cpu"]
    blocks = [tensor[at : at + _BLOCK] for tensor in on_cpu for at in range(0, len(tensor), _BLOCK)]
    if blocks:
        workers = max(1, min(torch.get_num_threads(), len(blocks)))
        with ThreadPoolExecutor(workers) as pool:  # numpy draws without the interpreter's lock
            list(pool.map(lambda job: _add_block(job[1], standard_deviation, key, job[0]), enumerate(blocks)))
    elsewhere = [tensor for tensor in sums if tensor.device.type != "cpu"]
    if elsewhere:
        _add_on_device(elsewhere, standard_deviation, key)


def _add_block(block: torch.Tensor, standard_deviation: float, key: npt.NDArray[np.uint64], number: int) -> None:
    stream = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, number]))
    noise = stream.standard_normal(len(block), dtype=np.float64 if block.dtype == torch.float64 else np.float32)
    block.add_(torch.from_numpy(noise), alpha=standard_deviation)


def _add_on_device(tensors: list[torch.Tensor], standard_deviation: float, key: npt.NDArray[np.uint64]) -> None:
    # A device's generator takes 64 bits of seed: two of them, added, use the whole key.
    for device in {tensor.device for tensor in tensors}:
        generators = [torch.Generator(device).manual_seed(int(half) >> 1) for half in key]
        for tensor in tensors:
            if tensor.device == device:
                for generator in generators:
                    noise = torch.randn(tensor.shape, generator=generator, device=device, dtype=tensor.dtype)
                    tensor.add_(noise, alpha=standard_deviation / math.sqrt(2))
