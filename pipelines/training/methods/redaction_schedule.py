"""Redaction schedule: from redacted to original text in one run (Kabra & Elenberg 2023, "Domain Private Transformers").

Section 5.2 and appendix D: each step t of M is, with probability p(t), a step of AdamW on *redacted* text. Otherwise it
is a step of DP-AdamW on the *original* text. p falls towards 0. JFT is the schedule ``half``: first 1, then 0.

Text and code of the paper differ, and the kinds say which they follow:
    * ``half`` is the step schedule of appendix D: p = 1 for half of the steps, then p = 0.
    * ``step``, ``linear``, ``expconcave`` and ``expconvex`` are those of the authors' code (lm/trainer.py of
      github.com/asappresearch/domain-private-transformers). Its step schedule is a staircase of ten steps.
    * ``expconcave`` at scale 1 starts at p = 1 - exp(-1) = 0.63, and not at 1. A scale of 5 starts at 0.993.

The schedule is drawn once, before training, from its own public randomness:
    * The exact number of private steps is therefore known before the noise is calibrated. Neither the expected number
      nor the worst case has to replace it.
    * Nothing that training saw can change the steps that follow, and nobody can look at a model and then redraw until
      a cheap schedule appears.
    * The private steps keep their own unpredictable samples and noise (`pipelines.randomness`).

Public: kind, number of steps, scale, seed, and so the whole schedule. Non-public: the records of either kind of step.
A redacted step adds no noise: it learns what redaction left of a record. It reads the records in an order that must not
depend on what was redacted.
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
from pipelines.training.methods.base import Account, LoopTraining, TrainingSettings
from pipelines.training.programme import Segment, StepKind

ScheduleKind = Literal["step", "linear", "expconcave", "expconvex", "half"]
KINDS: Final[tuple[ScheduleKind, ...]] = get_args(ScheduleKind)
PRECONDITIONS: Final = ("schedule_drawn_up_front",)
"""Preconditions of claims that this module meets, by their names in `pipelines.methods`."""


def redaction_probability(kind: str, step: int, num_steps: int, scale: float = 1.0) -> float:
    """Returns p(t), the probability that a step is a redacted one without noise (appendix D, Figure 3).

    Args:
        kind: shape of p. ``step`` falls in tenths, ``linear`` evenly, ``expconcave`` late, ``expconvex`` at once.
            ``half`` is 1 for the first half of the steps (rounded down), then 0.
        step: step t, from 0 to ``num_steps - 1``.
        num_steps: number of steps M.
        scale: scale s of the two exponential kinds. The others ignore it.

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
        case "half":
            return float(t < M // 2)
    raise ConfigError(f"no redaction schedule is named {kind!r}. Choose one of {', '.join(KINDS)}")


@dataclass(frozen=True)
class Schedule:
    """A drawn schedule.

    Attributes:
        is_redacted: (M,) true for a step of AdamW on redacted text, false for a step of DP-AdamW on original text.
    """

    is_redacted: npt.NDArray[np.bool_]

    @property
    def num_steps(self) -> int:
        """Number of steps of both kinds, M."""
        return len(self.is_redacted)

    @property
    def num_private_steps(self) -> int:
        """Number of steps on original text. The noise is calibrated for these steps, and the accountant counts them."""
        return int((~self.is_redacted).sum())


def draw_schedule(kind: str, num_steps: int, scale: float, seed: int) -> Schedule:
    """Draws the kind of every step before the first step.

    The same arguments give the same schedule, so a resumed run keeps the schedule that its noise was calibrated for.

    Args:
        kind: shape of p(t).
        num_steps: number of steps M.
        scale: scale s.
        seed: public seed of the stage. Its other uses (initial weights, order of records) draw other numbers.

    Raises:
        ConfigError: there is no step, or `redaction_probability` refuses the arguments.
    """
    if num_steps < 1:
        raise ConfigError(f"a redaction schedule needs at least one step, not {num_steps}")
    digest = hashlib.sha256(f"redaction schedule/{seed}".encode()).digest()
    rng = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "big")))
    chances = np.asarray([redaction_probability(kind, t, num_steps, scale) for t in range(num_steps)])
    return Schedule(rng.random(num_steps) < chances)  # random() < 1, so p = 1 always is a redacted step


def programme(schedule: Schedule, steps_per_epoch: int) -> list[Segment]:
    """Returns the schedule as segments of one kind of step, cut at the end of each epoch.

    Args:
        schedule: schedule, never redrawn.
        steps_per_epoch: number of steps of both kinds after which the model is evaluated.
    """
    segments: list[Segment] = []
    start = 0
    for t in range(1, schedule.num_steps + 1):
        ends_epoch = t % steps_per_epoch == 0 or t == schedule.num_steps
        if ends_epoch or schedule.is_redacted[t] != schedule.is_redacted[start]:
            kind: StepKind = "nonprivate" if schedule.is_redacted[start] else "private"
            segments.append(Segment(kind=kind, num_steps=t - start, ends_epoch=ends_epoch))
            start = t
    return segments


def prepare(corpus: TrainingCorpus, settings: TrainingSettings) -> LoopTraining:
    """Draws a schedule for ``settings.epochs`` expected epochs of private steps, and plans its private steps."""
    whole = plan_private_steps(len(corpus.private_examples), settings.expected_batch_size, settings.epochs)
    if whole.num_steps == 0:
        raise ConfigError("train: redaction_schedule needs original rows to train on, and there are none")
    own = settings.of(ScheduleSettings)
    drawn = draw_schedule(own.schedule, whole.num_steps, own.schedule_scale, settings.seed)
    redacted: Event = NonPrivate() if corpus.num_private_without_noise else NoEvent()

    def describe(private: Event) -> Account:
        phases: tuple[tuple[str, str, Event], ...] = (("private steps", "original", private),)
        if drawn.num_private_steps < drawn.num_steps and corpus.num_private_without_noise:
            phases = (("redacted steps", "redacted", redacted), *phases)
        return Account(
            event=Composed(events=tuple(event for _, _, event in phases)), phases=phases, preconditions=PRECONDITIONS
        )

    return LoopTraining(
        nonprivate_examples=corpus.nonprivate_examples,
        private_examples=corpus.private_examples,
        programme=programme(drawn, whole.steps_per_epoch),
        plan=replace(whole, num_steps=drawn.num_private_steps),
        settings=settings,
        describe=describe,
    )
