"""Deliberate faults of trainings, for the audit's benchmark and its tests. A fault that patches nothing fails.

Each is put into the code that ships, for as long as a context lasts, and tells nothing to the game that is played.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from patched import patching

from pipelines import randomness
from pipelines.dp import clipping, gradients, noise, noisy_steps
from pipelines.dp.owners import OwnerSampler
from pipelines.dp.sampling import physical_batches, poisson_sample
from pipelines.training import loop
from pipelines.training.methods import sdpsgd_lstm

LOOP, SPANS = "loop", "spans"
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@contextmanager
def replaced(owner: Any, name: str, wrap: Wrap) -> Iterator[None]:
    """Puts ``wrap(original)`` in the place of ``owner.name``.

    Raises:
        AssertionError: at the end, if nothing called it.
    """
    with patching() as patch:
        patch(owner, name, wrap(getattr(owner, name)))
        yield


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: name of the fault in the table.
        patches: replacements by kind of training. A missing kind cannot have the fault.
        why_not: reason for a missing kind.
    """

    name: str
    patches: dict[str, list[tuple[Any, str, Wrap]]]
    why_not: str = ""

    @contextmanager
    def put_into(self, kind: str) -> Iterator[None]:
        """The code has the fault as long as this lasts."""
        with ExitStack() as stack:
            for owner, name, wrap in self.patches[kind]:
                stack.enter_context(replaced(owner, name, wrap))
            yield


_NOISE: Final[dict[str, Any]] = {LOOP: noisy_steps, SPANS: sdpsgd_lstm}


def _noise(name: str, wrap: Wrap) -> Fault:
    return Fault(name, {kind: [(owner, "add_noise", wrap)] for kind, owner in _NOISE.items()})


def noise_times(factor: float) -> Wrap:
    return lambda add: lambda sums, deviation, *rest: add(sums, factor * deviation, *rest)


def _same_each_time(add: Callable[..., None]) -> Callable[..., None]:
    return lambda sums, deviation, rng, *rest: add(sums, deviation, np.random.default_rng(0), *rest)


def noise_every(interval: int) -> Wrap:
    """Noise in one of so many calls, and none in the others."""

    def wrap(add: Callable[..., None]) -> Callable[..., None]:
        count = 0

        def sometimes(sums: Any, deviation: float, *rest: Any) -> None:
            nonlocal count
            count += 1
            add(sums, 0.0 if count % interval else deviation, *rest)

        return sometimes

    return wrap


def _one_tensor_only(add: Callable[..., None]) -> Callable[..., None]:
    """The embedding, which is first; in S-DPSGD, where each tensor has its own call, known by its shape."""

    def first(sums: Any, deviation: float, rng: np.random.Generator, *rest: Any) -> None:
        is_first = sums[0].dim() > 1 and sums[0].shape[1] == 1
        add(sums[:1], deviation if is_first else 0.0, rng, *rest)
        if len(sums) > 1:
            add(sums[1:], 0.0, rng, *rest)

    return first


def _inside(name: str, change: Callable[[torch.Tensor, float], torch.Tensor]) -> Fault:
    """Noise of the right size that is changed within each tensor."""

    def wrap(add: Callable[..., None]) -> Callable[..., None]:
        def changed(sums: Any, deviation: float, rng: np.random.Generator, divisor: float = 1.0) -> None:
            fresh = [torch.zeros_like(values) for values in sums]
            add(fresh, deviation, rng)
            for values, drawn in zip(sums, fresh, strict=True):
                values.add_(change(drawn.reshape(-1), deviation).view_as(values)).div_(divisor)

        return changed

    return _noise(name, wrap)


def _halves(drawn: torch.Tensor, _: float) -> torch.Tensor:
    half = len(drawn) // 2
    return torch.cat([drawn[:half], drawn[:half], drawn[2 * half :]])


def _neighbours(drawn: torch.Tensor, _: float) -> torch.Tensor:
    return drawn[::2].repeat_interleave(2)[: len(drawn)]


