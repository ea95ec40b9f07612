"""Redaction schedule: from redacted to original text in one run (Kabra & Elenberg 2023, "Domain Private Transformers").

Section 5.2 and appendix D: at every step t of M, with probability p(t) a step of AdamW on *redacted* text, otherwise a
step of DP-AdamW on the *original* text; p falls from 1 towards 0. JFT is the schedule that is 1 first and 0 then.

The schedule is drawn up front and never again, from public randomness of its own:
    * the exact number of private steps is then known before the noise is calibrated, and neither the expected number
      nor the worst case has to stand in for it;
    * nothing that training saw can change what is still to come, and nobody can draw until a cheap schedule comes out
      after having looked at a model;
    * the private steps keep their own unpredictable samples and noise (`pipelines.training.randomness`).

Public: kind, number of steps, scale, seed, and so the whole schedule. Non-public: the records of either kind of step.
A redacted step adds no noise: what it learns of a record is what redaction left of it, and it goes through the records
in an order that must not depend on what was redacted.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from pipelines.accounting.events import Event, dp_sgd
from pipelines.errors import ConfigError

Kind = Literal["step", "linear", "expconcave", "expconvex"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
PRECONDITIONS: Final = ("schedule_drawn_up_front",)
"""What this module sees to, by the names under which claims ask for it (`pipelines.accounting.methods`)."""


def redaction_probability(kind: Kind, step: int, num_steps: int, scale: float = 1.0) -> float:
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


def expected_private_steps(kind: Kind, num_steps: int, scale: float = 1.0) -> float:
    """The mean number of private steps over all draws; for people who choose a kind, never for accounting."""
    return num_steps - math.fsum(redaction_probability(kind, t, num_steps, scale) for t in range(num_steps))


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

    def private_steps_before(self, step: int) -> int:
        """Private steps among the first ``step``: where a resumed run stands."""
        return int((~self.is_redacted[:step]).sum())


def draw_schedule(kind: Kind, num_steps: int, scale: float, seed: int) -> Schedule:
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


def event(schedule: Schedule, sample_rate: float, noise_multiplier: float | None) -> Event:
    """What the accountant has to know: the private steps that were drawn, no more and no fewer.

    In fixed-noise mode the noise is given and the epsilon follows from this event; in target mode the noise was
    calibrated for ``schedule.num_private_steps``. A schedule without private steps never touches original text.

    Args:
        schedule: as drawn.
        sample_rate: probability with which each record enters a private step.
        noise_multiplier: noise deviation over the clipping norm; None only where there is no private step.

    Raises:
        ConfigError: private steps without a noise multiplier.
    """
    if schedule.num_private_steps and noise_multiplier is None:
        raise ConfigError(
            f"the schedule has {schedule.num_private_steps} private steps, so a noise multiplier is needed"
        )
    return dp_sgd(
        noise_multiplier=noise_multiplier or 0.0, sample_rate=sample_rate, num_steps=schedule.num_private_steps
    )


def follow(
    schedule: Schedule,
    *,
    redacted_step: Callable[[int], None],
    private_step: Callable[[int], None],
    after: Callable[[int], None],
    start: int = 0,
) -> None:
    """The training loop of section 5.2: walks the schedule, never redraws it.

    Args:
        schedule: as drawn.
        redacted_step: AdamW on a minibatch of redacted records; told how many redacted steps came before.
        private_step: DP-AdamW on a Poisson sample of original records; told how many private steps came before.
        after: told the number of steps done, after each: for checkpoints and progress.
        start: steps that an interrupted run had done when its checkpoint was saved.
    """
    private = schedule.private_steps_before(start)
    for t in range(start, schedule.num_steps):
        if schedule.is_redacted[t]:
            redacted_step(t - private)
        else:
            private_step(private)
            private += 1
        after(t + 1)
