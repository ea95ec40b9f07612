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

from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.methods.base import LoopTraining, TrainingSettings, with_noise


def prepare(corpus: TrainingCorpus, settings: TrainingSettings) -> LoopTraining:
    """Plans the private steps of the whole run."""
    return with_noise(corpus, settings)
