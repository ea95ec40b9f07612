"""CRT: confidentially redacted training (Zhao, Li & Wang 2022, Algorithm 1, lines 5 to 8).

    for each epoch:
        for each minibatch of public rows:                     (line 6)
            AdamW on the mean loss
        for each step of an expected epoch of private rows:    (line 7)
            DP-AdamW on a Poisson sample of redacted records

A minibatch is wholly public or wholly private (appendix A.5, item 6).
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
    public = settings.nonprivate_pass(len(corpus.nonprivate_examples))
    private = Segment(kind="private", num_steps=plan.steps_per_epoch, ends_epoch=True)
    return LoopTraining(
        nonprivate_examples=corpus.nonprivate_examples,
        private_examples=corpus.private_examples,
        programme=[public, private] * settings.epochs,
        plan=plan,
        settings=settings,
        owners=owners,
    )