def _uniform(drawn: torch.Tensor, deviation: float) -> torch.Tensor:
    return (2 * torch.special.ndtr(drawn / deviation) - 1) * (math.sqrt(3) * deviation)


def _first_block(keystream: Callable[..., Any]) -> Callable[..., Any]:
    return lambda key, _: keystream(key, 0)


def _clipped_at(factor: float) -> Fault:
    def wrap(clip_factors: Callable[..., Any]) -> Callable[..., Any]:
        return lambda norms, max_grad_norm, *rest: clip_factors(norms, factor * max_grad_norm, *rest)

    where: list[tuple[Any, str, Wrap]] = [(clipping, "clip_factors", wrap)]
    return Fault(f"clipping at {factor:g} C", {LOOP: where, SPANS: where})


def one_microbatch_unclipped() -> Fault:
    """The first of each step, as where a hook is set after the first forward pass."""
    is_first = [True]

    def factors(clip_factors: Callable[..., Any]) -> Callable[..., Any]:
        def unclipped_once(norms: torch.Tensor, *rest: Any) -> torch.Tensor:
            found: torch.Tensor = torch.ones_like(norms) if is_first[0] else clip_factors(norms, *rest)
            is_first[0] = False
            return found

        return unclipped_once

    def noise(add: Callable[..., None]) -> Callable[..., None]:
        def ends_step(*arguments: Any) -> None:
            is_first[0] = True
            add(*arguments)

        return ends_step

    return Fault(
        "one microbatch unclipped",
        {k: [(clipping, "clip_factors", factors), (o, "add_noise", noise)] for k, o in _NOISE.items()},
    )


