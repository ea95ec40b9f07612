"""Masking baseline: redacted text as ordinary text (de-identify, then fine-tune, without any theory).

    for each epoch:
        for each minibatch of redacted records, public and private rows alike:
            AdamW on the mean loss; <MASK> is a word like any other and a target

It differs from `redacted` in one thing: the model learns to write the mask. The papers' figures for masking baselines
are of this kind. Redacted text becomes useful only if masks are left out of the loss (JFT, section 4.1).
"""

from __future__ import annotations

from pipelines.training.methods.base import without_noise

prepare = without_noise
"""Plans the training. Its event is `NonPrivate` if any record holds a private row."""
