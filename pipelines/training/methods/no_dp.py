"""No protection: AdamW on the original text. The upper end of utility, and the lower end of privacy.

    for each epoch:
        for each minibatch of original records:
            AdamW on the mean loss

The model stays in the private root.
"""

from __future__ import annotations

from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.methods.base import LoopTraining, TrainingSettings, without_noise


def prepare(corpus: TrainingCorpus, settings: TrainingSettings) -> LoopTraining:
    """Plans the training. Its event is `NonPrivate`."""
    return without_noise(corpus, settings)
