"""Audit: the table of canaries, and of the coins that decide which canaries are trained on."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Final

import numpy as np

from pipelines.artifacts import Artifact, Source, Target
from pipelines.attacks.canaries import Canary, draw_canaries, flip_coins
from pipelines.attacks.patterns import Pattern
from pipelines.context import StageContext
from pipelines.errors import ConfigError
from pipelines.tables import schema

CANARIES: Final = schema(
    "canaries",
    "canary_id: string, variant: string, text: string, num_copies: uint32, is_flagged: bool, is_included: bool",
)
"""Canaries, which are made up, and the coins that scores are compared with. Private."""
VARIANTS: Final = ("missed", "detected", "public")
_SEED: Final = "coins.json"


def drawn(ctx: StageContext) -> tuple[list[Canary], dict[str, bool]]:
    """Draws the canaries of all variants and their coins.

    Each training of the audit tosses new coins, because evidence of several nights adds up only if their coins are
    independent. A resumed training keeps the coins that it began with.

    Raises:
        ConfigError: the settings ask for public canaries, and this run trains on no public rows.
    """
    config, scratch = ctx.configs["audit"], ctx.out.scratch
    num_detected = config.num_canaries if config.num_detected_canaries is None else config.num_detected_canaries
    numbers = {"missed": config.num_canaries, "detected": num_detected, "public": config.num_public_canaries}
    has_public_rows = (
        ctx.configs["train"].method_spec().trains_on_public_rows and ctx.configs["redact"].conservative is not None
    )
    if config.num_public_canaries and not has_public_rows:
        raise ConfigError(
            "audit.num_public_canaries: this run trains on no public rows, so no canary can be among them. Choose a "
            "method such as crt, and set redact.conservative"
        )
    kept = Source(folder=scratch.folder).find_json(_SEED)
    seed = int(kept["seed"]) if kept else _fresh_seed(ctx)
    scratch.json(_SEED, {"seed": str(seed)})
    rng = np.random.default_rng(seed)
    canaries: list[Canary] = []
    for variant in VARIANTS:
        canaries += draw_canaries(
            rng,
            pattern_of(ctx),
            numbers[variant],
            variant=variant,
            num_copies=config.copies,
            is_flagged=variant != "public",
            taken={canary.index for canary in canaries},
        )
    return canaries, flip_coins(rng, canaries)


def _fresh_seed(ctx: StageContext) -> int:
    return ctx.seed if ctx.configs["train"].insecure_test_seed else secrets.randbits(128)


def pattern_of(ctx: StageContext) -> Pattern:
    """Returns the form of the canaries.

    Raises:
        ConfigError: the form cannot be parsed.
    """
    return Pattern.parse(ctx.configs["audit"].canary_form)


def write_canaries(out: Target, canaries: Iterable[Canary], coins: dict[str, bool]) -> None:
    """Writes the table, in the order of the identifiers, which are random."""
    with out.table(CANARIES) as writer:
        for canary in sorted(canaries, key=lambda canary: canary.id):
            writer.append(
                canary_id=canary.id,
                variant=canary.variant,
                text=canary.text,
                num_copies=canary.num_copies,
                is_flagged=canary.is_flagged,
                is_included=coins[canary.id],
            )


def read_canaries(artifact: Artifact, pattern: Pattern) -> tuple[list[Canary], dict[str, bool]]:
    """Reads the canaries and coins that `write_canaries` wrote."""
    rows = list(artifact.table(CANARIES).rows())
    canaries = [
        Canary(
            id=row["canary_id"],
            pattern=pattern,
            index=pattern.index(row["text"]),
            num_copies=row["num_copies"],
            variant=row["variant"],
            is_flagged=row["is_flagged"],
        )
        for row in rows
    ]
    return canaries, {row["canary_id"]: row["is_included"] for row in rows}
