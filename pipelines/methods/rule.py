"""Which claims a training method can make, and what must be recorded as met for them.

A precondition is met only if ``events.json`` says so: ``"preconditions": {"states_detached": true}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

ClaimName = Literal[
    "owner",
    "dp",
    "confidentiality",
    "caught",
    "masked",
    "group",
    "bayesian",
    "selective",
    "selective_policy",
    "light_noise",
]
Rows = Literal["redacted", "reviewed", "original"]
"""What a phase reads of the private records: redacted text, redacted text screened by people, or the original."""

THEOREM_JFT: Final = "JFT, Theorem 1"
THEOREM_SELECTIVE: Final = "Selective-DP, Theorem 2"
UNNOISED: Final[tuple[ClaimName, ...]] = ("dp", "masked", "selective", "selective_policy")
"""What can be claimed where masked text is read without noise."""


@dataclass(frozen=True, kw_only=True)
class MethodRule:
    """The claims that a method can make, and what they need.

    Attributes:
        claims: names of the claims, in the order in which they are shown.
        rows: text that its only phase reads; None if ``events.json`` must list the phases.
        theorem: theorem that proves selective DP for the method.
        is_unnoised: flag that a part of the private records' text is read without noise, so that no DP can be claimed.
        reads_spans: flag that a record is cut into private spans, and others that are read without noise.
        has_public_set: flag that whole rows are trained on without noise because the conservative policy let them pass.
        requires: preconditions by name, each with the reason for a refusal if it is not recorded as met.
        plugins: the method's name, if another package offers the method; of several releases, all such names.
    """

    claims: tuple[ClaimName, ...]
    rows: Rows | None = None
    theorem: str = THEOREM_JFT
    is_unnoised: bool = False
    reads_spans: bool = False
    has_public_set: bool = False
    requires: Mapping[str, str] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()
