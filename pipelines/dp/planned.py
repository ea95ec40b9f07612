"""The noisy steps that a target epsilon was planned for, and what to say if fewer of them are taken."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from pipelines.dp.records import repeats_records
from pipelines.dp.sampling import PrivatePlan, plan_private_steps
from pipelines.errors import ConfigError, InputError
from pipelines.numbers import real, upper_bound


class PlannedSteps:
    """The planned steps of a run, and the passes over the data in which they are to be taken.

    Args:
        num_steps: number of steps that the noise was chosen for.
        steps_per_epoch: number of steps of a whole pass.
        target_epsilon: epsilon of all steps.
        target_delta: delta of that epsilon.
    """

    def __init__(self, num_steps: int, steps_per_epoch: int, target_epsilon: float, target_delta: float) -> None:
        self.num_steps = num_steps
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self._steps_per_epoch = steps_per_epoch
        self._num_passes = 0
        self._num_said = 0
        self.resume(0)

    def resume(self, num_taken: int) -> None:
        """Begins after some steps, which an earlier run took."""
        self._passes_left = -(-(self.num_steps - num_taken) // self._steps_per_epoch)

    def end_pass(self) -> bool:
        """Notes that a pass has ended. Returns True if it was the last of the planned ones."""
        self._num_passes += 1
        return self._num_passes == self._passes_left

    def is_left(self, num_taken: int) -> bool:
        """Returns True if a pass was left before its end, or all planned passes are over, and steps are left."""
        is_cut = num_taken % self._steps_per_epoch > 0 or self._num_passes >= self._passes_left
        return self._num_passes > 0 and is_cut and 0 < num_taken < self.num_steps

    def is_unsaid(self, num_taken: int) -> bool:
        """Returns True if steps are left and `message` was not asked for at this number of them."""
        return 0 < num_taken < self.num_steps and num_taken != self._num_said

    def message(self, num_taken: int, epsilon: float) -> str:
        """Returns the warning.

        Args:
            num_taken: number of steps that were taken.
            epsilon: epsilon that they spent, at the target delta.
        """
        self._num_said = num_taken
        return (
            f"{num_taken} of the {self.num_steps} planned noisy steps were taken: epsilon {upper_bound(epsilon)} of "
            f"{self.target_epsilon:g} is spent (delta {real(self.target_delta)}). The noise was chosen for all of "
            "them. Run the loop over the loader to its end in each planned epoch, go on with engine.load_state_dict, "
            "or plan fewer epochs for less noise"
        )


def plan_of(loader: DataLoader[Any], epochs: int) -> PrivatePlan:
    """Fixes the rate and the number of steps for a loader.

    Args:
        loader: loader whose data set has records by number, and whose batch_size is the expected number in a step.
        epochs: expected number of passes over the records.

    Raises:
        ConfigError: the records cannot be sampled.
        InputError: the data set is empty.
    """
    if isinstance(loader.dataset, IterableDataset) or not hasattr(loader.dataset, "__len__"):
        raise ConfigError("Poisson sampling needs a data set with a length and records by number, not an iterable one")
    if loader.batch_size is None:
        raise ConfigError("give the data loader a batch_size: it is the expected number of records in a step")
    if not isinstance(loader.sampler, RandomSampler | SequentialSampler):
        raise ConfigError(
            "the data loader has a sampler of its own, which Poisson sampling replaces; leave the sampler out"
        )
    if repeats_records(loader.dataset):
        raise ConfigError(
            "the data set holds records under several numbers (a Subset with an index twice, a ConcatDataset whose "
            "parts share records): such a record enters a step several times. Take each record once; give rare ones a "
            "larger weight in the loss instead"
        )
    num_records = len(loader.dataset)
    if num_records == 0:
        raise InputError("the data set is empty: there is no record to train on")
    return plan_private_steps(num_records, loader.batch_size, epochs)
