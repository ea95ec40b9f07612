"""What redaction is worth, as claims decide it: the ledger asks here and computes nothing itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pipelines.accounting.ledger import Release

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


def releases_digest(releases: Iterable[Release]) -> str:
    """Identifies a set of releases, whatever their order."""
    return hashlib.sha256("\n".join(sorted(r.release_id for r in releases)).encode()).hexdigest()[:16]
