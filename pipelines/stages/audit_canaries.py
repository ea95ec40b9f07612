"""Audit, canaries: exposure (Carlini et al. 2019; Selective DP, section 5.1; CRT, section 5.1), and a score of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pipelines.context import StageContext
from pipelines.stages.audit_config import AuditConfig
from pipelines.tables import schema

if TYPE_CHECKING:
    import numpy as np

    from pipelines.attacks.canaries import Canary
    from pipelines.attacks.candidates import Scorer
    from pipelines.attacks.exposure import Exposure

EXPOSURES: Final = schema(
    "exposures",
    "canary_id: string, variant: string, is_included: bool, loss: float64, loss_released: float64, exposure: float64, "
    "exposure_normalised: float64, exposure_released: float64",
)
"""Of each canary on the audit's model and on the released one, which saw none: losses in nats, exposures in bits."""


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``exposures.parquet``, and ``exposure.json`` with what they say together. Private."""
    import numpy as np

    from pipelines.attacks.candidates import CandidateScorer, NormalisedScorer, canary_losses
    from pipelines.stages.audit_canary_table import VARIANTS, pattern_of, read_canaries
    from pipelines.stages.audit_opening import open_audited, reason_not_to_open

    config: AuditConfig = ctx.configs["audit"]
    pattern = pattern_of(ctx)
    canaries, coins = read_canaries(ctx.input("audit_model"), pattern)
    with ctx.out.table(EXPOSURES) as writer:
        if (reason := reason_not_to_open(ctx)) is not None:
            ctx.out.json("exposure.json", {"not_attacked": reason})
            return {}
        rng = np.random.default_rng(ctx.seed)
        models = [open_audited(ctx, name) for name in ("audit_model", "train")]
        groups: list[dict[str, Any]] = []
        for variant in VARIANTS:
            ctx.run.progress(0, None, f"ranking canaries ({variant})")
            own = [canary for canary in canaries if canary.variant == variant]
            marks = variant == "detected"
            scorers = [CandidateScorer(model, pattern, marks_holes=marks and _marks(ctx)) for model in models]
            normalised = NormalisedScorer(*scorers)
            losses, released = (canary_losses(scorer, own) for scorer in scorers)
            found = {
                name: exposures(scorer, own, config.candidates, rng)
                for name, scorer in (("model", scorers[0]), ("normalised", normalised), ("released", scorers[1]))
            }
            for canary in sorted(own, key=lambda canary: canary.id):
                writer.append(
                    canary_id=canary.id,
                    variant=variant,
                    is_included=coins[canary.id],
                    loss=losses[canary.id],
                    loss_released=released[canary.id],
                    exposure=found["model"][canary.id].bits,
                    exposure_normalised=found["normalised"][canary.id].bits,
                    exposure_released=found["released"][canary.id].bits,
                )
            groups += summaries(variant, found, coins, rng)
    is_exhaustive = _is_exhaustive(pattern.size, config.candidates)
    num = pattern.size if is_exhaustive else config.candidates
    document = {
        "form": config.canary_form,
        "num_candidates": num,
        "is_exhaustive": is_exhaustive,
        "ceiling": math.log2(num),
        "copies": max((canary.num_copies for canary in canaries), default=1),
        "groups": groups,
    }
    ctx.out.json("exposure.json", document)
    return {"num_canaries": len(canaries), "num_candidates": num}


def exposures(
    scorer: Scorer, canaries: Sequence[Canary], candidates: int, rng: np.random.Generator
) -> dict[str, Exposure]:
    """The exposure of each canary, among all candidates or among drawn ones.

    Args:
        scorer: of the canaries' form.
        canaries: of one form.
        candidates: how many to draw; 0, or as many as there are, takes all.
        rng: draws them.
    """
    from pipelines.attacks.candidates import canary_losses, enumerated_ranks, sampled_losses
    from pipelines.attacks.exposure import exposure_of, sampled_exposure

    size = scorer.pattern.size
    if _is_exhaustive(size, candidates):
        return {name: exposure_of(rank) for name, rank in enumerated_ranks(scorer, canaries).items()}
    sampled = sampled_losses(scorer, candidates, rng)
    return {name: sampled_exposure(loss, sampled, size) for name, loss in canary_losses(scorer, canaries).items()}


def summaries(
    variant: str, found: Mapping[str, Mapping[str, Exposure]], coins: Mapping[str, bool], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """What the exposures of each group say together; ranks of canaries that were left out, too, to be compared with."""
    from pipelines.attacks.exposure_null import judge_exposures

    rows = []
    for name, of, is_in in (
        (f"{variant}, trained on", "model", True),
        (f"{variant}, trained on, against the released model", "normalised", True),
        (f"{variant}, left out by a coin", "model", False),
        (f"{variant}, on the released model, which saw none", "released", True),
    ):
        ranks = {canary: exposure.rank for canary, exposure in found[of].items() if coins[canary] is is_in}
        if not ranks:
            continue
        verdict = judge_exposures(ranks, rng)
        rows.append(
            {
                "name": name,
                "variant": variant,
                "model": of,
                "is_included": is_in,
                "num_canaries": verdict.num_canaries,
                "mean": verdict.mean_bits,
                "mean_limit": verdict.mean_limit_bits,
                "maximum": verdict.maximum_bits,
                "p_value": verdict.p_value,
                "p_uniform": verdict.p_uniform,
                "verdict": verdict.reading,
                "conclusion": verdict.conclusion,
            }
        )
    return rows


def _is_exhaustive(size: int, candidates: int) -> bool:
    return candidates == 0 or candidates >= size


def _marks(ctx: StageContext) -> bool:
    return bool(ctx.configs["train"].view().marks_tokens)
