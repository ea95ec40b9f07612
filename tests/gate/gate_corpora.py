"""Small redacted corpora through the gate's own stages and the division of rows."""

import json
import re
import shutil
from pathlib import Path

from support.contexts import artifact, stage_context
from support.tables import read_table, span_of, write_rows

from pipelines.mask import MASK
from pipelines.settings.shard import ShardConfig
from pipelines.stages.prepare import gate, gate_strings, shard

TOKEN = re.compile(r"\S+")


def redacted(text, spans):
    """A row's redacted text: a mask for each run of masked characters."""
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], MASK]
        at = end
    return re.sub(rf"{MASK}(\s*{MASK})+", MASK, "".join((*pieces, text[at:])))


class Outcome:
    """What the gate and the division of rows made of a corpus."""

    def __init__(self, folder, num_partitions):
        parts = [f"p{n}" for n in range(num_partitions)]
        self.folder = folder
        self.public = [r for p in parts for r in read_table(folder / f"shard-{p}/public.parquet", "shard").to_pylist()]
        self.private = [
            r for p in parts for r in read_table(folder / f"shard-{p}/private.parquet", "shard").to_pylist()
        ]
        self.held = {
            (r["doc_id"], r["sentence_index"]) for r in read_table(folder / "gate/held.parquet", "held").to_pylist()
        }
        self.hits = read_table(folder / "gate/hits.parquet", "gate_hits").to_pylist()
        self.index = {r["string"] for r in read_table(folder / "gate/index.parquet", "gate_index").to_pylist()}
        self.figures = json.loads((folder / "gate/figures.json").read_text())


def through_the_gate(folder: Path, partitions, config, **outside):
    """Runs the stages on partitions of rows: (text, half-open ranges of masked characters, whether it is flagged).

    ``outside`` is given to the gate's context.

    Raises:
        PrivacyGateError: as the gate does.
    """
    shutil.rmtree(folder, ignore_errors=True)
    parts, strings = [], []
    for number, rows in enumerate(partitions):
        base = folder / f"p{number}"
        sentences, table = [], []
        for at, (text, spans, flagged) in enumerate(rows):
            tokens = list(TOKEN.finditer(text))
            offsets = {"token_starts": [t.start() for t in tokens], "token_ends": [t.end() for t in tokens]}
            sentences.append({"sentence_index": at, "text": text} | offsets)
            found = {"redacted_text": redacted(text, spans), "flagged_by_conservative": flagged}
            counts = {"num_tokens": max(1, len(tokens)), "num_masked_tokens": len(spans)}
            table.append({"sentence_index": at, "spans": [span_of(*span) for span in spans]} | found | counts)
        write_rows(base / "sentences.parquet", "sentences", sentences, doc_id=f"d{number}")
        write_rows(base / "redacted.parquet", "redacted", table, doc_id=f"d{number}")
        parts.append({name: artifact(name, base, f"p{number}") for name in ("split", "redact")})
        out = folder / f"strings{number}"
        gate_strings.run(stage_context("gate_strings", out, {"gate": config}, parts[-1], partition=f"p{number}"))
        strings.append(artifact("gate_strings", out, f"p{number}"))
    inputs = {"gate_strings": strings, "redact": [part["redact"] for part in parts]}
    failures = folder / "failures"
    gate.run(stage_context("gate", folder / "gate", {"gate": config}, inputs, failures_folder=failures, **outside))
    for part in parts:
        partition = part["redact"].partition
        read = {"redact": part["redact"], "gate": artifact("gate", folder / "gate")}
        out = folder / f"shard-{partition}"
        shard.run(stage_context("shard", out, {"shard": ShardConfig()}, _one(read), partition=partition))
    return Outcome(folder, len(partitions))


def _one(inputs):
    return {name: (found,) for name, found in inputs.items()}
