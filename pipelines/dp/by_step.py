"""A view of the private loader for loops that count items: one item for each noisy step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class StepLoader:
    """A view of a private loader with one item for each noisy step, for loops that count what a loader gives.

    An item has the physical batches of the step, none if its sample is empty, and the first and some later ones also
    batches that are only compared::

        for sample in loader.by_step():
            for batch in sample:
                optimizer.backward(losses(model, batch))
            optimizer.step()

    Its length is public: ``steps_per_epoch``. A pass that begins within an epoch has fewer items.

    Args:
        steps: function that yields the batches of each step of a pass.
        num_items: number of items of an epoch.
        items_per_step: number of items for each step.
        dataset: data set of the private loader.
    """

    def __init__(
        self, steps: Callable[[], Iterator[Iterator[Any]]], num_items: int, items_per_step: int, dataset: Any
    ) -> None:
        self._steps = steps
        self._num_items = num_items
        self._items_per_step = items_per_step
        self.dataset = dataset

    def __len__(self) -> int:
        """Returns the number of items of an epoch."""
        return self._num_items

    def __iter__(self) -> Iterator[Sample]:
        """Yields the items of one epoch, or of what is left of it.

        Raises:
            PrivacyGateError: a batch was left out, ``step()`` was not called once, or a reason of the private loader.
        """
        for batches in self._steps():
            for _ in range(self._items_per_step):
                yield Sample(batches)


class Sample:
    """The physical batches of a noisy step. Each comes once."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches

    def __contains__(self, item: Any) -> bool:
        """Returns False, and takes no batch: trainers look for keys of a batch."""
        return False
