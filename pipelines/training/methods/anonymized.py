"""The masking baseline: redacted text as ordinary text (de-identify, then fine-tune, as people do without any theory).

    for each epoch:
        for each minibatch of redacted records, public and private rows alike:
            AdamW on the mean loss; <MASK> is a word like any other and is asked for

It differs from `redacted` in one thing: the model learns to write the mask. The papers' figures for masking baselines
are of this kind; leaving masks out of the loss is what makes redacted text useful (JFT, section 4.1).
"""

from __future__ import annotations

from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.methods.base import LoopTraining, TrainingSettings, without_noise


def prepare(corpus: TrainingCorpus, settings: TrainingSettings) -> LoopTraining:
    """Plans the training; its event is `NonPrivate` as soon as a private row is among the records."""
    return without_noise(corpus, settings)
