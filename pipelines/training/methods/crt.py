"""CRT: confidentially redacted training (Zhao, Li & Wang 2022, Algorithm 1, lines 5 to 8).

    for each epoch:
        for each minibatch of public rows:                     (line 6)
            AdamW on the mean loss
        for each step of an expected epoch of private rows:    (line 7)
            DP-AdamW on a Poisson sample of redacted records

A minibatch is wholly public or wholly private (appendix A.5, item 6).
"""

from __future__ import annotations

from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.methods.base import LoopTraining, TrainingSettings, with_noise


def prepare(corpus: TrainingCorpus, settings: TrainingSettings) -> LoopTraining:
    """Plans the private steps of the whole run."""
    return with_noise(corpus, settings, settings.nonprivate_pass(len(corpus.nonprivate_examples)))
