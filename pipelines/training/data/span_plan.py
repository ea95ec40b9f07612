"""Samples, queries and accounting of Selective-DPSGD, fixed before its first step.

Accounting. K Gaussian queries on the same record, each chosen in view of the ones before, are one Gaussian query with
noise_multiplier / sqrt(K) (Dong, Roth & Su 2022, Corollary 3.3). The same holds for the queries of several steps
together.

There is **no amplification by sampling**, unlike in the paper. A public span changes the weights without noise, so the
weights may show which records a step sampled, by their public tokens, and the sample then hides nothing. Since a secret
sample would bring nothing, samples are drawn beforehand from public randomness (each record on its own with probability
L/N, line 3). The number of steps in which a record takes part is then known exactly, and the largest is accounted for.

The paper's code starts its count of queries anew in every batch and treats the spans of one batch as independent
samples. For either reason its published epsilons are too small.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.events import Event, Gaussian, NoEvent, SelfComposed
from pipelines.dp.sampling import plan_private_steps, poisson_sample
from pipelines.errors import StageError
from pipelines.training.data.records import IntArray, Records
from pipelines.training.data.spans import spanned

_CHECKED_AT_ONCE: Final = 4_096


@dataclass(frozen=True, kw_only=True)
class SpanPlan:
    """Limits of what a run does to each record, fixed before it starts. All of it is public.

    Attributes:
        num_records: number of records N.
        sample_rate: probability L/N with which each record enters a step.
        steps_per_epoch, num_steps: number of steps.
        max_private_spans: largest number of private spans of a record.
        num_states: number of states that the model passes on after a span: 2 of an LSTM, 1 of a GRU.
        most_by_epoch: largest number of steps that any record is sampled in, as drawn, until the end of each epoch.
        seed: seed of the samples.
    """

    num_records: int
    sample_rate: float
    steps_per_epoch: int
    num_steps: int
    max_private_spans: int
    num_states: int
    most_by_epoch: tuple[int, ...]
    seed: int

    @property
    def queries_per_step(self) -> int:
        """Largest number K of noisy queries of a sampled record: for each private span a gradient and the states."""
        return (1 + self.num_states) * self.max_private_spans

    @property
    def num_epochs(self) -> int:
        """Expected number of passes over the records."""
        return len(self.most_by_epoch)

    @property
    def max_participations(self) -> int:
        """Largest number of steps that any record is sampled in, over the whole run."""
        return max(self.most_by_epoch, default=0)


def plan(
    num_records: int,
    expected_batch_size: int,
    epochs: int,
    max_private_spans: int,
    seed: int,
    *,
    num_states: int = 2,
) -> SpanPlan:
    """Draws the samples of the whole run, and finds the largest number of them that a record is in.

    Args:
        num_records: number of records N, the same in neighbouring corpora.
        expected_batch_size: expected number L of records in a step.
        epochs: expected number of times that each record is drawn.
        max_private_spans: limit of `spans.span_pairs`. Each further span costs a query, and one for each state.
        seed: public seed of the stage.
        num_states: see `SpanPlan`.
    """
    steps = plan_private_steps(num_records, expected_batch_size, epochs)
    drawn = SpanPlan(
        num_records=num_records,
        sample_rate=steps.sample_rate,
        steps_per_epoch=steps.steps_per_epoch,
        num_steps=steps.num_steps,
        max_private_spans=max_private_spans,
        num_states=num_states,
        most_by_epoch=(),
        seed=seed,
    )
    participations = np.zeros(num_records, dtype=np.int64)
    most = []
    for step in range(drawn.num_steps):
        participations[sample(drawn, step)] += 1
        if (step + 1) % drawn.steps_per_epoch == 0:
            most.append(int(participations.max(initial=0)))
    return replace(drawn, most_by_epoch=tuple(most))


def sample(plan: SpanPlan, step: int) -> IntArray:
    """Draws the records of a step (line 3). The same plan gives the same samples, so a resumed run keeps its count."""
    digest = hashlib.sha256(f"span sample/{plan.seed}/{step}".encode()).digest()
    rng = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "big")))
    return poisson_sample(plan.num_records, plan.sample_rate, rng)


def event(plan: SpanPlan, noise_multiplier: float, num_epochs: int | None = None) -> Event:
    """Returns the privacy event: queries of the record that is sampled most often, without amplification.

    Args:
        plan: plan of the samples.
        noise_multiplier: noise multiplier of each query.
        num_epochs: number of first epochs to count. None for the whole run.
    """
    count = max(plan.most_by_epoch[:num_epochs], default=0)
    if count == 0:
        return NoEvent()
    step = Gaussian(noise_multiplier=noise_multiplier / math.sqrt(plan.queries_per_step))
    return SelfComposed(count=count, event=step)


def calibrate(plan: SpanPlan, target_epsilon: float, target_delta: float) -> float:
    """Returns the least noise multiplier of a query with which `event` meets the target (replace one record)."""
    joint = calibrate_noise_multiplier(
        target_epsilon=target_epsilon, target_delta=target_delta, sample_rate=1.0, num_steps=plan.max_participations
    )
    return joint * math.sqrt(plan.queries_per_step)


def check_queries(num_queries: IntArray, records: Records, plan: SpanPlan) -> None:
    """Compares the counted queries with those that samples and spans imply, and both with those that are accounted for.

    Args:
        num_queries: (N,) number of noisy queries that each record took part in, over the whole run.
        records: records of the run.
        plan: plan of the samples.

    Raises:
        StageError: the counts differ, or a record took part in more than K queries times ``plan.max_participations``.
    """
    participations = np.zeros(plan.num_records, dtype=np.int64)
    for step in range(plan.num_steps):
        participations[sample(plan, step)] += 1
    expected = np.zeros_like(participations)
    for start in range(0, plan.num_records, _CHECKED_AT_ONCE):
        rows = np.arange(start, min(start + _CHECKED_AT_ONCE, plan.num_records))
        for record in spanned(records, rows, plan.max_private_spans):
            num_private = sum(pair.private_start < pair.stop for pair in record.pairs)
            num_followed = sum(pair.private_start < pair.stop for pair in record.pairs[:-1])
            expected[record.row] = participations[record.row] * (num_private + plan.num_states * num_followed)
    accounted = plan.queries_per_step * plan.max_participations
    most = int(num_queries.max(initial=0))
    if not np.array_equal(num_queries, expected) or int(expected.max(initial=0)) > accounted:
        raise StageError(
            f"training counted {int(num_queries.sum())} noisy queries, {most} of one record. "
            f"Its samples imply {int(expected.sum())}, and {accounted} of one record are accounted for. Nothing is "
            "published. Run train again"
        )
