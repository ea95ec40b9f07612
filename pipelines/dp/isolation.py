"""Checks that each loss and gradient depends on its example alone, by running examples in different batches.

A graph shows the operations that a loss is differentiated through. It does not show a mean that was detached, a count
of tokens, a Python number, a decision, or the work of a collate function. So the whole path from records to losses runs
several times before the first step, on small batches that share some records and differ in the others, or hold the same
records at other places (`pipelines.dp.compositions`). The losses of the shared records, the norms of their gradients
and the projections of their gradients on a random direction must be the same. Places matter because they are as private
as the records before them: under Poisson sampling one record more moves all that follow.

Later the comparison is repeated at random steps, which are public (`pipelines.dp.sampling.next_check`), on a batch as
large as samples get and a part of it: a coupling may begin after the first step, or in larger batches only.

During a comparison, dropout is off and random numbers start from the same states. Both are restored afterwards. These
batches enter no step.

The comparison cannot see: a coupling that begins after the last comparison, or ends before the next; records unlike
those that were compared; dropout that mixes examples; a state that the very first batch sets once, outside buffers and
parameters, and that stays; dependence below rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from pipelines.dp.compositions import Composition, compose, recompose
from pipelines.dp.errors import IsolationError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.observation import Observation
from pipelines.dp.random_states import RandomStates, random_states, random_states_digest, set_random_states

PROBE_SIZE: Final = 10
"""Most records in a batch that is compared. With 10 records, there are 10 batches."""

_MOST_RESTARTS: Final = 3

NOT_COMPARED: Final = (
    "whether the size or the padded length of a batch has a part in its losses could not be compared, because random "
    "numbers are drawn for whole batches: draw them in the data set, for each record by itself"
)

PLACES_NOT_COMPARED: Final = (
    "whether the place of an example in its batch has a part in its loss could not be compared, because random numbers "
    "are drawn for whole batches: draw them in the data set, for each record by itself"
)


LATER_NOT_COMPARED: Final = (
    "whether examples came to depend on each other after the first step could not be compared, because random numbers "
    "are drawn for whole batches: draw them in the data set, for each record by itself"
)


class IsolationProbe:
    """The comparison, batch by batch: `begin`, run the model, `take` the losses, until `position` is None.

    A loop may stop between two batches, and continue later. After an error the comparison starts from the beginning.

    Args:
        engine: engine that is attached to the model.
        compositions: batches from `compose`, or from `recompose`.
        notes: descriptions of what could not be compared before.
        is_later: true if `recompose` made them, after the first step.

    Attributes:
        notes: descriptions of what could not be compared.
    """

    def __init__(
        self,
        engine: GradientEngine,
        compositions: Sequence[Composition],
        notes: tuple[str, ...] = (),
        *,
        is_later: bool = False,
    ) -> None:
        self._engine = engine
        self._is_later = is_later
        self._first_notes = notes
        self._compositions = compositions
        self._states, self._first_states = random_states(), random_states_digest()
        self._give_back: Callable[[], None] | None = None
        self._contents: dict[str, int] | None = None
        self._num_restarts = 0
        self._forget()

    def _forget(self) -> None:
        self._observed: list[Observation] = []
        self._drawn: list[bytes] = []
        self._noise = 0.0  # of gradients, in a batch that was repeated
        self.notes = self._first_notes

    @property
    def num_compared(self) -> int:
        """The number of batches taken."""
        return len(self._observed)

    @property
    def position(self) -> int | None:
        """The number of the next batch; None after the last."""
        return self.num_compared if self.num_compared < len(self._compositions) else None

    def begin(self) -> int:
        """Prepares the model for the next batch.

        Returns:
            The number of the batch: `position`, or 0 if the weights have changed in between, for example because a loop
            projects them onto a set after each step. Then all batches are compared again.

        Raises:
            IsolationError: the weights keep changing.
        """
        self._give_back = _made_repeatable(self._engine.model, self._states)
        self._engine.start(self.size(self.num_compared), compare_contents=True)
        if self.num_compared and self._engine.contents != self._contents:
            self._num_restarts += 1
            if self._num_restarts > _MOST_RESTARTS:
                raise IsolationError(
                    "weights or buffers change from batch to batch, though no step is taken: something other than "
                    "optimizer.step() trains the model, without noise. Take it out of the loop"
                )
            self._forget()
            self._engine.start(self.size(0), compare_contents=True)
        self._contents = self._engine.contents
        return self.num_compared

    def size(self, number: int) -> int:
        """Returns the number of records in the batch of that number."""
        return len(self._compositions[number].kept)

    def take(self, losses: torch.Tensor) -> Observation:
        """Compares the losses of the batch that was begun last with those of its reference.

        Args:
            losses: (B,) losses of the batch's records, in their order.

        Raises:
            IsolationError: the losses of the same records differ.
            LossError, UnsupportedLayerError: see `GradientEngine.backward`.
        """
        drawn = random_states_digest()
        try:
            observed = self._engine.observe(losses)
            self._observed.append(observed)
            self._drawn.append(drawn)
            self._compare(len(self._observed) - 1)
            if self.position is None and not self._is_later:
                self._engine.trace_next()  # the first batch of full size is traced too
        except BaseException:
            self._forget()
            raise
        finally:
            self.pause()
        return observed

    def pause(self) -> None:
        """Restores dropout and the random states from before the batch."""
        if self._give_back is not None:
            self._give_back()
            self._give_back = None

    def _compare(self, number: int) -> None:
        composition = self._compositions[number]
        if self._is_later:
            self._compare_later(number, composition)
            return
        if composition.reference is not None:
            self._compare_compositions(number, composition, composition.reference)
        if composition.elsewhere is not None:
            if composition.reference is None:
                self._check_dependence()  # losses that depend on places may depend on nothing else
            self._compare_places(number, composition, *composition.elsewhere)

    def _compare_compositions(self, number: int, composition: Composition, reference: int) -> None:
        before = self._compositions[reference]
        is_one_shape = composition.shape == before.shape
        count = min(len(composition.kept), len(before.kept))
        kept = torch.tensor(composition.kept[:count])
        observed, expected = self._observed[number].first(count), self._observed[reference].first(count)
        is_other, difference = _differ(observed, expected, is_one_shape, self._noise)
        is_repeated = all(composition.kept) and not composition.is_reshaped
        if is_repeated and self._rounds_at_random(observed, expected, difference):
            self._noise = difference
            return
        if not bool((is_other & kept).any()):
            return
        if is_repeated:
            raise IsolationError(
                "the same batch gave other losses or gradients a second time: something keeps state between batches, "
                "counts them (count optimizer.num_steps instead), or draws random numbers from a generator of its own "
                "(draw them in the data set, or from torch, numpy.random or random)"
            )
        if (self._drawn[number], composition.drawn) != (self._drawn[reference], before.drawn):
            if composition.is_reshaped:
                self.notes += (NOT_COMPARED,)
                return
            raise IsolationError(
                "examples cannot be compared, because the number of random numbers drawn depends on the other examples "
                "of the batch. Draw them in the data set, for each record by itself, or pad all records to one length"
            )
        raise IsolationError(
            "the loss or the gradient of an example changes with the other examples of its batch, so that clipping "
            "does not bound what one record does. Look for: normalisation over the batch (batch norm; a mean, a number "
            "of examples, of tokens or of padded positions that divides the losses), a collate function that mixes or "
            "cuts records, losses in another order than the records"
        )

    def _compare_places(self, number: int, composition: Composition, reference: int, places: tuple[int, ...]) -> None:
        observed, expected = self._observed[number], self._observed[reference].at(places)
        # The rounding of a matrix row depends on its place, as between batches of different shapes.
        if not bool(_differ(observed, expected, is_one_shape=False)[0].any()):
            return
        if composition.is_random or self._drawn[number] != self._first_states:
            self.notes += () if PLACES_NOT_COMPARED in self.notes else (PLACES_NOT_COMPARED,)
            return
        raise IsolationError(
            "the loss or the gradient of an example changes with its place in the batch. The places depend on "
            "the other records that were drawn, so one record more changes what many others add. Look for: weights, "
            "decisions or numbers by row (torch.arange(len(batch)), losses[::2], the first or the last row), in the "
            "loop, the model or the collate function"
        )

    def _compare_later(self, number: int, composition: Composition) -> None:
        if composition.elsewhere is None:
            return
        reference, places = composition.elsewhere
        observed, expected = self._observed[number], self._observed[reference].at(places)
        # Losses of trained models are small, but rounding is not. Only a record's clipped gradient matters.
        scale = max(float(observed.norms.max()), float(expected.norms.max()), self._engine.max_grad_norm)
        is_other = _gradients_differ(observed, expected) > max(2.0**-12, 16 * observed.roundoff) * scale
        if not bool((is_other & torch.tensor(composition.kept)).any()):
            return
        if composition.is_random or {self._drawn[number], self._drawn[reference]} != {self._first_states}:
            self.notes += () if LATER_NOT_COMPARED in self.notes else (LATER_NOT_COMPARED,)
            return
        raise IsolationError(
            "the gradient of an example changes with the other examples, the size or the order of its batch, which was "
            "not seen when training began; the steps since then may have been coupled too, so this training gives no "
            "guarantee. Look for what began since: a hook, a schedule, a switch after some steps or epochs, what "
            "happens in larger batches only. Then begin anew"
        )

    def _rounds_at_random(self, observed: Observation, expected: Observation, difference: float) -> bool:
        """Returns true if a repeated batch differs by rounding only, as on a device that adds in any order."""
        return torch.equal(observed.losses, expected.losses) and difference <= observed.roundoff / 4

    def _check_dependence(self) -> None:
        """Checks that other records gave other losses in some batch."""
        base = self._observed[0]
        content = self._compositions[0].content
        others = [at for at, c in enumerate(self._compositions) if c.reference == 0 and c.content != content]
        if not others or not bool(base.norms.any()):
            return
        if not any(bool(_differ(self._observed[at], base, True)[0].any()) for at in others):
            raise IsolationError(
                "the losses do not change with the records: they come from other data than the batch that was handed "
                "out. Compute them from the batch, or its records are not those that were sampled"
            )


def check_again(
    engine: GradientEngine,
    items: Sequence[Any],
    size: int,
    rng: np.random.Generator,
    collate: Callable[[list[Any]], Any],
    losses_of: Callable[[Any], torch.Tensor],
) -> tuple[str, ...]:
    """Compares examples of a batch of real size, between two steps.

    Args:
        engine: engine that is attached to the model.
        items: records of the batch, followed by others.
        size: records in the batch.
        rng: generator that chooses the kept records; its numbers enter no step.
        collate, losses_of: functions as for `check_isolation`, with the same results and errors.
    """
    return _compared(engine, recompose(items, size, collate, rng), losses_of, is_later=True)


def check_isolation(
    engine: GradientEngine,
    items: Sequence[Any],
    size: int,
    full_size: int,
    collate: Callable[[list[Any]], Any],
    losses_of: Callable[[Any], torch.Tensor],
) -> tuple[str, ...]:
    """Compares examples, with losses from a function that can be called at any time.

    Args:
        engine: engine that is attached to the model.
        items: records to choose from.
        size: records in a batch.
        full_size: number of records in the largest usual batches.
        collate: function that makes a batch of items.
        losses_of: function that returns the (B,) losses of a batch.

    Returns:
        Descriptions of what could not be compared.

    Raises:
        IsolationError: an example's loss or gradient depends on others.
        LossError, UnsupportedLayerError: see `GradientEngine.backward`.
    """
    compositions = compose(items, size, full_size, collate)
    return _compared(engine, compositions, losses_of)


def _compared(
    engine: GradientEngine,
    compositions: Sequence[Composition],
    losses_of: Callable[[Any], torch.Tensor],
    *,
    is_later: bool = False,
) -> tuple[str, ...]:
    probe = IsolationProbe(engine, compositions, is_later=is_later)
    try:
        while probe.position is not None:
            number = probe.begin()
            losses = losses_of(compositions[number].batch)
            engine.stop()
            probe.take(losses)
    finally:
        engine.stop()
        probe.pause()
    return probe.notes


def _differ(
    found: Observation, expected: Observation, is_one_shape: bool, noise: float = 0.0
) -> tuple[torch.Tensor, float]:
    """Returns (B,) bool, true if an example differs by more than rounding, and the largest relative difference.

    Batches of one shape do the same sums in the same order. The remaining difference comes from shapes inside the model
    that depend on values (measured: 1e-7 at most, bfloat16 included). Batches of other shapes round differently
    (measured: 2e-7 in float32, 2e-3 under bfloat16), and small numbers by as much as large ones. A loss that is small
    because its terms cancel rounds as they do, so the gradients' norms count as sizes of losses.
    """
    losses = torch.maximum(found.losses.abs(), expected.losses.abs())
    norms = torch.maximum(found.norms, expected.norms)
    is_double = found.roundoff < torch.finfo(torch.float32).eps
    if is_one_shape:
        tolerance = 2.0**-36 if is_double else 2.0**-17
    else:
        norms = norms.amax().expand_as(norms)
        losses = torch.maximum(losses.amax(), norms)
        tolerance = 2.0**-32 if is_double else max(2.0**-13, 4 * found.roundoff)
    gradients = _gradients_differ(found, expected)
    is_other = (found.losses - expected.losses).abs() > tolerance * losses
    is_other |= gradients > max(tolerance, 8 * noise) * norms
    return is_other, float((gradients / norms.clamp(min=torch.finfo(torch.float64).tiny)).max())


def _gradients_differ(found: Observation, expected: Observation) -> torch.Tensor:
    """Returns (B,) differences of gradients, in their norms or along the random direction."""
    return torch.maximum((found.norms - expected.norms).abs(), (found.projections - expected.projections).abs())


def _made_repeatable(model: torch.nn.Module, states: RandomStates) -> Callable[[], None]:
    """Sets the shared random numbers to ``states``, and every rate of dropout to 0.

    A rate is an attribute of a module that is a number and has "drop" in its name, as torch and transformers have it.

    Returns:
        A function that restores both.
    """
    stack = contextlib.ExitStack()
    stack.callback(set_random_states, random_states())
    set_random_states(states)
    for module in model.modules():
        for name, value in list(vars(module).items()):
            is_rate = "drop" in name or (name == "p" and isinstance(module, torch.nn.modules.dropout._DropoutNd))
            if is_rate and isinstance(value, float) and value > 0:
                stack.callback(setattr, module, name, value)
                setattr(module, name, 0.0)
    return stack.close
