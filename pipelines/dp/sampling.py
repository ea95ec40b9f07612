"""Poisson sampling of the records of a step, and the cut of a sample into physical batches that fit into memory.

Public versus private: the rate and the number of steps derive from the number of private records. That number is equal
in neighbouring data sets if one record is *replaced* (design, section 5, "Shard"). Samples and their sizes are private.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from torch.utils.data import DataLoader

from pipelines.dp.by_step import StepLoader
from pipelines.dp.collating import Composing, Counting, Recomposing, check_count
from pipelines.dp.compositions import Composition, candidates, num_compositions
from pipelines.dp.errors import IsolationError
from pipelines.dp.random_states import kept_random_states
from pipelines.dp.ranks import ALONE, Ranks
from pipelines.errors import PrivacyGateError
from pipelines.randomness import PrivateRandomness

if TYPE_CHECKING:
    from pipelines.dp.optimizer import PrivateOptimizer

IntArray = npt.NDArray[np.int64]

_EMPTY: Final = object()
"""Stands for the batch of an empty sample."""

RECORDS_NOT_COMPARED: Final = (
    "whether the data set mixes records that are asked for at once could not be compared, because it gives another "
    "value for the same number each time"
)


@dataclass(frozen=True, kw_only=True)
class PrivatePlan:
    """The private steps of a run, fixed before it starts.

    Attributes:
        sample_rate: probability with which each record enters a step.
        expected_batch_size: number of records in an average step, ``sample_rate * num_records``. Divides the noisy sum.
        steps_per_epoch: number of steps that draw ``num_records`` records on average (CRT, footnote 2).
        num_steps: number of steps of the whole run.
    """

    sample_rate: float
    expected_batch_size: float
    steps_per_epoch: int
    num_steps: int

    def expected_share(self, ranks: Ranks) -> int:
        """Returns the number of records of one process in an average step, rounded."""
        return round(self.expected_batch_size / ranks.count)


def plan_private_steps(num_records: int, expected_batch_size: int, epochs: int) -> PrivatePlan:
    """Fixes the rate and the number of steps.

    Without records there are no steps. If there are fewer records than the batch, each step takes all of them.

    Args:
        num_records: number of records in the data set.
        expected_batch_size: number of records in an average step.
        epochs: expected number of passes over the records.
    """
    if num_records == 0:
        return PrivatePlan(sample_rate=0.0, expected_batch_size=0.0, steps_per_epoch=0, num_steps=0)
    rate = min(1.0, expected_batch_size / num_records)
    steps = max(1, round(1 / rate))
    return PrivatePlan(
        sample_rate=rate, expected_batch_size=rate * num_records, steps_per_epoch=steps, num_steps=steps * epochs
    )


def poisson_sample(num_records: int, sample_rate: float, rng: np.random.Generator) -> IntArray:
    """Draws the numbers of the records that enter a step, each independently with probability ``sample_rate``."""
    return np.flatnonzero(rng.random(num_records) < sample_rate)


def physical_batches(rows: IntArray, max_physical_batch_size: int | None) -> list[IntArray]:
    """Cuts a sample into as few, evenly filled parts as the limit allows. An empty sample has no part."""
    if not len(rows):
        return []
    count = 1 if max_physical_batch_size is None else -(-len(rows) // max_physical_batch_size)
    return np.array_split(rows, count)


def next_check(after: int, seed: int = 0) -> int:
    """Returns the next step before which examples are compared again, by public randomness.

    It is one of the steps 8 to 15, one of 16 to 31, one of 32 to 63, and one of each 64 that follow.
    """
    start, length = 0, 8
    while True:
        start, length = start + length, min(start + length, 64)
        if start + length > after + 1:
            found = start + int(np.random.default_rng([seed, start]).integers(length))
            if found > after:
                return found


def largest_batch(mean: float, num_records: int, limit: int | None) -> int:
    """Returns the number of records in the largest usual batch: samples of this mean are seldom larger."""
    return min(math.ceil(mean + 2.5 * math.sqrt(mean)), num_records, limit or num_records)


@dataclass(frozen=True)
class _Drawn:
    """Facts about a physical batch for the optimizer. A batch without records stands for an empty sample."""

    rng: np.random.Generator
    num_records: int
    is_last: bool


class PoissonLoader:
    """An epoch of Poisson samples, as physical batches for an ordinary training loop.

    A pass ends where the epoch ends: one that begins within an epoch, after a resume or because the last one was left,
    takes the steps that are left of it. The loader itself takes a step whose sample is empty, because there is no batch
    to yield: noise alone enters the step. After the last batch of a sample the optimizer takes its real step. Its steps
    after other batches do nothing.

    Before the first sample the loader yields some small batches that enter no step: the optimizer compares them
    (`pipelines.dp.isolation`). Before some later samples (`next_check`) it yields two more, as large as samples get.

    Formal guarantees: a sample holds each record of the data set, by its number there, independently with the plan's
    probability. The data set gives as many records as it is asked for. The optimizer knows their number.

    Args:
        loader: loader whose data set, collate function and workers are used.
        plan: rate and steps of an epoch.
        stepper: optimizer that is informed of every batch.
        randomness: generator of each step; it draws the sample first, then the noise.
        max_physical_batch_size: most records in a batch.
        ranks: processes that draw, each from its own share of the records.
        probe_size: number of records in a batch that is compared; 0: no comparison.
        after_pass: function called after each pass, also one that was left.

    Attributes:
        is_running: true while a pass is under way.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        plan: PrivatePlan,
        stepper: PrivateOptimizer,
        randomness: PrivateRandomness,
        *,
        max_physical_batch_size: int | None = None,
        ranks: Ranks = ALONE,
        probe_size: int = 0,
        after_pass: Callable[[], None] = lambda: None,
    ) -> None:
        self._after_pass = after_pass
        self.is_running = False
        self._plan = plan
        self._stepper = stepper
        self._randomness = randomness
        self._limit = max_physical_batch_size
        self._num_records = len(loader.dataset)  # type: ignore[arg-type]
        self._rows = ranks.share(np.arange(self._num_records))
        self._drawn: deque[_Drawn] = deque()
        self._probe_size = min(probe_size, len(self._rows), max_physical_batch_size or probe_size)
        usual = plan.expected_share(ranks)
        self._full_size = min(usual, max_physical_batch_size or usual)
        self._largest = largest_batch(plan.expected_batch_size / ranks.count, len(self._rows), max_physical_batch_size)
        self._compositions: list[Composition] = []
        self._next_check = 0
        self._epoch = 0
        self._outer = loader
        self._inner = self._like(_Batches(self), Counting(loader.collate_fn))
        self.dataset = loader.dataset
        self.batch_size = None

    def _like(self, batches: Any, collate: Callable[[Any], Any]) -> DataLoader[Any]:
        outer = self._outer
        return DataLoader(
            outer.dataset,
            batch_sampler=batches,
            collate_fn=collate,
            num_workers=outer.num_workers,
            pin_memory=outer.pin_memory,
            timeout=outer.timeout,
            worker_init_fn=outer.worker_init_fn,
            multiprocessing_context=outer.multiprocessing_context,
            prefetch_factor=outer.prefetch_factor,
        )

    @property
    def steps_per_epoch(self) -> int:
        """The number of noisy steps of an epoch: ``len(dataset) / batch_size``, rounded. Public."""
        return self._plan.steps_per_epoch

    def __len__(self) -> int:
        """Raises TypeError: the number of batches of an epoch is private, and a loop that relied on it could end early.

        ``tqdm(loader)`` works, without a total.
        """
        raise TypeError(
            "a private loader has no length: the number of batches of an epoch depends on the records that are drawn, "
            "which is private. For schedulers and averages write loader.steps_per_epoch, the number of noisy steps. "
            "For a loop that counts its items write loader.by_step(), and with transformers.Trainer "
            "reticent.dp.PrivateTrainer"
        )

    def by_step(self, items_per_step: int = 1) -> StepLoader:
        """Returns a view of this loader with one item for each noisy step, for loops that count items.

        Args:
            items_per_step: number of items for each step, for loops that call ``step()`` after so many items
                (gradient accumulation). The first of them that is read has all batches of the step.
        """
        return StepLoader(self._steps, self.steps_per_epoch * items_per_step, items_per_step, self.dataset)

    def draw(self) -> Iterator[list[int]]:
        """Yields the batches of an epoch, and queues the facts about each for the optimizer."""
        self._drawn.clear()
        first = self._stepper.num_steps
        for step in range(first, first + self._num_steps_left()):
            rng = self._randomness(step)
            rows = self._rows[poisson_sample(len(self._rows), self._plan.sample_rate, rng)]
            parts = physical_batches(rows, self._limit)
            if not parts:
                self._drawn.append(_Drawn(rng, 0, True))
            for number, part in enumerate(parts):
                self._drawn.append(_Drawn(rng, len(part), number == len(parts) - 1))
                yield part.tolist()

    def __iter__(self) -> Iterator[Any]:
        """Yields the physical batches of one epoch, or of what is left of it, after the batches to compare.

        Raises:
            PrivacyGateError: the data set has another length than at the start, or gives another number of records
                than it was asked for; two loops run over the loader at once.
            IsolationError: the data set gives other records where several are asked for at once, or the weights change
                while batches are compared.
            ConfigError: its ``__getitems__`` gives no list.
        """
        for batch, _ in self._one_pass():
            if batch is _EMPTY:
                self._stepper.step()
            else:
                yield batch

    def _steps(self) -> Iterator[Iterator[Any]]:
        """Yields the batches of each step of `__iter__`. After them the loop calls ``step()`` of the optimizer once.

        Raises:
            PrivacyGateError: batches of the step were left, ``step()`` was not called, or a reason of `__iter__`.
        """
        batches = self._one_pass()
        for _ in range(self._num_steps_left()):
            sample = self._one_step(batches)
            yield sample
            if next(sample, _EMPTY) is not _EMPTY:
                raise PrivacyGateError(
                    "a batch was left out: pass every batch of every item of loader.by_step() to optimizer.backward, "
                    "and then call optimizer.step() once. Items cannot be read ahead"
                )
        next(batches, None)

    def _one_step(self, batches: Iterator[tuple[Any, bool]]) -> Iterator[Any]:
        for batch, is_last in batches:
            if batch is not _EMPTY:
                yield batch
            if is_last:
                return
            self._stepper.step()

    def _num_steps_left(self) -> int:
        """Returns the number of steps of the next pass."""
        return self._plan.steps_per_epoch - self._stepper.num_steps % self._plan.steps_per_epoch

    def _one_pass(self) -> Iterator[tuple[Any, bool]]:
        """Yields each batch of a pass, and whether a step follows it; `_EMPTY` for an empty sample."""
        if len(self.dataset) != self._num_records:  # type: ignore[arg-type]
            raise PrivacyGateError(
                f"the data set had {self._num_records} records when it was made private, and has another length now. "
                "Rate, noise and divisor rest on that number: keep the data set as it is"
            )
        self._stepper.abandon()
        self._epoch += 1
        epoch = self._epoch
        self.is_running = True
        try:
            for batch, is_last in self._all_batches():
                yield batch, is_last
                if self._epoch != epoch:
                    raise PrivacyGateError("another loop over the private loader has begun; run one at a time")
                self._stepper.end_batch()
        finally:
            if self._epoch == epoch:
                self._stepper.abandon()
                self.is_running = False
                self._after_pass()

    def _all_batches(self) -> Iterator[tuple[Any, bool]]:
        if self._num_left_to_compare():
            if not self._compositions or not self._stepper.num_compared:  # also after an error
                self._compositions, notes = self._composed()
                self._stepper.start_probe(self._compositions, notes)
            while (number := self._stepper.begin_probe_batch()) is not None:
                yield self._compositions[number].batch, False
            self._compositions = []
            self._next_check = next_check(self._stepper.num_steps)
        is_first = True
        for num_items, batch in self._inner:
            yield from self._empty_samples()
            if is_first and self._compares_later() and self._stepper.num_steps >= self._next_check:
                yield from self._later_batches()
            drawn = self._drawn.popleft()
            is_first = drawn.is_last
            check_count(num_items, drawn.num_records)
            self._stepper.begin_batch(drawn.rng, is_last=drawn.is_last, num_records=drawn.num_records)
            yield batch, drawn.is_last
        yield from self._empty_samples()

    def _compares_later(self) -> bool:
        return self._probe_size > 0 and self._largest > 1

    def _later_batches(self) -> Iterator[tuple[Any, bool]]:
        """Yields a batch as large as samples get, and a part of it with other records. They enter no step."""
        step, size = self._stepper.num_steps, self._largest
        rng = np.random.default_rng([step, len(self._rows)])  # its numbers enter no step
        chosen = rng.permutation(self._rows)[: size + size // 4].tolist()
        with kept_random_states():  # a loader's iterator draws a seed
            ((num_items, compositions),) = self._like([chosen], Recomposing(self._outer.collate_fn, size, rng))
        check_count(num_items, len(chosen))
        self._stepper.start_probe(compositions, is_later=True)
        while (number := self._stepper.begin_probe_batch()) is not None:
            yield compositions[number].batch, False
        self._next_check = next_check(step)

    def _num_left_to_compare(self) -> int:
        return num_compositions(self._probe_size) - self._stepper.num_compared if self._probe_size else 0

    def _composed(self) -> tuple[list[Composition], tuple[str, ...]]:
        size = self._probe_size
        rows = candidates(self._rows, 2 * size)
        composing = Composing(self._outer.collate_fn, size, self._full_size, len(rows))
        # Reads all rows together, and some of them twice alone: a data set may mix records that are read together.
        alone = rows[: 2 * size : 3] if hasattr(self.dataset, "__getitems__") else []
        asked = [rows, *([row] for row in alone for _ in range(2))]
        with kept_random_states():  # a loader's iterator draws a seed
            (num_items, compositions, contents), *single = self._like(asked, composing)
        check_count(num_items, len(rows))
        notes: tuple[str, ...] = ()
        for at, row in enumerate(alone):
            (num_first, _, first), (num_second, _, second) = single[2 * at : 2 * at + 2]
            check_count(max(num_first, num_second), 1)
            if first != second:
                notes = (RECORDS_NOT_COMPARED,)
            elif first[0] != contents[rows.index(row)]:
                raise IsolationError(
                    "the data set gives other records if several are asked for at once: its __getitems__ looks at "
                    "them together (normalises, joins or sorts them). Let each record depend on its own number only"
                )
        return list(compositions), notes

    def _empty_samples(self) -> Iterator[tuple[Any, bool]]:
        while self._drawn and not self._drawn[0].num_records:
            self._stepper.begin_empty(self._drawn.popleft().rng)
            yield _EMPTY, True


class _Batches:
    """A batch sampler for ``torch.utils.data.DataLoader``."""

    def __init__(self, owner: PoissonLoader) -> None:
        self._owner = owner

    def __iter__(self) -> Iterator[list[int]]:
        return self._owner.draw()
