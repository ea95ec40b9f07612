"""Sums over machines, encrypted: each machine adds up its own processes' sums, and the first machine those of all.

The machines form a star. The first process of each sends what its machine found to the first of all, which adds up in
one order and sends the same bits back. Gloo of torch's packages cannot encrypt, and NCCL cannot at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pipelines.training.machines.wire import Link


@dataclass(frozen=True, kw_only=True)
class MachineSums:
    """Other machines, as the processes of this one see them (`pipelines.dp.ranks.Across`).

    Attributes:
        first: the rank of this machine's first process.
        count: processes on all machines.
        to_others: of the first machine's first process: to the first process of each other machine, in their order.
        to_first: of the first process of another machine: to the first of all.
    """

    first: int
    count: int
    to_others: tuple[Link, ...] = ()
    to_first: Link | None = None

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Puts the sum over machines in the place of each tensor, the same bits everywhere.

        Raises:
            LostError: a machine is gone.
        """
        if self.to_first is not None:
            self.to_first.send(*_bytes_of(tensors))
        for link in self.to_others:
            for tensor, found in zip(tensors, _received(link, tensors), strict=True):
                tensor += found
        self.follow_first(tensors)

    def follow_first(self, tensors: Sequence[torch.Tensor]) -> None:
        """Puts what the first machine holds in the place of each tensor.

        Raises:
            LostError: a machine is gone.
        """
        if self.to_first is not None:
            for tensor, found in zip(tensors, _received(self.to_first, tensors), strict=True):
                tensor.copy_(found)
        if self.to_others:
            sent = _bytes_of(tensors)
            for link in self.to_others:
                link.send(*sent)

    def close(self) -> None:
        """Ends the connections."""
        for link in (*self.to_others, *([self.to_first] if self.to_first else [])):
            link.close()


def _bytes_of(tensors: Sequence[torch.Tensor]) -> list[memoryview]:
    flat = (tensor.detach().cpu().contiguous().reshape(-1) for tensor in tensors)
    return [one.view(torch.uint8).numpy().data for one in flat]


def _received(link: Link, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of the same shapes, dtypes and devices as those given."""
    found = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in tensors]
    link.receive_into(*_bytes_of(found))
    return [one.to(tensor.device) for one, tensor in zip(found, tensors, strict=True)]
