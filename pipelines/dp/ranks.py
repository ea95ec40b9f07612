"""Processes that train one model together. Each takes its share of the records, and their sums are added up.

They are the processes of torch's default process group, on one machine or several. Without a group there is one
process. A *rank* is the number of a process, from 0, as ``torchrun`` counts them.
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
    """The loss of another process of the training, or of its machine."""


@dataclass(frozen=True)
class Ranks:
    """The number of this process among those that train together.

    Attributes:
        rank: number of this process.
        count: number of processes.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def here(cls) -> Ranks:
        """Returns the ranks of torch's default group."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())
        return cls()

    @property
    def is_first(self) -> bool:
        """True for the process that draws the noise, evaluates, and writes."""
        return self.rank == 0

    def share(self, rows: IntArray) -> IntArray:
        """Returns this process's part of ``rows``. Every row belongs to one process, by its place alone."""
        return rows[self.rank :: self.count]

    def add_up(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replaces each tensor by its sum over all processes, with the same bits everywhere.

        Raises:
            PartnerLostError: another process is gone.
        """
        if self.count == 1:
            return
        with _partners_needed():
            for work in [torch.distributed.all_reduce(tensor, async_op=True) for tensor in tensors]:
                work.wait()

    def totals(self, values: Sequence[float], device: torch.device) -> list[float]:
        """Returns the sums of numbers over all processes."""
        if self.count == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        self.add_up([tensor])
        return [float(value) for value in tensor.tolist()]

    def follow_first(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replaces each tensor by that of the first process.

        Raises:
            PartnerLostError: another process is gone.
        """
        if self.count == 1:
            return
        with _partners_needed():
            for tensor in tensors:
                torch.distributed.broadcast(tensor, 0)

    def check_agree(self, facts: str, device: torch.device) -> None:
        """Checks that the facts are the same in all processes.

        Raises:
            StageError: the facts differ. A sum over different trainings is the gradient of none of them.
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
    """Turns an error of torch's sockets, which may print addresses, into `PartnerLostError`."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise PartnerLostError from None


ALONE: Final = Ranks()
"""Ranks of a process that trains alone."""
