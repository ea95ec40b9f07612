"""Gate, first step: the distinct strings that were masked in one partition, as they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.context import StageContext
from pipelines.stages.gate import GateConfig


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes ``strings.parquet`` to the private root: string, label, count, sorted; empty if the gate is off.

    Raises:
        StageError: the sentences and their redaction are not the same rows.
    """
    from pipelines.corpus.tables import SENTENCES
    from pipelines.gate.search import spans_of
    from pipelines.gate.strings import masked_strings
    from pipelines.gate.tables import GATE_STRINGS
    from pipelines.policies.tables import REDACTED

    config: GateConfig = ctx.configs["gate"]
    strings: list[tuple[str, str, int]] = []
    if config.enabled:
        rows = spans_of(ctx.input("split").table(SENTENCES), ctx.input("redact").table(REDACTED))
        strings = masked_strings(rows, config.choice())
    with ctx.out.table(GATE_STRINGS, "strings") as writer:
        for string, label, count in strings:
            writer.append(string=string, label=label, count=count)
    return {"num_strings": len(strings)}
