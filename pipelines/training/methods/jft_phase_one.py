"""Phase 1 of JFT: the redacted fine-tune, by variant (Shi et al. 2022, sections 4.1 and 4.3).

    direct, manual_screening     AdamW on redacted text, without noise
    light_noise, conservative_…  DP-AdamW on redacted text

Light noise is chosen as in the paper: as if each record entered a step with probability p * m, because only missed
tokens need protection and m is their share. This is an estimate, not a bound: misses are drawn once, not anew in each
step, and almost every record holds one. If m was measured on this text, the noise also differs in a neighbouring world,
so nothing that follows from it is a guarantee (see ``train.jft_miss_rate_basis``). The record therefore holds the event
without that credit, at rate p. The guarantee stage shows the paper's figure beside it and takes credit for redaction
once, in the Bayesian form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.events import Event, NonPrivate
from pipelines.dp.sampling import plan_private_steps
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.methods.base import Account, LoopTraining, TrainingSettings, without_noise
from pipelines.training.programme import Segment


@dataclass(frozen=True, kw_only=True)
class LightNoise(LoopTraining):
    """DP-AdamW on redacted text, with noise for the sampling rate times the miss rate.

    Attributes:
        miss_rate: upper bound on the miss rate m.
    """

    miss_rate: float

    def calibrate(self, target_epsilon: float, target_delta: float) -> float:
        """Returns the noise multiplier of the paper's estimate, for rate p * m (JFT, section 4.3)."""
        rate = self.plan.sample_rate * self.miss_rate
        if rate == 0:
            return 0.0
        return calibrate_noise_multiplier(
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            sample_rate=rate,
            num_steps=self.plan.num_steps,
            relation="replace_one",
        )


def prepare_phase_one(
    corpus: TrainingCorpus, settings: TrainingSettings, epochs: int, miss_rate: Mapping[str, Any] | None
) -> LoopTraining:
    """Plans phase 1.

    Args:
        corpus: corpus whose nonprivate examples are redacted text, or the screened part of it.
        settings: settings of the run, with the variant.
        epochs: number of passes over the records.
        miss_rate: miss rate m with its upper bound, confidence and basis, for light noise. None for no noise.
    """
    settings = replace(settings, epochs=epochs)
    rows = "reviewed" if settings.variant == "manual_screening" else "redacted"
    if miss_rate is None:

        def describe_unnoised(_: Event) -> Account:
            met = ("reviewed_rows_only",) if rows == "reviewed" else ()
            return Account(
                event=NonPrivate(),
                variant=settings.variant,
                phases=(("redacted fine-tune", rows, NonPrivate()),),
                preconditions=met,
            )

        return replace(without_noise(corpus, settings), describe=describe_unnoised)

    def describe(event: Event) -> Account:
        return Account(
            event=event,
            variant=settings.variant,
            phases=(("redacted fine-tune", rows, event),),
            light_noise_miss_rate=dict(miss_rate),
        )

    plan = plan_private_steps(len(corpus.nonprivate_examples), settings.expected_batch_size, epochs)
    return LightNoise(
        nonprivate_examples=corpus.private_examples,
        private_examples=corpus.nonprivate_examples,
        programme=[Segment(kind="private", num_steps=plan.steps_per_epoch, ends_epoch=True)] * epochs,
        plan=plan,
        settings=settings,
        describe=describe,
        miss_rate=float(miss_rate["upper"]),
    )
