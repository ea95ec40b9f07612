"""The settings class of each table that configures stages, as an import path: a table is imported when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final

from pipelines.config import StageConfig

_SETTINGS: Final = "pipelines.settings"
CORPUS: Final = f"{_SETTINGS}.corpus:CorpusConfig"
SPLIT: Final = f"{_SETTINGS}.split:SplitConfig"
DEDUP: Final = f"{_SETTINGS}.dedup:DedupConfig"
REDACT: Final = f"{_SETTINGS}.redact:RedactConfig"
SAMPLE: Final = f"{_SETTINGS}.sample:SampleConfig"
ESTIMATE: Final = f"{_SETTINGS}.estimate:EstimateConfig"
GATE: Final = f"{_SETTINGS}.gate:GateConfig"
SHARD: Final = f"{_SETTINGS}.shard:ShardConfig"
TRAIN: Final = f"{_SETTINGS}.train:TrainConfig"
GUARANTEE: Final = f"{_SETTINGS}.guarantee:GuaranteeConfig"
REPORT: Final = f"{_SETTINGS}.report:ReportConfig"
AUDIT: Final = f"{_SETTINGS}.audit:AuditConfig"
SYNTHESIZE: Final = f"{_SETTINGS}.synthesize:SynthesizeConfig"

STAGE_TABLES: Final[Mapping[str, str]] = {
    "corpus": CORPUS,
    "split": SPLIT,
    "dedup": DEDUP,
    "redact": REDACT,
    "sample": SAMPLE,
    "estimate": ESTIMATE,
    "gate": GATE,
    "shard": SHARD,
    "train": TRAIN,
    "guarantee": GUARANTEE,
    "report": REPORT,
    "audit": AUDIT,
    "synthesize": SYNTHESIZE,
}
"""Tables of stages by name, in the order of the documentation; each value is ``module:Class``."""


def config_class(reference: str) -> type[StageConfig]:
    """Imports the settings class that ``module:Class`` names."""
    module, _, name = reference.partition(":")
    found: type[StageConfig] = getattr(importlib.import_module(module), name)
    return found
