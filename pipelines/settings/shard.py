"""Settings of ``[shard]``: the publication of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from pipelines.config import StageConfig
from pipelines.methods import registry


class ShardConfig(StageConfig):
    """The publication of rows. Masks, flags and the gate decide which rows are private."""

    publish: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Publication of the rows without any find as a table. auto: only if the method trains on them as "
        "public rows (crt). A published row gives away a missed secret whatever the method is, so claims then rest on "
        "delta2.",
    )
    keep_superseded: bool = Field(
        default=False,
        strict=True,
        description="true: tables and reports of earlier runs stay in the public root after a run has published "
        "others in their place. Claims do not cover them, and say so.",
    )


def publishes(shard: ShardConfig, method: str) -> bool:
    """Checks that a run with this training method publishes the rows of the public side."""
    return shard.publish == "always" or (shard.publish == "auto" and registry.method(method).trains_on_public_rows)


def publishes_rows(configs: Mapping[str, Any], method: str) -> bool:
    """Checks that a run publishes rows. Without a conservative policy, no row is on the public side."""
    return publishes(configs["shard"], method) and configs["redact"].conservative is not None
