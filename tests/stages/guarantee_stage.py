"""The guarantee stage, run on small files with given settings."""

import json

from support.contexts import stage_context
from support.training_events import EVENTS

from pipelines.miss_rate.breakdown import MU_OF_ONE_LABEL
from pipelines.miss_rate.estimate import MU
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.gate import GateConfig
from pipelines.settings.guarantee import GuaranteeConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.report import ReportConfig
from pipelines.settings.shard import ShardConfig
from pipelines.settings.split import SplitConfig
from pipelines.settings.train import TrainConfig
from pipelines.stages.train.guarantee import run

RATE = {"value": 0.05, "upper": 0.1, "confidence": 0.95}
ESTIMATE = {
    "source": "gold",
    "is_census": False,
    "mu": MU,
    "false_negative_rate": RATE,
    "num_secret_spans": 100,
    "num_unmasked_spans": 3,
    "num_unstable_spans": 2,
    "num_unstable_together_spans": 0,
    "num_unstable_elsewhere_spans": 0,
    "delta2": {"value": 0.0, "upper": 0.01, "confidence": 0.95},
    "covers_corpus": True,
    "worst_label": {
        "num_labels": 2,
        "mu": MU_OF_ONE_LABEL,
        "false_negative_rate": {"value": 0.1, "upper": 0.3, "confidence": 0.95},
        "delta2": {"value": 0.0, "upper": 0.02, "confidence": 0.95},
    },
}


TABLES = {
    "guarantee": GuaranteeConfig, "corpus": CorpusConfig, "split": SplitConfig, "train": TrainConfig,
    "dedup": DedupConfig, "redact": RedactConfig, "gate": GateConfig, "shard": ShardConfig, "report": ReportConfig,
}  # fmt: skip


def claims(tmp_path, **given):
    document = stated(tmp_path, **given)
    return {(c["notion"], c["group_size"]): c for c in document["claims"]}


def stated(tmp_path, estimate=ESTIMATE, *, releases=None, artifacts=None, **given):
    """What the stage states; ``given`` are settings by table, and changes of `EVENTS`."""
    settings = {table: config(**given.pop(table, {})) for table, config in TABLES.items()}
    for name, file, document in (("train", "events", {**EVENTS, **given}), ("estimate", "figures", estimate)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{file}.json").write_text(json.dumps(document))
    inputs = {name: tmp_path / name for name in ("train", "estimate")} | (artifacts or {})
    ctx = stage_context("guarantee", tmp_path / "out", settings, inputs, releases=releases)
    counts = run(ctx)
    found = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert counts["num_claims"] == len(found["claims"])
    assert counts["num_refused"] == sum(c["refused"] is not None for c in found["claims"])
    assert found["schema_version"] == 2
    return found
