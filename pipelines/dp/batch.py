"""A physical batch of a private step, and what has been done with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.errors import PrivacyGateError


@dataclass
class Batch:
    """State of the physical batch that the loop is at work on.

    Attributes:
        num_records: records in it.
        rng: of its step; None for a batch that is compared only.
        is_last: whether a step is due after it.
        is_begun: whether its losses were handed over.
        is_added: whether they were accepted.
        is_stepped: whether ``step()`` was called after it.
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
            PrivacyGateError: they were not.
        """
        if not self.is_added:
            raise PrivacyGateError(
                "a batch was left out: call optimizer.backward(losses), with one loss for each record, for every "
                "batch, in place of losses.mean().backward() and before optimizer.step(). If a batch is skipped "
                "because of one record (a loss that is not finite, for one), that record takes away what the others do"
            )
