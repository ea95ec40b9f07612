"""Gate, first step: the distinct masked strings of one partition, in the form in which they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.context import StageContext
from pipelines.corpus.tables import SENTENCES
from pipelines.gate.search import spans_of
from pipelines.gate.strings import MaskedString, masked_strings
from pipelines.gate.tables import GATE_PLACES, GATE_STRINGS
from pipelines.policies.tables import REDACTED
from pipelines.settings.gate import GateConfig


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes ``strings.parquet`` and ``places.parquet`` to the private root, sorted; empty if the gate is off.

    Raises:
        StageError: the sentences and their redaction are not the same rows.
    """
    config: GateConfig = ctx.configs["gate"]
    strings: list[MaskedString] = []
    if config.enabled:
        rows = spans_of(ctx.input("split").table(SENTENCES), ctx.input("redact").table(REDACTED))
        strings = masked_strings(rows, config.choice())
    with ctx.out.table(GATE_STRINGS, "strings") as writer:
        for masked in strings:
            writer.append(string=masked.string, label=masked.label, count=masked.count)
    with ctx.out.table(GATE_PLACES, "places") as writer:
        for masked in strings:
            writer.append(string=masked.string, doc_id=masked.doc_id, sentence_index=masked.sentence_index)
    return {"num_strings": len(strings)}
