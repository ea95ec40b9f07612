"""Redaction schedule: from redacted to original text in one run (Kabra & Elenberg 2023, "Domain Private Transformers").

Section 5.2 and appendix D: at every step t of M, with probability p(t) a step of AdamW on *redacted* text, otherwise a
step of DP-AdamW on the *original* text; p falls from 1 towards 0. JFT is the schedule that is 1 first and 0 then.

The schedule is drawn up front and never again, from public randomness of its own:
    * the exact number of private steps is then known before the noise is calibrated, and neither the expected number
      nor the worst case has to stand in for it;
    * nothing that training saw can change what is still to come, and nobody can draw until a cheap schedule comes out
      after having looked at a model;
    * the private steps keep their own unpredictable samples and noise (`pipelines.randomness`).

Public: kind, number of steps, scale, seed, and so the whole schedule. Non-public: the records of either kind of step.
A redacted step adds no noise: what it learns of a record is what redaction left of it, and it goes through the records
in an order that must not depend on what was redacted.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from pipelines.accounting.events import Composed, Event, NoEvent, NonPrivate
from pipelines.dp.sampling import plan_private_steps
from pipelines.errors import ConfigError
from pipelines.methods.redaction_schedule import ScheduleSettings
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.loop import Segment
from pipelines.training.methods.base import Account, LoopTraining, TrainingSettings

ScheduleKind = Literal["step", "linear", "expconcave", "expconvex"]
KINDS: Final[tuple[ScheduleKind, ...]] = get_args(ScheduleKind)
PRECONDITIONS: Final = ("schedule_drawn_up_front",)
"""What this module sees to, by the names under which claims ask for it (`pipelines.methods`)."""


def redaction_probability(kind: str, step: int, num_steps: int, scale: float = 1.0) -> float:
    """p(t), the probability that a step is a redacted one without noise (appendix D, Figure 3).

    Args:
        kind: ``step`` falls in tenths, ``linear`` evenly, ``expconcave`` late, ``expconvex`` at once.
        step: t, from 0 to ``num_steps - 1``.
        num_steps: M.
        scale: s of the two exponential kinds; the others ignore it.

    Raises:
        ConfigError: an unknown kind, or a number out of range.
    """
    if not 0 <= step < num_steps:
        raise ConfigError(f"a redaction schedule of {num_steps} steps has no step {step}")
    if not (math.isfinite(scale) and scale > 0):
        raise ConfigError(f"the scale of a redaction schedule must be a finite number above 0, not {scale}")
    t, M, s = step, num_steps, scale
    match kind:
        case "step":
            return (10 * (M - t) // M) / 10  # in whole numbers: 10 * (1 - 8 / 10) is below 2
        case "linear":
            return (M - t) / M
        case "expconcave":
            return -math.expm1((s / M) * (t + 1 - M))
        case "expconvex":
            return math.exp(-s * t)
    raise ConfigError(f"no redaction schedule is named {kind!r}; choose one of {', '.join(KINDS)}")


@dataclass(frozen=True)
class Schedule:
    """A schedule that was drawn.

    Attributes:
        is_redacted: (M,) True where the step is AdamW on redacted text, False where it is DP-AdamW on original text.
    """

    is_redacted: npt.NDArray[np.bool_]

    @property
    def num_steps(self) -> int:
        """M, steps of either kind."""
        return len(self.is_redacted)

    @property
    def num_private_steps(self) -> int:
        """Steps on original text: what the noise is calibrated for, and what is accounted for."""
        return int((~self.is_redacted).sum())


def draw_schedule(kind: str, num_steps: int, scale: float, seed: int) -> Schedule:
    """Draws the kind of every step, before the first.

    The same arguments give the same schedule: a resumed run goes on with the one that it was calibrated for.

    Args:
        kind: which p(t).
        num_steps: M.
        scale: s.
        seed: the stage's seed; public. Its other uses (initial weights, order of records) draw other numbers.

    Raises:
        ConfigError: as `redaction_probability`, or no step at all.
    """
    if num_steps < 1:
        raise ConfigError(f"a redaction schedule needs at least one step, not {num_steps}")
    digest = hashlib.sha256(f"redaction schedule/{seed}".encode()).digest()
    rng = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "big")))
    chances = np.asarray([redaction_probability(kind, t, num_steps, scale) for t in range(num_steps)])
    return Schedule(rng.random(num_steps) < chances)  # random() < 1, so p = 1 always is a redacted step


def programme(schedule: Schedule, steps_per_epoch: int) -> list[Segment]:
    """The schedule as segments: runs of one kind of step, cut where an epoch ends.

    Args:
        schedule: as drawn; never redrawn.
        steps_per_epoch: steps of either kind after which the model is evaluated.
    """
    segments: list[Segment] = []
    start = 0
    for t in range(1, schedule.num_steps + 1):
        ends_epoch = t % steps_per_epoch == 0 or t == schedule.num_steps
        if ends_epoch or schedule.is_redacted[t] != schedule.is_redacted[start]:
            kind: Literal["nonprivate", "private"] = "plain" if schedule.is_redacted[start] else "noised"
            segments.append(Segment(kind=kind, num_steps=t - start, ends_epoch=ends_epoch))
            start = t
    return segments


def prepare(corpus: TrainingCorpus, settings: TrainingSettings) -> LoopTraining:
    """Draws the schedule for ``settings.epochs`` expected epochs of private steps, and plans the private ones drawn."""
    whole = plan_private_steps(len(corpus.private_examples), settings.expected_batch_size, settings.epochs)
    if whole.num_steps == 0:
        raise ConfigError("train: redaction_schedule needs original rows to train on, and there are none")
    own = settings.of(ScheduleSettings)
    drawn = draw_schedule(own.schedule, whole.num_steps, own.schedule_scale, settings.seed)
    redacted: Event = NonPrivate() if corpus.num_nonprivate_with_private_text else NoEvent()

    def describe(private: Event) -> Account:
        phases: tuple[tuple[str, str, Event], ...] = (("private steps", "original", private),)
        if drawn.num_private_steps < drawn.num_steps and corpus.num_nonprivate_with_private_text:
            phases = (("redacted steps", "redacted", redacted), *phases)
        return Account(
            event=Composed(events=tuple(event for _, _, event in phases)),
            phases=phases,
            preconditions=PRECONDITIONS,
        )

    return LoopTraining(
        nonprivate_examples=corpus.nonprivate_examples,
        private_examples=corpus.private_examples,
        programme=programme(drawn, whole.steps_per_epoch),
        plan=replace(whole, num_steps=drawn.num_private_steps),
        settings=settings,
        describe=describe,
    )
