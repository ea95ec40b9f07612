"""The state of a physical batch of a private step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.errors import PrivacyGateError


@dataclass
class Batch:
    """State of the physical batch that the loop is processing.

    Attributes:
        num_records: number of its records.
        rng: generator of its step; None for a batch that is only compared.
        is_last: true if a step follows it.
        is_begun: true if its losses were passed to ``backward``.
        is_added: true if its losses were accepted.
        is_stepped: true if ``step()`` was called after it.
    """

    num_records: int
    rng: np.random.Generator | None
    is_last: bool
    is_begun: bool = False
    is_added: bool = False
    is_stepped: bool = False

    def check_added(self) -> None:
        """Checks that the losses of the batch were accepted.

        Raises:
            PrivacyGateError: the losses were not accepted.
        """
        if not self.is_added:
            raise PrivacyGateError(
                "a batch was left out: call optimizer.backward(losses), with one loss for each record, for every "
                "batch, instead of losses.mean().backward() and before optimizer.step(). If a batch is skipped "
                "because of one record (for example, its loss is not finite), that record removes what the others add. "
                "If batches are read ahead (by list(loader), a prefetcher, or a trainer with "
                "gradient_accumulation_steps), read one at a time: write `for batch in loader`, or use "
                "reticent.dp.PrivateTrainer"
            )
