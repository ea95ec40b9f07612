"""Audit, canaries: exposure (Carlini et al. 2019; Selective DP, section 5.1; CRT, section 5.1), and a score of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pipelines.attacks.candidates import (
    CandidateScorer,
    Indices,
    NormalisedScorer,
    Scorer,
    canary_losses,
    enumerated_ranks,
)
from pipelines.attacks.exposure import TIE_NATS, Exposure, FloatArray, Rank, exposure_of, sampled_exposure
from pipelines.attacks.exposure_null import judge_exposures
from pipelines.attacks.miss_rates import ScoredCanary, by_miss_rate
from pipelines.context import StageContext
from pipelines.settings.audit import AuditConfig
from pipelines.stages.audit.canary_table import VARIANTS, pattern_of, read_canaries
from pipelines.stages.audit.opening import open_audited, reason_not_to_open
from pipelines.tables import schema

if TYPE_CHECKING:
    from pipelines.attacks.canaries import Canary

EXPOSURES: Final = schema(
    "exposures",
    "canary_id: string, variant: string, is_included: bool, loss: float64, loss_released: float64, exposure: float64, "
    "exposure_normalised: float64, exposure_released: float64",
)
"""Losses (nats) and exposures (bits) of each canary on the audit's model and on the released one, which saw none."""

