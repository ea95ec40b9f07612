"""Processes that train one model together: each takes its share of the records, and what they find is added up.

They are those of torch's default process group, on one machine or several; without a group there is one. Where the
group is one machine's alone, `joined` says how its sums are added to those of other machines. A *rank* is the number of
a process, from 0, as ``torchrun`` counts them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import torch

from pipelines.errors import StageError

IntArray = npt.NDArray[np.int64]


class Across(Protocol):
    """Other machines, where torch's default group is this one's alone. The group's first process calls the methods.

    Attributes:
        first: the rank of the group's first process among all.
        count: processes on all machines.
    """

    @property
    def first(self) -> int: ...  # noqa: D102

    @property
    def count(self) -> int: ...  # noqa: D102

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Puts the sum over machines in the place of each tensor, the same bits everywhere."""

    def follow_first(self, tensors: Sequence[torch.Tensor]) -> None:
        """Puts what the first machine holds in the place of each tensor."""


_across: Across | None = None


@contextmanager
def joined(across: Across) -> Iterator[None]:
    """Torch's default group is one machine's of several, as long as this lasts."""
    global _across
    _across = across
    try:
        yield
    finally:
        _across = None


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together.

    Attributes:
        rank: its number.
        count: how many there are.
        across: the other machines, where torch's group is this one's alone.
    """

    rank: int = 0
    count: int = 1
    across: Across | None = field(default=None, repr=False, compare=False)

    @classmethod
    def here(cls) -> Ranks:
        """Those of torch's default group, and of other machines that it was joined with."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            rank, count = torch.distributed.get_rank(), torch.distributed.get_world_size()
            return cls(rank, count) if _across is None else cls(_across.first + rank, _across.count, _across)
        return cls()

    @property
    def is_first(self) -> bool:
        """Whether this is the one that draws the noise, evaluates, and writes."""
        return self.rank == 0

    def share(self, rows: IntArray) -> IntArray:
        """The part of ``rows`` that is this process's own. Every row is one process's own, by its place alone."""
        return rows[self.rank :: self.count]

    def add_up(self, tensors: Iterable[torch.Tensor]) -> None:
        """Puts the sum over all processes in the place of each tensor, the same bits everywhere."""
        if self.count == 1:
            return
        tensors = list(tensors)
        for work in [torch.distributed.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()
        if self.across is not None:
            if self.rank == self.across.first:
                self.across.add_up(tensors)
            _follow_first_of_group(tensors)

    def totals(self, values: Sequence[float], device: torch.device) -> list[float]:
        """The sums of numbers over all processes."""
        if self.count == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        self.add_up([tensor])
        return [float(value) for value in tensor.tolist()]

    def follow_first(self, tensors: Iterable[torch.Tensor]) -> None:
        """Puts what the first process holds in the place of each tensor."""
        if self.count == 1:
            return
        tensors = list(tensors)
        if self.across is not None and self.rank == self.across.first:
            self.across.follow_first(tensors)
        _follow_first_of_group(tensors)

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


def _follow_first_of_group(tensors: Iterable[torch.Tensor]) -> None:
    for tensor in tensors:
        torch.distributed.broadcast(tensor, 0)


ALONE: Final = Ranks()
"""One process that trains by itself."""