def _unclipped(name: str, part: str, *kinds: str, why_not: str = "") -> Fault:
    """A part of the model whose gradient enters the norm, and the sum as it is."""
    found: set[int] = set()

    def attached(start: Callable[..., None]) -> Callable[..., None]:
        def named(self: Any, model: torch.nn.Module, **rest: Any) -> None:
            found.update(id(p) for path, p in model.named_parameters() if part in path)
            start(self, model, **rest)

        return named

    def of(factors: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def ones(self: clipping.Factors, parameter: torch.nn.Parameter) -> torch.Tensor:
            one = factors(self, parameter)
            return torch.ones_like(one) if id(parameter) in found else one

        return ones

    where: list[tuple[Any, str, Wrap]] = [
        (gradients.GradientEngine, "__init__", attached), (clipping.Factors, "of", of),
    ]  # fmt: skip
    return Fault(name, dict.fromkeys(kinds, where), why_not)


def _shuffled(_: Callable[..., Any]) -> Callable[..., Any]:
    """A pass over shuffled records, cut to batches."""
    order = np.zeros(0, dtype=np.int64)

    def next_batch(num_records: int, sample_rate: float, rng: np.random.Generator) -> Any:
        nonlocal order
        if not len(order):
            order = rng.permutation(num_records)
        size = max(1, round(sample_rate * num_records))
        batch, order = np.sort(order[:size]), order[size:]
        return batch

    return next_batch


def _twice(poisson_sample: Callable[..., Any]) -> Callable[..., Any]:
    return lambda num_records, sample_rate, rng: poisson_sample(num_records, 2 * sample_rate, rng)


def _sample(name: str, wrap: Wrap) -> Fault:
    why = "its samples are public and drawn up front; they are counted, and no claim rests on their law"
    return Fault(name, {LOOP: [(loop, "poisson_sample", wrap)]}, why)


def _reused(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda step: np.random.default_rng([1, step])


def _as_it_is(values: torch.Tensor, _: float) -> torch.Tensor:
    return values


def of_engine(steps_per_epoch: int) -> tuple[Fault, ...]:
    """Faults for the game on the public engine (`pipelines.attacks.white_box`), of the kind `LOOP`."""
    unclipped: list[tuple[Any, str, Wrap]] = [
        (clipping, "clip_factors", lambda _: lambda norms, *_: torch.ones_like(norms)),
    ]  # fmt: skip
    return (
        Fault("no clipping", {LOOP: unclipped}),
        _noise("noise / 10", noise_times(0.1)),
        _noise("noise once an epoch", noise_every(steps_per_epoch)),
        one_microbatch_unclipped(),
    )


_REUSED: Final[list[tuple[Any, str, Wrap]]] = [(randomness, "unpredictable", _reused)]
CORRECT: Final = Fault("correct", {LOOP: [], SPANS: []})
FAULTS: Final = (
    _noise("no noise", noise_times(0.0)),
    _noise("noise × 0.9", noise_times(0.9)),
    _noise("noise × 2/3", noise_times(2 / 3)),
    _noise("the same noise each step", _same_each_time),
    _noise("noise once an epoch", noise_every(10)),
    _noise("noise on one tensor only", _one_tensor_only),
    Fault("the same noise in each block", {kind: [(noise, "keystream", _first_block)] for kind in _NOISE}),
    _inside("the second half of each tensor's noise repeats the first", _halves),
    _inside("each second coordinate's noise repeats its neighbour's", _neighbours),
    _inside("uniform noise of the right variance", _uniform),
    _clipped_at(1.25),
    _clipped_at(2.0),
    one_microbatch_unclipped(),
    _unclipped("the embedding unclipped", "embedding", LOOP, SPANS),
    _unclipped("the head unclipped", "head", LOOP, SPANS),
    _unclipped("LoRA weights unclipped", "lora", LOOP, why_not="its LSTM takes no LoRA"),
    _sample("a shuffle", _shuffled),
    _sample("twice the sampling rate", _twice),
    Fault("noise reused after a resume", {LOOP: _REUSED, SPANS: _REUSED}),
    Fault(
        "hidden states not clipped",
        {SPANS: [(sdpsgd_lstm, "clip_rows", lambda _: _as_it_is)]},
        "only S-DPSGD releases states",
    ),
)
"""Those that issue and docs ask for."""


def _all_records(_: Callable[..., Any]) -> Callable[..., Any]:
    """All records of a drawn person, each clipped alone, whatever ``records_each`` says."""

    def draw(self: OwnerSampler, sample_rate: float, rng: np.random.Generator) -> list[Any]:
        people = self._people[poisson_sample(len(self._people), sample_rate, rng)]
        return [self._order[self._borders[person] : self._borders[person + 1]] for person in people]

    return draw


def _each_clipped_alone(_: Callable[..., Any]) -> Callable[..., Any]:
    """The records that a drawn person brings, as if each were a person of its own."""

    def sums_of_people(self: Any, engine: Any, drawn: list[Any]) -> tuple[float, int]:
        loss_sum, rows = 0.0, np.concatenate([np.zeros(0, dtype=np.int64), *drawn])
        for part in physical_batches(rows, self.context.microbatch_size):
            with engine.recording(len(part)):
                losses = self._losses(part)
            loss_sum += float(engine.backward(losses).losses.sum())
        return loss_sum, len(rows)

    return sums_of_people


def _by_records(_: Callable[..., Any]) -> Callable[..., Any]:
    """Records are sampled, and the claim is that of people."""

    def draw(self: OwnerSampler, sample_rate: float, rng: np.random.Generator) -> list[Any]:
        order = self._order
        return [order[at : at + 1] for at in poisson_sample(len(order), sample_rate, rng)]

    return draw


def _oftener(draw: Callable[..., Any]) -> Callable[..., Any]:
    """A person is drawn as soon as one of sixteen draws hits, as if each record had one."""
    return lambda self, sample_rate, rng: draw(self, 1 - (1 - sample_rate) ** 16, rng)


OF_PEOPLE: Final = (
    Fault("all records of a drawn person", {LOOP: [(OwnerSampler, "draw", _all_records)]}),
    Fault("each record clipped alone", {LOOP: [(loop._LoopRun, "_sums_of_people", _each_clipped_alone)]}),
    Fault("records sampled in place of people", {LOOP: [(OwnerSampler, "draw", _by_records)]}),
    Fault("a person drawn once for each record", {LOOP: [(OwnerSampler, "draw", _oftener)]}),
)
"""Faults of trainings that sample people. The second one needs people who bring several records."""
