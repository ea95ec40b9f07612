"""Processes that train one model together: each takes its share of the records, and what they find is added up.

They are those of torch's default process group, on one machine or several. Without a group there is one process. A
*rank* is the number of a process, from 0, as ``torchrun`` counts them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from pipelines.errors import StageError

IntArray = npt.NDArray[np.int64]


class PartnerLostError(Exception):
    """Another process of the training is gone, or its machine is."""


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together.

    Attributes:
        rank: its number.
        count: how many there are.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def here(cls) -> Ranks:
        """Those of torch's default group."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())
        return cls()

    @property
    def is_first(self) -> bool:
        """Whether this is the one that draws the noise, evaluates, and writes."""
        return self.rank == 0

    def share(self, rows: IntArray) -> IntArray:
        """The part of ``rows`` that is this process's own. Every row is one process's own, by its place alone."""
        return rows[self.rank :: self.count]

    def add_up(self, tensors: Iterable[torch.Tensor]) -> None:
        """Puts the sum over all processes in the place of each tensor, the same bits everywhere.

        Raises:
            PartnerLostError: another process is gone.
        """
        if self.count == 1:
            return
        with _partners_needed():
            for work in [torch.distributed.all_reduce(tensor, async_op=True) for tensor in tensors]:
                work.wait()

    def totals(self, values: Sequence[float], device: torch.device) -> list[float]:
        """The sums of numbers over all processes."""
        if self.count == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        self.add_up([tensor])
        return [float(value) for value in tensor.tolist()]

    def follow_first(self, tensors: Iterable[torch.Tensor]) -> None:
        """Puts what the first process holds in the place of each tensor.

        Raises:
            PartnerLostError: another process is gone.
        """
        if self.count == 1:
            return
        with _partners_needed():
            for tensor in tensors:
                torch.distributed.broadcast(tensor, 0)

    def check_agree(self, facts: str, device: torch.device) -> None:
        """Checks that all processes are about to do the same.

        Raises:
            StageError: they are not. Sums over different trainings would be the gradient of none.
        """
        if self.count == 1:
            return
        digest = list(hashlib.sha256(facts.encode()).digest())
        own = torch.tensor(digest, dtype=torch.int64, device=device)
        first = own.clone()
        self.follow_first([first])
        if any(self.totals([float((own != first).any())], device)):
            raise StageError(
                "the training processes have read different corpora, settings or checkpoints; run train again"
            )


@contextmanager
def _partners_needed() -> Iterator[None]:
    """Turns an error of torch's sockets, which may print addresses, into one that says what happened."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise PartnerLostError from None


ALONE: Final = Ranks()
"""One process that trains by itself."""