_GROUPS: Final = (
    ("trained on", "model", True),
    ("trained on, against the released model", "normalised", True),
    ("left out by a coin", "model", False),
    ("on the released model, which saw none", "released", True),
)
"""Groups of each variant: name, kind of exposure that is judged, and whether the canaries were trained on."""
_LEVEL: Final = 0.05
"""The level of all groups of an audit together (Bonferroni)."""


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``exposures.parquet``, and ``exposure.json`` with summaries of groups. Both are private."""
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
        scored: dict[str, list[ScoredCanary]] = {}
        rankings: dict[bool, Rankings] = {}
        variants = [name for name in VARIANTS if any(canary.variant == name for canary in canaries)]
        for variant in variants:
            ctx.run.progress(0, None, f"ranking canaries ({variant})")
            own = [canary for canary in canaries if canary.variant == variant]
            is_marked = variant == "detected" and bool(ctx.configs["train"].view().marks_tokens)
            if is_marked not in rankings:  # models mostly read canaries of both variants alike
                scorers = [CandidateScorer(model, pattern, marks_holes=is_marked) for model in models]
                rankings[is_marked] = Rankings.of(scorers[0], scorers[1], config.candidates, rng)
            ranking = rankings[is_marked]
            losses, released = (canary_losses(scorer, own) for scorer in (ranking.model, ranking.released))
            exposures = ranking.exposures(own, trained_on=[canary for canary in canaries if coins[canary.id]])
            for canary in sorted(own, key=lambda canary: canary.id):
                writer.append(
                    canary_id=canary.id,
                    variant=variant,
                    is_included=coins[canary.id],
                    loss=losses[canary.id],
                    loss_released=released[canary.id],
                    exposure=exposures["model"][canary.id].bits,
                    exposure_normalised=exposures["normalised"][canary.id].bits,
                    exposure_released=exposures["released"][canary.id].bits,
                )
            scored[variant] = [
                ScoredCanary(
                    is_included=coins[canary.id], bits=exposures["model"][canary.id].bits, nats=losses[canary.id]
                )
                for canary in sorted(own, key=lambda canary: canary.id)
            ]
            groups += summaries(variant, exposures, coins, rng, level=_LEVEL / (len(_GROUPS) * len(variants)))
    rates = {"the policies": by_miss_rate(scored["missed"], scored.get("detected", ()), rng)}
    if "public" in scored:
        rates["the conservative policy as well"] = by_miss_rate(scored["public"], scored["missed"], rng)
    is_exhaustive = _is_exhaustive(pattern.size, config.candidates)
    num = pattern.size if is_exhaustive else config.candidates
    document = {
        "form": config.canary_form,
        "num_candidates": num,
        "is_exhaustive": is_exhaustive,
        "ceiling": math.log2(num + (not is_exhaustive)),  # a canary is one more among sampled candidates
        "copies": max((canary.num_copies for canary in canaries), default=1),
        "groups": groups,
        "by_miss_rate": {missed_by: [vars(point) for point in points] for missed_by, points in rates.items()},
    }
    ctx.out.json("exposure.json", document)
    return {"num_canaries": len(canaries), "num_candidates": num}


@dataclass(frozen=True, kw_only=True)
class Rankings:
    """Candidates that canaries are ranked among, scored once on each model.

    Attributes:
        model, released: the audit's model and the released one.
        indices: candidates: all of them, or a sample with replacement.
        losses: loss of each candidate on both models, in nats.
    """

    model: Scorer
    released: Scorer
    indices: Indices
    losses: tuple[FloatArray, FloatArray]

    @classmethod
    def of(cls, model: Scorer, released: Scorer, candidates: int, rng: np.random.Generator) -> Rankings:
        """Scores the candidates.

        Args:
            model, released: scorers of canaries of one form.
            candidates: number of candidates to draw; 0, or at least the number of all candidates, takes all of them.
            rng: generator that draws the candidates.
        """
        size = model.pattern.size
        is_exhaustive = _is_exhaustive(size, candidates)
        indices = range(size) if is_exhaustive else sorted(model.pattern.draw(rng) for _ in range(candidates))
        losses = model.losses(indices), released.losses(indices)
        return cls(model=model, released=released, indices=indices, losses=losses)

    def exposures(self, canaries: Sequence[Canary], trained_on: Sequence[Canary]) -> dict[str, dict[str, Exposure]]:
        """Returns exposures on the audit's model, on its difference to the released model, and on the released model.

        Args:
            canaries: canaries to rank.
            trained_on: all canaries that the audit's model was trained on. A canary is not ranked against them, but
                against candidates that the model never read.

        Returns:
            Exposure by kind (``model``, ``normalised``, ``released``) and identifier of the canary.
        """
        ours, theirs = self.losses
        exposures = {}
        for name, scorer, losses in (
            ("model", self.model, ours),
            ("normalised", NormalisedScorer(self.model, self.released), ours - theirs),
            ("released", self.released, theirs),
        ):
            if isinstance(self.indices, range):
                ranks = among_strangers(scorer, enumerated_ranks(scorer, canaries, losses), canaries, trained_on)
                exposures[name] = {canary: exposure_of(rank) for canary, rank in ranks.items()}
            else:
                own = canary_losses(scorer, canaries)
                size = scorer.pattern.size
                strange = losses[~np.isin(self.indices, [canary.index for canary in trained_on])]
                exposures[name] = {canary: sampled_exposure(loss, strange, size) for canary, loss in own.items()}
        return exposures


def among_strangers(
    scorer: Scorer, ranks: Mapping[str, Rank], canaries: Sequence[Canary], trained_on: Sequence[Canary]
) -> dict[str, Rank]:
    """Corrects ranks among all candidates: the other canaries that the model was trained on no longer count."""
    indices = sorted({canary.index for canary in (*canaries, *trained_on)})
    losses = dict(zip(indices, scorer.losses(indices, in_double=True).tolist(), strict=True))
    corrected = {}
    for canary in canaries:
        others = [losses[other.index] for other in trained_on if other.index != canary.index]
        own, rank = losses[canary.index], ranks[canary.id]
        below = sum(loss < own - TIE_NATS for loss in others)
        tied = sum(abs(loss - own) <= TIE_NATS for loss in others)
        corrected[canary.id] = Rank(
            size=rank.size - len(others), num_below=rank.num_below - below, num_tied=rank.num_tied - tied
        )
    return corrected


def summaries(
    variant: str,
    exposures: Mapping[str, Mapping[str, Exposure]],
    coins: Mapping[str, bool],
    rng: np.random.Generator,
    *,
    level: float,
) -> list[dict[str, Any]]:
    """Summarises the exposures of each group. Canaries that were left out are a group too, for comparison."""
    rows = []
    for name, of, is_in in _GROUPS:
        ranks = {canary: exposure.rank for canary, exposure in exposures[of].items() if coins[canary] is is_in}
        if not ranks:
            continue
        verdict = judge_exposures(ranks, rng, level=level)
        bits = [exposure.bits for canary, exposure in exposures[of].items() if canary in ranks]
        rows.append(
            {
                "name": f"{variant}, {name}",
                "variant": variant,
                "model": of,
                "is_included": is_in,
                "num_canaries": verdict.num_canaries,
                "mean": math.fsum(bits) / len(bits),
                "mean_limit": verdict.mean_limit_bits,
                "maximum": max(bits),
                "p_value": verdict.p_value,
                "p_uniform": verdict.p_uniform,
                "verdict": verdict.reading,
                "conclusion": verdict.conclusion,
            }
        )
    return rows


def _is_exhaustive(size: int, candidates: int) -> bool:
    return candidates == 0 or candidates >= size
