"""The claim of text that a released model wrote: the model's claim, or none.

It follows by post-processing (Dwork and Roth 2014, Proposition 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

POST_PROCESSING: Final = (
    "the text was drawn from the released model, public settings and a public seed alone. What is computed from a "
    "release without another look at the private text has its epsilon and delta (post-processing)."
)
PUBLIC_SETTINGS: Final = (
    "the number of rows, the shares of domains, speakers and lengths, the decoding, the seed and the policies that "
    "drop rows were not chosen after counts of the private text or scores on it."
)
NOT_CHOSEN: Final = (
    "neither scores on private text nor what was found of the private text in the table (masked strings, replayed "
    "passages) influenced whether the table is given away, or which of several tables is. No row was taken out because "
    "of them."
)
NO_CLAIM: Final = "nothing bounds what the text reveals about the private text: the model has no claim"
NO_NOISE: Final = (
    "the model was trained without noise: nothing bounds what its text reveals about text that no policy masked. The "
    "claims about masked secrets alone are in the model's claims"
)
_OF_WHOLE: Final = ("statement", "is_guarantee", "unit")


def claim_of_text(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the claim of synthetic text.

    Args:
        document: public claims of the model (`pipelines.accounting.claims.build_claims`).

    Returns:
        ``notion``, ``statement``, ``theorem``, ``relation``, ``unit``, ``epsilon``, ``delta`` (of all releases on these
        files, or people, together), ``epsilon_this_model``, ``is_guarantee``, ``not_guaranteed_because``,
        ``assumptions``. If the model has no claim, all but the last three are None, and the reasons say why.
    """
    claim = None if document["headline"] is None else document["claims"][document["headline"]]
    # A claim about masked secrets alone has epsilon 0, because a model without noise reads none.
    if claim is None or (claim["epsilon_unamplified"] is None and claim["epsilon"] == 0):
        refused = [claim["refused"] for claim in document["claims"] if claim["refused"] is not None]
        reasons = [NO_CLAIM, *dict.fromkeys(refused)] if claim is None else [NO_NOISE]
        none = ("notion", "statement", "theorem", "relation", "unit", "epsilon", "delta", "epsilon_this_model")
        return {**dict.fromkeys(none), "is_guarantee": False, "not_guaranteed_because": reasons, "assumptions": []}
    whole = claim if claim["together"] is None else claim["together"]
    reasons = whole["not_guaranteed_because"]
    if claim["together"] is not None and whole["refused"] is not None:
        shared = "files or people" if claim["notion"] == "owner_dp" else "files"
        reasons = [f"of all releases on these {shared} together nothing is claimed: {whole['refused']}", *reasons]
    return {
        "notion": claim["notion"],
        "theorem": claim["theorem"],
        "relation": claim["relation"],
        **{name: whole[name] for name in _OF_WHOLE},
        "not_guaranteed_because": reasons,
        "epsilon": whole["epsilon"],
        "delta": whole["delta"],
        "epsilon_this_model": claim["epsilon"],
        "assumptions": [POST_PROCESSING, PUBLIC_SETTINGS, NOT_CHOSEN, *whole["assumptions"]],
    }
