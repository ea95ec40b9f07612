"""Views of the finished claims of a run: their public form, and the credit for redaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipelines.accounting.assumptions import NOISE_FROM_PRIVATE_TEXT

_NUMBERS = ("epsilon", "delta", "epsilon_unamplified", "together", "confidence", "mu")
CREDIT_NOTION: Final = "bayesian_confidentiality"
"""The only notion whose epsilon is smaller because of redaction for any secret of mu, not only for masked ones."""


def credit_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the figure with credit for redaction, for all releases that the claims are about.

    Args:
        document: claims from `pipelines.accounting.claims.build_claims`.

    Returns:
        ``epsilon`` and ``delta``, None if there is no credit, and ``reason``, which says why there is none.
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
    """Returns the claims refused and without numbers, if a measurement of private text chose the noise.

    Args:
        document: claims from `pipelines.accounting.claims.build_claims`.
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
    empty: dict[str, Any] = {"headline": None, "accountants": [], "together": None, "person": None, "warnings": []}
    return {**document, "claims": claims, **empty}
