"""What is read off the finished claims of a run: what the public may see of them, and what redaction is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipelines.accounting.assumptions import NOISE_FROM_PRIVATE_TEXT

_NUMBERS = ("epsilon", "delta", "epsilon_unamplified", "together", "confidence", "mu")
CREDIT_NOTION: Final = "bayesian_confidentiality"
"""The only notion whose epsilon is smaller because of redaction, for any secret of mu and not for masked ones only."""


def credit_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The figure with credit for redaction, for all releases that the claims are about.

    Args:
        document: as `pipelines.accounting.claims.build_claims` returns it.

    Returns:
        ``epsilon`` and ``delta``, None where no credit is given, and ``reason``: why not.
    """
    claim = next((c for c in document.get("claims", ()) if c["notion"] == CREDIT_NOTION), None)
    none = {"epsilon": None, "delta": None}
    if claim is None:
        return {**none, "reason": "the method reads the original text, or gives none"}
    whole = claim["together"] if claim["together"] is not None else claim
    if whole["refused"] is not None:
        return {**none, "reason": whole["refused"]}
    if not whole["is_guarantee"]:
        return {**none, "reason": "; ".join(whole["not_guaranteed_because"])}
    return {"epsilon": whole["epsilon"], "delta": whole["delta"], "reason": None}


def withheld(document: Mapping[str, Any]) -> dict[str, Any]:
    """The claims without a number, where a measurement of the private text chose their numbers: each is refused.

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
