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

_BLOCK: Final = 2**17
"""Numbers from one stream. Streams depend on the key and their number only, never on threads."""


_SMALL: Final = 2**16


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
    if block.dtype == torch.float64:
        noise = torch.from_numpy(stream.standard_normal(len(block)))
    else:
        noise = standard_normals(len(block), stream)
    block.add_(noise, alpha=standard_deviation)


def standard_normals(count: int, stream: np.random.Generator) -> torch.Tensor:
    """(count,) float32 standard normals by Box and Muller 1958, twice as fast as numpy's.

    A pair takes 32 bits for its radius and 32 for its angle. The radius is computed in float64, and where its 32 bits
    are small, which is where the tail is, 53 further bits are drawn: the tail ends beyond 11 standard deviations
    rather than at 6.7, and nowhere is it coarse.
    """
    pairs = (count + 1) // 2
    raw = stream.bit_generator.random_raw(pairs).view(np.uint32)  # (2 * pairs,)
    angles = torch.from_numpy(raw[pairs:].view(np.int32)).to(torch.float32).mul_(math.pi * 2.0**-31)
    bits = torch.from_numpy(raw[:pairs].astype(np.float64))
    small = (bits < _SMALL).nonzero()[:, 0]
    bits += 0.5
    if len(small):
        bits[small] += torch.from_numpy(stream.random(len(small)) - 0.5 + 2.0**-54)
    radii = bits.mul_(2.0**-32).log_().mul_(-2).sqrt_().to(torch.float32)
    normals = torch.empty(2 * pairs, dtype=torch.float32)
    torch.mul(radii, angles.cos(), out=normals[:pairs])
    torch.mul(radii, angles.sin_(), out=normals[pairs:])
    return normals[:count]


def _add_on_device(tensors: list[torch.Tensor], standard_deviation: float, key: npt.NDArray[np.uint64]) -> None:
    # A device's generator takes 64 bits of seed: two of them, added, use the whole key.
    for device in {tensor.device for tensor in tensors}:
        generators = [torch.Generator(device).manual_seed(int(half) >> 1) for half in key]
        for tensor in tensors:
            if tensor.device == device:
                for generator in generators:
                    noise = torch.randn(tensor.shape, generator=generator, device=device, dtype=tensor.dtype)
                    tensor.add_(noise, alpha=standard_deviation / math.sqrt(2))
