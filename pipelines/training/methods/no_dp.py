"""No protection: AdamW on the original text. The upper end of utility, and the lower end of privacy.

    for each epoch:
        for each minibatch of original records:
            AdamW on the mean loss

The model stays in the private root.
"""

from __future__ import annotations

from pipelines.training.methods.base import without_noise

prepare = without_noise
"""Plans the training. Its event is `NonPrivate`."""
