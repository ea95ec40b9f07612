"""The privacy losses of a mechanism, computed by the library once for each mechanism."""

from __future__ import annotations

import functools
import sys


def remember_losses() -> None:
    """Where the library is imported: a scalar loop over 100,000 losses, for the same few mechanisms again and again."""
    if (losses := sys.modules.get("dp_accounting.pld.privacy_loss_distribution")) is not None:
        losses.from_gaussian_mechanism = functools.lru_cache(32)(losses.from_gaussian_mechanism)  # nobody changes it
