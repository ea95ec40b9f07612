"""Which claims each training method can make, and what must be recorded as met for them: one table.

Keys are ``method`` or ``method/variant`` of ``events.json``. A method that is not here gets the claim of differential
privacy, which rests on its event alone, and nothing else. A precondition is met only if ``events.json`` says so:
``"preconditions": {"states_detached": true}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

ClaimName = Literal[
    "dp", "confidentiality", "caught", "masked", "group", "bayesian", "selective", "selective_policy", "light_noise"
]
Rows = Literal["redacted", "reviewed", "original"]
"""What a phase reads of the private records: redacted text, redacted text screened by people, or the original."""

THEOREM_JFT: Final = "JFT, Theorem 1"
THEOREM_SELECTIVE: Final = "Selective-DP, Theorem 2"


@dataclass(frozen=True, kw_only=True)
class MethodRule:
    """What is known of a method.

    Attributes:
        claims: in the order in which they are shown.
        rows: what its only phase reads; None where ``events.json`` must list the phases.
        theorem: where selective DP is proved for it.
        is_unnoised: whether a part of the private records' text is read without noise, so that no DP can be claimed.
        reads_spans: whether a record is cut into private spans, and others that are read without noise.
        has_public_set: whether whole rows are trained on without noise because the conservative policy let them pass.
        requires: preconditions by name, each with the reason for a refusal where it is not recorded as met.
    """

    claims: tuple[ClaimName, ...]
    rows: Rows | None = None
    theorem: str = THEOREM_JFT
    is_unnoised: bool = False
    reads_spans: bool = False
    has_public_set: bool = False
    requires: Mapping[str, str] = field(default_factory=dict)


_UNNOISED: Final[tuple[ClaimName, ...]] = ("dp", "masked", "selective", "selective_policy")
_LIGHT: Final[tuple[ClaimName, ...]] = ("dp", "masked", "selective", "bayesian", "light_noise")

RULES: Final[Mapping[str, MethodRule]] = {
    "no_dp": MethodRule(claims=("dp", "confidentiality"), rows="original"),
    "redacted": MethodRule(claims=_UNNOISED, is_unnoised=True, rows="redacted"),
    "anonymized": MethodRule(claims=_UNNOISED, is_unnoised=True, rows="redacted"),
    "dpsgd": MethodRule(claims=("dp", "confidentiality", "group", "selective"), rows="original"),
    "crt": MethodRule(
        claims=("dp", "confidentiality", "caught", "group", "bayesian"), rows="redacted", has_public_set=True
    ),
    "jft/direct": MethodRule(claims=_UNNOISED, is_unnoised=True),
    "jft/manual_screening": MethodRule(
        claims=_UNNOISED,
        is_unnoised=True,
        requires={
            "reviewed_rows_only": "it is not recorded that phase 1 read only rows whose missed secrets people or gold "
            "labels had marked, and that these were drawn without looking at secrets",
        },
    ),
    "jft/light_noise": MethodRule(claims=_LIGHT),
    "jft/conservative_light_noise": MethodRule(claims=_LIGHT),
    "redaction_schedule": MethodRule(
        claims=_UNNOISED,
        is_unnoised=True,
        theorem=THEOREM_SELECTIVE,
        requires={
            "schedule_drawn_up_front": "it is not recorded that the schedule was drawn up front, from public "
            "randomness of its own, so which steps were private may itself tell something",
        },
    ),
    "sdpsgd_lstm": MethodRule(
        claims=("dp", "selective", "selective_policy"),
        is_unnoised=True,
        reads_spans=True,
        theorem=THEOREM_SELECTIVE,
        requires={
            "states_noised": "it is not recorded that hidden and cell states after a private span were clipped and "
            "noised for each record",
            "states_detached": "it is not recorded that those states were detached, so private gradients may flow "
            "into public updates without noise",
            "private_spans_capped": "it is not recorded that the private spans of a record were capped, so the "
            "number of queries about it has no bound",
            "queries_counted": "it is not recorded that every noised query of a sampled step (gradient, hidden state, "
            "cell state, for each span) is in the event",
            "samples_public": "it is not recorded that the event takes no credit for sampling, while public spans are "
            "trained on without noise and may show which records a step sampled",
        },
    ),
}


def rule_of(method: str, variant: str | None) -> MethodRule:
    """The rule of a method; differential privacy only, for one that is not in the table."""
    name = f"{method}/{variant}" if variant else method
    return RULES.get(name) or RULES.get(method) or MethodRule(claims=("dp",))
