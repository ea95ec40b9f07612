"""Gaussian noise for private sums, from generators with secret keys.

On a CPU the bits come from AES in counter mode, with a key of 128 secret bits for each step: to distinguish them from
uniform bits is to break AES. Every guarantee assumes that floating-point numbers made of these bits are Gaussian noise.
torch's own generator on the CPU is not used: it keeps 32 bits of its seed, so that an attacker can try all its noise.
On other devices the noise is the sum of two generators of 64 bits each, which are no ciphers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

BLOCK: Final = 2**16
"""Numbers from one stream, few enough to stay in the cache. A stream depends on the key and its number only, never on
threads."""

_DRAW: Final = 2**26
"""Numbers that a device draws at once."""

_SMALL: Final = 2**16
_ZEROS: Final = bytes(4 * BLOCK)

Words = npt.NDArray[np.uint32]
Bits = Callable[[Words], None]
"""Fills an array with uniform bits."""


def add_noise(
    sums: Sequence[torch.Tensor], standard_deviation: float, rng: np.random.Generator, divisor: float = 1.0
) -> None:
    """Adds independent Gaussian noise to every coordinate and divides, in place. Called exactly once a step.

    Args:
        sums: contiguous float32 or float64 tensors of any shape, on any device.
        standard_deviation: standard deviation of the noise; 0 adds nothing.
        rng: generator of the key of the noise, 128 bits.
        divisor: divisor of the noisy sums; dividing while they are in the cache saves a pass over memory.
    """
    key = rng.integers(0, 2**64, size=2, dtype=np.uint64)
    if standard_deviation == 0:
        for tensor in sums:
            tensor.div_(divisor)
        return
    blocks = list(enumerate(_blocks([tensor.view(-1) for tensor in sums if tensor.device.type == "cpu"])))
    if blocks:
        workers = max(1, min(torch.get_num_threads(), len(blocks)))
        with ThreadPoolExecutor(workers) as pool:  # ciphers and numpy work without the interpreter's lock
            jobs = [
                pool.submit(_add_blocks, blocks[at::workers], standard_deviation, divisor, key.tobytes())
                for at in range(workers)
            ]
            for job in jobs:
                job.result()
    elsewhere = [tensor for tensor in sums if tensor.device.type != "cpu"]
    for device in dict.fromkeys(tensor.device for tensor in elsewhere):
        of_device = [tensor for tensor in elsewhere if tensor.device == device]
        key = rng.integers(0, 2**64, size=2, dtype=np.uint64)  # no two devices draw the same noise
        _add_on_device(of_device, standard_deviation, key)
        torch._foreach_div_(of_device, divisor)


def _blocks(tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Yields blocks of at most `BLOCK` numbers of one dtype, made of pieces of flat tensors."""
    block: list[torch.Tensor] = []
    free = BLOCK
    for tensor in tensors:
        at, size = 0, tensor.numel()
        while at < size:
            if block and (not free or block[0].dtype != tensor.dtype):
                yield block
                block, free = [], BLOCK
            taken = min(free, size - at)
            block.append(tensor if taken == size else tensor[at : at + taken])
            free -= taken
            at += taken
    if block:
        yield block


def _add_blocks(
    blocks: list[tuple[int, list[torch.Tensor]]], standard_deviation: float, divisor: float, key: bytes
) -> None:
    drawn: dict[torch.dtype, Normals] = {}
    for number, pieces in blocks:
        dtype = pieces[0].dtype
        if dtype not in drawn:
            drawn[dtype] = Normals(dtype)
        sizes = [piece.numel() for piece in pieces]
        noise = drawn[dtype].draw(sum(sizes), keystream(key, number))
        for piece, part in zip(pieces, torch.split(noise, sizes), strict=True):
            piece.add_(part, alpha=standard_deviation)
            if divisor != 1:
                piece.div_(divisor)


def keystream(key: bytes, number: int) -> Bits:
    """Returns the stream of that number: AES-128 in counter mode, 2**64 cipher blocks away from its neighbours."""
    # Imported here, so that an engine with all parameters on a GPU needs only torch and numpy.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES128(key), modes.CTR(number.to_bytes(8, "big") + bytes(8))).encryptor()

    def fill(words: Words) -> None:
        cipher.update_into(memoryview(_ZEROS)[: words.nbytes], words.data.cast("B"))

    return fill


class Normals:
    """Standard normals by Box and Muller 1958, in reused buffers.

    A pair takes 32 bits for its radius and 32 for its angle. The radius is computed in float64. If its 32 bits are
    small, which is the tail, 64 further bits are drawn: the tail then ends near 11 standard deviations instead of 6.7,
    and nowhere is it coarse. numpy's functions take a third of the time of torch's here.

    Args:
        dtype: dtype of the normals, float32 or float64.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._kind = np.float64 if dtype == torch.float64 else np.float32
        self._words = np.empty(BLOCK, dtype=np.uint32)
        self._squares = np.empty(BLOCK // 2, dtype=np.float64)
        self._radii, self._angles = np.empty((2, BLOCK // 2), dtype=self._kind)
        self._normals = np.empty(BLOCK, dtype=self._kind)

    def draw(self, count: int, fill: Bits) -> torch.Tensor:
        """Returns (count,) standard normals, valid until the next call; count is at most `BLOCK`."""
        pairs = (count + 1) // 2
        words = self._words[: 2 * pairs]
        fill(words)
        bits = self._squares[:pairs]
        np.add(words[:pairs], 0.5, out=bits)
        small = np.flatnonzero(words[:pairs] < _SMALL)
        if len(small):
            further = np.empty(2 * len(small), dtype=np.uint32)
            fill(further)
            bits[small] += (further.view(np.uint64) >> 11) * 2.0**-53 - 0.5 + 2.0**-54
        np.multiply(bits, 2.0**-32, out=bits)
        squares = np.log(bits, out=bits)
        squares *= -2
        radii, angles = self._radii[:pairs], self._angles[:pairs]
        np.copyto(radii, squares, casting="same_kind")
        np.sqrt(radii, out=radii)
        turns = words[pairs:].view(np.int32)
        np.multiply(turns, self._kind(math.pi * 2.0**-31), out=angles, casting="same_kind")
        first, second = self._normals[:pairs], self._normals[pairs : 2 * pairs]
        np.multiply(radii, np.cos(angles, out=first), out=first)
        np.multiply(radii, np.sin(angles, out=angles), out=second)
        return torch.from_numpy(self._normals[:count])


def _add_on_device(tensors: list[torch.Tensor], standard_deviation: float, key: npt.NDArray[np.uint64]) -> None:
    # A device's generator takes 64 bits of seed: two of them, added, use the whole key.
    generators = [torch.Generator(tensors[0].device).manual_seed(int(half) >> 1) for half in key]
    for group in _groups(tensors):
        sizes = [tensor.numel() for tensor in group]
        for generator in generators:
            noise = torch.randn(sum(sizes), generator=generator, device=generator.device, dtype=group[0].dtype)
            parts = [part.view_as(tensor) for part, tensor in zip(torch.split(noise, sizes), group, strict=True)]
            torch._foreach_add_(group, parts, alpha=standard_deviation / math.sqrt(2))


def _groups(tensors: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Yields tensors of one dtype in groups, for few and large draws."""
    group: list[torch.Tensor] = []
    for tensor in tensors:
        is_full = sum(t.numel() for t in group) + tensor.numel() > _DRAW
        if group and (is_full or group[0].dtype != tensor.dtype):
            yield group
            group = []
        group.append(tensor)
    if group:
        yield group
