"""What claims say of masked secrets: which cost nothing, and how many of the reviewed ones do not belong to them.

CRT, Proposition 5, gives epsilon 0 for a secret that the policy masks, because both worlds are then the same once
redacted. They are the same only if masking the secret by hand leaves all else as it was: its redaction is *stable*.
"""

from __future__ import annotations

from typing import Final

from pipelines.miss_rate.rates import Stability

NOT_MEASURED: Final = "how many masked secrets are not was not measured"
NOT_TOLD: Final = "how many masked secrets are not is counted on private text, and not told here"
TOGETHER: Final = "every set of them in one sentence was masked by hand together, and changed nothing else"
"""What claims for groups add where nothing is missed."""


def counted(stability: Stability | None) -> str:
    """How many caught secrets are not redacted stably, as the end of a sentence."""
    if stability is None or stability.num_caught == 0:
        return NOT_MEASURED
    return (
        f"{stability.num_unstable:,} of {stability.num_caught:,} caught secrets of the reviewed ones "
        f"{'was' if stability.num_unstable == 1 else 'were'} not, and count as missed"
    )


def epsilon_is(unstable: str, reads_any_original: bool) -> str:
    """For whom epsilon is less, as the end of "Epsilon is".

    Args:
        unstable: of how many masked secrets that is not so, in words.
        reads_any_original: whether a part of the training read original text, for which a mask is worth nothing.
    """
    less = "no more than that of the training on original text" if reads_any_original else "0"
    return (
        f"for a secret that the policy misses; it is {less} for a secret whose redaction is stable: the policy masks "
        f"it, and masking it by hand leaves all else as it was; {unstable}."
    )


def assumed(unstable: str) -> str:
    """When a masked secret costs nothing, as an assumption; ``unstable`` as in `epsilon_is`."""
    return (
        "training on redacted text costs nothing for a masked secret only if its redaction is stable: masking it by "
        f"hand leaves all else that is redacted as it was ({unstable}); if all copies of its sentence are changed "
        "together (copies after the first are masked whole); and if no other sentence of the corpus is what its "
        "sentence becomes when it is masked by hand, since deduplication would then mask one of the two whole. "
        "Otherwise it costs what it does for a missed secret"
    )


def elsewhere_refusal(stability: Stability | None) -> str | None:
    """Why nothing is promised where one secret changes several records; None where none was seen to."""
    if stability is None or not stability.num_elsewhere:
        return None
    return (
        f"{stability.num_elsewhere:,} of {stability.num_caught:,} reviewed secrets that are masked change what is "
        "masked in other sentences of their document, so one secret changes several records, and may move one to the "
        "public set; leave policies that look at whole documents (propagate) out of redact.policies"
    )


def misses_nothing(stability: Stability | None) -> bool:
    """Whether masked secrets are known to be stable in every combination; a census is for the caller to check."""
    return stability is not None and stability.num_unstable == 0 and stability.num_loose == 0
