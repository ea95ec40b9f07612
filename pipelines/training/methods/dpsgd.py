"""DP-SGD on everything (Abadi et al. 2016, Algorithm 1; Li et al. 2022 for language models).

The update is AdamW's, or with ``optimizer = "sgd"`` that of Algorithm 1.

    for each step:
        draw each original record on its own with probability q
        clip each record's gradient to norm C, sum
        add N(0, (sigma C)^2), divide by the expected batch size
        AdamW, or SGD, on the result

The method uses no redaction: the guarantee covers every token of a record alike.
"""

from __future__ import annotations

from pipelines.dp.sampling import plan_private_steps
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.methods.base import LoopTraining, TrainingSettings
from pipelines.training.programme import Segment


def prepare(corpus: TrainingCorpus, settings: TrainingSettings) -> LoopTraining:
    """Plans the private steps of the whole run."""
    owners = corpus.owners
    number = len(corpus.private_examples) if owners is None else owners.count
    plan = plan_private_steps(number, settings.expected_batch_size, settings.epochs)
    epoch = Segment(kind="private", num_steps=plan.steps_per_epoch, ends_epoch=True)
    return LoopTraining(
        nonprivate_examples=corpus.nonprivate_examples,
        private_examples=corpus.private_examples,
        programme=[epoch] * settings.epochs,
        plan=plan,
        settings=settings,
        owners=owners,
    )
