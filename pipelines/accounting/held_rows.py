"""What claims suppose of the rows that the gate holds, which depend on what is masked anywhere.

A row is held because a string stands in it that is masked elsewhere. Masking one find by hand would take its string out
of the search, and rows that only it held would become public, without noise. So the neighbours of a secret mask *every*
occurrence of its string that the gate takes for equal, masked or not, and each row that this changes joins the group:
such rows are private in both worlds, as they hold a find, or a mask. What no group size pays for is supposed: that no
other string comes into the search, or goes out of it. ``tests/gate/test_gate_stability.py`` tries all small pairs.

Of an earlier release the ledger notes whether its gate was to hold rows (`ReleaseFacts.holds_rows`): a claim about all
releases rests on these assumptions wherever one of them does. It does not note how many rows were held: no assumption
and no figure depends on that number, and the number depends on the secrets.

Delta2 is measured on what the policies alone let pass, so that it gives no credit for held rows.
"""

from __future__ import annotations

from typing import Final

from pipelines.accounting.facts import CorpusFacts

_REPLACE: Final = ("dp_private_set", "selective_dp", "selective_dp_of_the_policy", "light_noise_estimate")
"""Claims whose neighbours replace a record, or values in it; all others compare a secret with a mask."""
_WHY: Final = (
    "the gate holds sentences in which a masked string stands unmasked: it keeps them private, and masks it there, so "
    "which these are depends on what is masked elsewhere (gate.on_hit = hold)"
)
_NONE: Final = "what the settings or a review name as no secret is none"


def about_held_rows(notion: str, corpus: CorpusFacts) -> list[str]:
    """The assumptions of a claim.

    Args:
        notion: what is claimed (`pipelines.accounting.claim_builder.Claim`).
        corpus: what preparation was told to do.
    """
    if not (corpus.holds_rows and (corpus.reads_redacted or corpus.has_public_rows)):
        return []
    if notion in _REPLACE:
        return [
            f"{_WHY}; the claim supposes that the same ones are held, for the same strings, in both worlds; {_NONE}"
        ]
    return [
        f"{_WHY}; where the gate searches for a secret's string, masking the secret by hand means masking every "
        "occurrence of that string, in whatever case, accents and groups of digits the gate takes for equal, masked or "
        "not, and every sentence that this changes counts towards the group",
        "no other string comes into the gate's search, or goes out of it, when a secret is masked by hand, and no "
        f"release takes a sentence for public that another one holds; {_NONE}",
    ]
