"""Assumptions of claims about the rows that the gate holds, which depend on all masked strings.

A row is held because it contains a string that is masked elsewhere. If only one find were masked by hand, its string
would leave the search, and rows held only for it would become public, without noise. So the neighbours of a secret mask
*every* occurrence of its string that the gate takes for equal, masked or not. Each row that this changes joins the
group: it is private in both worlds, because it holds a find, or a mask. No group size covers other strings that enter
or leave the search, so claims assume that there are none. ``tests/gate/test_gate_stability.py`` tries all small pairs.

The ledger notes whether an earlier release's gate was set to hold rows (`ReleaseFacts.holds_rows`). A claim about all
releases rests on these assumptions if one of them does. The ledger does not note the number of held rows: no assumption
and no figure depends on it, and it depends on the secrets.

Delta2 is measured on what the policies alone accept, so it gives no credit for held rows.
"""

from __future__ import annotations

from typing import Final

from pipelines.accounting.facts import CorpusFacts

_REPLACE: Final = ("owner_dp", "dp_private_set", "selective_dp", "selective_dp_of_the_policy", "light_noise_estimate")
"""Claims whose neighbours replace a record, or values in it. All others compare a secret with a mask."""
_WHY: Final = (
    "the gate holds sentences in which a string stands unmasked that is masked elsewhere: they stay private, with the "
    "string masked (gate.on_hit = hold). So masks elsewhere decide which sentences it holds"
)
_NONE: Final = "strings that the settings or a review call no secret are indeed none"


def about_held_rows(notion: str, corpus: CorpusFacts) -> list[str]:
    """Returns the assumptions of a claim about held rows.

    Args:
        notion: notion of the claim (`pipelines.accounting.claim_builder.Claim`).
        corpus: facts of the preparation.
    """
    if not (corpus.holds_rows and (corpus.reads_redacted or corpus.has_public_rows)):
        return []
    if notion in _REPLACE:
        return [
            f"{_WHY}. The claim supposes that the same sentences are held, for the same strings, in both worlds, and "
            f"that {_NONE}"
        ]
    return [
        f"{_WHY}. If the gate searches for a secret's string, masking the secret by hand means masking every "
        "occurrence of that string, masked or not, also in another case, with other accents or groups of digits. "
        "Every sentence that this changes counts towards the group",
        "masking a secret by hand adds no other string to the gate's search and removes none, no release takes a "
        f"sentence for public that another one holds, and {_NONE}",
    ]
