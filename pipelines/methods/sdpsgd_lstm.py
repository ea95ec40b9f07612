"""Selective-DPSGD (Shi et al. 2022, "Selective Differential Privacy for Language Modeling", Algorithm 1)."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from pipelines.methods.rule import THEOREM_SELECTIVE, MethodRule
from pipelines.methods.settings import PrivateSteps, PublicRate, Size
from pipelines.methods.spec import MethodSpec
from pipelines.methods.view import View


class SpanSettings(PublicRate, PrivateSteps):
    """Settings of `sdpsgd_lstm`."""

    PROTECTIONS: ClassVar[frozenset[str]] = PrivateSteps.PROTECTIONS | {"max_state_norm"}

    max_private_spans: Size = Field(
        2, ge=1, le=64, description="sdpsgd_lstm: private spans of a record; later ones join the last. Each costs."
    )
    max_state_norm: float = Field(
        0.1, gt=0, allow_inf_nan=False, description="sdpsgd_lstm: norm that each hidden or cell state is clipped to."
    )


SPEC: Final = MethodSpec(
    name="sdpsgd_lstm",
    module="pipelines.training.methods.sdpsgd_lstm",
    description="SGD on public and DP-SGD on private spans, states clipped and noised between them",
    without_noise="public tokens",
    with_noise="private tokens, and the states after them",
    source="Selective DP, Algorithm 1",
    no_people="hidden states get noise record by record, and sampling earns no credit there",
    settings=SpanSettings,
    view=View(nonprivate="none", private="original", marks_tokens=True),
    rules={
        None: MethodRule(
            claims=("dp", "selective", "selective_policy"),
            is_unnoised=True,
            theorem=THEOREM_SELECTIVE,
            requires={
                "states_noised": "it is not recorded that the states after a private span were clipped and noised "
                "for each record",
                "states_detached": "it is not recorded that those states were detached, so private gradients may flow "
                "into public updates without noise",
                "private_spans_capped": "it is not recorded that the private spans of a record were capped, so the "
                "number of queries about it has no bound",
                "queries_counted": "it is not recorded that every noised query of a sampled step (for each span a "
                "gradient and each state) is in the event",
                "samples_public": "it is not recorded that the event takes no credit for sampling, while public spans "
                "are trained on without noise and may show which records a step sampled",
            },
        )
    },
    notes=(
        "which tokens are private, and so how many private spans a record has and where, is public (selective privacy "
        "with the policies' finds as F); what the policies miss is trained on without noise",
        "where a record is longer than the context it is cut, so the lengths of its private spans are public there",
        "which records a step samples is public: epsilon takes no credit for sampling, because public spans are "
        "trained on without noise and may show who was sampled",
        "public and private pieces of a text are tokenised apart, with a vocabulary that saw public rows at most",
    ),
    shares_steps=False,  # its updates go from span to span through a record
    needs_lstm=True,
)
