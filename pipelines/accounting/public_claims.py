"""What of a run's claims the public may see where their numbers were chosen by a measurement of the private text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.accounting.assumptions import NOISE_FROM_PRIVATE_TEXT

_NUMBERS = ("epsilon", "delta", "epsilon_unamplified", "together", "confidence", "mu")


def withheld(document: Mapping[str, Any]) -> dict[str, Any]:
    """The claims without a number: every one is refused, for its digits would tell of the private text.

    Args:
        document: as `pipelines.accounting.claims.build_claims` returns it.
    """
    claims = [
        {
            **claim,
            **dict.fromkeys(_NUMBERS),
            "is_guarantee": False,
            "not_guaranteed_because": [],
            "as_in_paper": {},
            "refused": f"not stated here: {NOISE_FROM_PRIVATE_TEXT}",
        }
        for claim in document["claims"]
    ]
    return {**document, "claims": claims, "headline": None, "accountants": [], "together": None, "warnings": []}
