"""Training on redacted text alone (JFT, section 5: the redacted model, which is phase 1 without phase 2).

    for each epoch:
        for each minibatch of redacted records, public and private rows alike:
            AdamW on the mean loss; <MASK> is an input and never a target

The model trains without noise on what redaction missed: redaction is the only protection. The model stays in the
private root.
"""

from __future__ import annotations

from pipelines.training.methods.base import without_noise

prepare = without_noise
"""Plans the training. Its event is `NonPrivate` if any record holds a private row."""
