"""The one declaration of the pipeline: every stage, what it reads, and where it writes.

Stages are named by module path and loaded on demand, so that planning a run imports neither torch nor spaCy.
``flows/`` wires exactly this graph; a test holds the two together.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pipelines.config import StageConfig
from pipelines.context import RunFunction

Root = Literal["private", "public"]

SOURCE = "input"
"""The pseudo-stage that stands for the input files of a partition."""

REVIEWS = "reviews"
"""The pseudo-stage that stands for what reviewers decided so far (`pipelines.miss_rate.decisions`)."""

RELEASES = "releases"
"""The pseudo-stage that stands for the releases of the store that may share a record (`reticent ledger`)."""

OUTSIDE = frozenset({SOURCE, REVIEWS, RELEASES})
"""What stages read that no stage made."""


@dataclass(frozen=True)
class Input:
    """An edge of the graph.

    Attributes:
        stage: the stage that is read.
        files: the data files whose digests count (``{partition}`` is filled in); all of them when empty. Naming the
            files stops the wave early when only another file of the same artifact changed.
        partitions: ``same`` reads the reader's own partition, ``all`` every partition in corpus order, ``whole`` the
            single artifact of a whole-corpus stage.
    """

    stage: str
    files: tuple[str, ...] = ()
    partitions: Literal["same", "all", "whole"] = "whole"


@dataclass(frozen=True)
class Table:
    """A Parquet table of a stage that users read: its name in ``outputs`` and ``latest/``, and its root."""

    name: str
    file: str
    root: Root = "private"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One box of the picture in the design, section 1.

    Attributes:
        name: unique; also the folder below ``objects/``.
        table: the TOML table that configures it and the name shown to users.
        step: tells steps of the same shown stage apart (dedup has three); None otherwise.
        module: holds ``run(ctx)``, and the Config class of each table that it owns.
        configs: the tables whose settings it reads, each with the class that validates it, ``module:Class``.
        fields: narrows a table to the settings that this step uses; absent means all.
        roots: where it writes. The public root is published after the private one.
        packages: distributions whose version enters the key.
        tables: the Parquet tables that it offers to users.
        runs: tables, besides its own, whose settings select code that it runs.
        is_release: whether it publishes what was trained on private records, which the privacy ledger accounts for.
        publishes_rows: whether it publishes rows of the corpus, which the privacy ledger notes.
    """

    name: str
    table: str
    step: str | None = None
    module: str
    configs: Mapping[str, str]
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    partitioned: bool = False
    roots: tuple[Root, ...] = ("private",)
    packages: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    runs: tuple[str, ...] = ()
    is_release: bool = False
    publishes_rows: bool = False

    def edges_read(self, configs: Mapping[str, StageConfig]) -> tuple[Input, ...]:
        """The inputs that a run with these settings reads, `SOURCE` included.

        Args:
            configs: the validated settings by table name.
        """
        own = configs.get(self.table) if self.table in self.configs else None
        unread = own.unread_inputs(self.name) if own is not None else frozenset()
        return tuple(edge for edge in self.inputs if edge.stage not in unread)

    def run(self) -> RunFunction:
        """Imports the stage and returns its ``run``."""
        function: RunFunction = importlib.import_module(self.module).run
        return function


_STAGES = "pipelines.stages"
CORPUS = f"{_STAGES}.split:CorpusConfig"
SPLIT = f"{_STAGES}.split:SplitConfig"
DEDUP = f"{_STAGES}.dedup:DedupConfig"
REDACT = f"{_STAGES}.redact:RedactConfig"
SAMPLE = f"{_STAGES}.sample:SampleConfig"
ESTIMATE = f"{_STAGES}.estimate:EstimateConfig"
GATE = f"{_STAGES}.gate:GateConfig"
SHARD = f"{_STAGES}.shard:ShardConfig"
TRAIN = f"{_STAGES}.train_config:TrainConfig"
GUARANTEE = f"{_STAGES}.guarantee:GuaranteeConfig"
REPORT = f"{_STAGES}.report:ReportConfig"

_TRAINING_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "dp-accounting")

SENTENCES = "sentences.parquet"
DECISIONS = "decisions.parquet"
STABILITY = "stability.parquet"
MASKED = "masked.parquet"
REDACTED = "redacted.parquet"
FIGURES = "figures.json"
SCREENED = "screened.parquet"
SCORES = "token_scores.parquet"
PASSED = "passed.json"
PRIVATE = "private.parquet"
PUBLIC = "public.parquet"

_READ_OPTIONS = (
    "txt_document",
    "text_field",
    "id_field",
    "domain_field",
    "fold_field",
    "label_field",
    "gold_field",
    "quoting",
    "wikitext_joiners",
    "max_document_chars",
)
"""How another corpus is read, too (`pipelines.corpus.options`)."""

_POLICY_OPTIONS = (
    "model",
    "language",
    "patterns",
    "pattern_seconds",
    "keywords",
    "names",
    "names_file",
    "recognizers",
    "classifier",
    "classifier_threshold",
)
"""What policies of the same name may be told; a proxy is told the same."""

GRAPH: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            name="split",
            table="split",
            module=f"{_STAGES}.split",
            configs={"corpus": CORPUS, "split": SPLIT},
            inputs=(Input(SOURCE, partitions="same"),),
            partitioned=True,
            packages=("spacy", "pyarrow"),
            tables=(
                Table("sentences", SENTENCES),
                Table("documents", "documents.parquet"),
                Table("rejected", "rejected.parquet"),
                Table("gold", "gold.parquet"),
            ),
        ),
        Stage(
            name="dedup_keys",
            table="dedup",
            step="keys",
            module=f"{_STAGES}.dedup_keys",
            configs={"dedup": DEDUP},
            fields={"dedup": ("normalise", "min_tokens", "hash_seed", "unit", "against")},
            inputs=(Input("split", (SENTENCES,), "same"),),
            partitioned=True,
            packages=("mmh3", "pyarrow"),
        ),
        Stage(
            name="dedup_resolve",
            table="dedup",
            step="resolve",
            module=f"{_STAGES}.dedup_resolve",
            configs={"dedup": DEDUP, "corpus": CORPUS, "split": SPLIT},
            fields={"corpus": _READ_OPTIONS, "split": ("mode", "model", "language", "max_sentence_tokens")},
            inputs=(Input("dedup_keys", partitions="all"),),
            packages=("numpy", "pyarrow", "spacy"),
        ),
        Stage(
            name="dedup_mask",
            table="dedup",
            step="mask",
            module=f"{_STAGES}.dedup_mask",
            configs={"dedup": DEDUP},
            fields={"dedup": ()},
            inputs=(
                Input("split", (SENTENCES,), "same"),
                Input("dedup_resolve", ("{partition}.parquet",)),
            ),
            partitioned=True,
            packages=("pyarrow",),
            tables=(Table("decisions", DECISIONS),),
        ),
        Stage(
            name="redact",
            table="redact",
            module=f"{_STAGES}.redact",
            configs={"redact": REDACT, "corpus": CORPUS},
            fields={"corpus": ("format",)},
            inputs=(Input("split", (SENTENCES,), "same"), Input("dedup_mask", (MASKED,), "same")),
            partitioned=True,
            packages=("spacy", "pyarrow"),
            tables=(Table("redacted", REDACTED),),
        ),
        Stage(
            name="sample",
            table="sample",
            module=f"{_STAGES}.sample",
            configs={"sample": SAMPLE},
            inputs=(Input("split", (SENTENCES,), "all"),),
            packages=("numpy", "pyarrow"),
            tables=(Table("sample", "sample.parquet"), Table("screening", "screening.parquet")),
        ),
        Stage(
            name="stability",
            table="estimate",
            step="stability",
            module=f"{_STAGES}.stability",
            configs={"estimate": ESTIMATE, "redact": REDACT, "corpus": CORPUS, "split": SPLIT, "dedup": DEDUP},
            fields={
                "estimate": ("source",),
                "corpus": ("format",),
                "split": ("mode", "model", "language"),
                "dedup": ("min_tokens",),
            },
            inputs=(
                Input("sample", ("{partition}.parquet",)),
                Input("split", (SENTENCES, "gold.parquet", "documents.parquet"), "same"),
                Input("redact", (REDACTED,), "same"),
                Input(REVIEWS),
            ),
            partitioned=True,
            packages=("spacy", "pyarrow"),
            tables=(Table("stability", STABILITY),),
            runs=("redact",),
        ),
        Stage(
            name="estimate",
            table="estimate",
            module=f"{_STAGES}.estimate",
            configs={"estimate": ESTIMATE, "redact": REDACT, "corpus": CORPUS},
            fields={"redact": _POLICY_OPTIONS, "corpus": ("format",)},
            inputs=(
                Input("sample"),
                Input("split", (SENTENCES, "gold.parquet", "documents.parquet"), "all"),
                Input("redact", (REDACTED,), "all"),
                Input("stability", (STABILITY,), "all"),
                Input(REVIEWS),
            ),
            packages=("numpy", "scipy", "pyarrow"),
            tables=(Table("screened", SCREENED),),
        ),
        Stage(
            name="gate_strings",
            table="gate",
            step="strings",
            module=f"{_STAGES}.gate_strings",
            configs={"gate": GATE},
            fields={"gate": ("enabled", "labels", "case_sensitive")},
            inputs=(Input("split", (SENTENCES,), "same"), Input("redact", (REDACTED,), "same")),
            partitioned=True,
            packages=("pyarrow",),
        ),
        Stage(
            name="gate",
            table="gate",
            step="search",
            module=f"{_STAGES}.gate",
            configs={"gate": GATE},
            inputs=(Input("gate_strings", partitions="all"), Input("redact", (REDACTED,), "all")),
            packages=("pyarrow",),
        ),
        # Whatever has a public root reads the gate: the store searches its public files for what the gate lists.
        # Only the constant `passed.json` enters the key, so that another list builds nothing anew.
        Stage(
            name="shard",
            table="shard",
            module=f"{_STAGES}.shard",
            configs={"shard": SHARD},
            fields={"shard": ()},
            inputs=(Input("redact", (REDACTED,), "same"), Input("gate", (PASSED,))),
            partitioned=True,
            packages=("pyarrow",),
            tables=(Table("private", PRIVATE), Table("public_side", PUBLIC)),
        ),
        Stage(
            name="publish",
            table="shard",
            step="publish",
            publishes_rows=True,
            module=f"{_STAGES}.publish",
            configs={"shard": SHARD, "train": TRAIN},
            fields={"shard": ("publish",), "train": ("method",)},
            inputs=(Input("shard", (PUBLIC,), "same"), Input("gate", (PASSED,))),
            partitioned=True,
            roots=("private", "public"),
            packages=("pyarrow",),
            tables=(Table("public", PUBLIC, "public"), Table("public_ids", "public_ids.parquet")),
        ),
        # Which inputs a method reads, its settings say (`TrainConfig.unread_inputs`).
        Stage(
            name="train_phase1",
            table="train",
            step="phase1",
            module=f"{_STAGES}.train_phase1",
            configs={"train": TRAIN},
            inputs=(
                Input("shard", (PUBLIC, PRIVATE), "all"),
                Input("split", (SENTENCES,), "all"),
                Input("redact", (FIGURES,), "all"),
                Input("estimate", (FIGURES, SCREENED)),
            ),
            packages=_TRAINING_PACKAGES,
        ),
        Stage(
            name="train",
            table="train",
            module=f"{_STAGES}.train",
            configs={"train": TRAIN},
            inputs=(
                Input("train_phase1"),
                Input("shard", (PUBLIC, PRIVATE), "all"),
                Input("split", (SENTENCES,), "all"),
                Input("redact", (REDACTED,), "all"),
                Input("gate", (PASSED,)),
            ),
            roots=("private", "public"),
            packages=_TRAINING_PACKAGES,
            tables=(Table("generated", "generated.parquet"),),
            is_release=True,
        ),
        Stage(
            name="train_utility",
            table="train",
            step="utility",
            module=f"{_STAGES}.train_utility",
            configs={},
            inputs=(Input("train", (SCORES,)), Input("redact", (REDACTED,), "all")),
            packages=("pyarrow",),
        ),
        Stage(
            name="guarantee",
            table="guarantee",
            module=f"{_STAGES}.guarantee",
            configs={
                "guarantee": GUARANTEE,
                "dedup": DEDUP,
                "redact": REDACT,
                "shard": SHARD,
                "train": TRAIN,
                "report": REPORT,
            },
            fields={"report": ("public", "publish_counts")},
            inputs=(Input("train", ("events.json",)), Input("estimate", (FIGURES,)), Input(RELEASES)),
            packages=("dp-accounting", "numpy", "scipy"),
        ),
        Stage(
            name="report",
            table="report",
            module=f"{_STAGES}.report",
            configs={
                "report": REPORT,
                "corpus": CORPUS,
                "split": SPLIT,
                "dedup": DEDUP,
                "redact": REDACT,
                "sample": SAMPLE,
                "estimate": ESTIMATE,
                "shard": SHARD,
                "train": TRAIN,
            },
            inputs=(
                Input("split", (FIGURES,), "all"),
                Input("dedup_resolve", (FIGURES,)),
                Input("redact", (FIGURES,), "all"),
                Input("estimate", (FIGURES,)),
                Input("shard", (FIGURES,), "all"),
                Input("train", (FIGURES, "events.json", "curves.json")),
                Input("train_utility"),
                Input("guarantee"),
                Input("gate", (PASSED,)),
            ),
            roots=("private", "public"),
            packages=("jinja2",),
        ),
    )
}


def config_class(reference: str) -> type[StageConfig]:
    """The settings class that ``module:Class`` names."""
    module, _, name = reference.partition(":")
    found: type[StageConfig] = getattr(importlib.import_module(module), name)
    return found


def config_references() -> dict[str, str]:
    """Every TOML table that configures a stage, with the reference of its class."""
    return {table: ref for stage in GRAPH.values() for table, ref in stage.configs.items()}


def downstream(names: set[str]) -> set[str]:
    """The stages in ``names`` and every stage that depends on one of them."""
    reached = set(names)
    for stage in GRAPH.values():  # declared in topological order
        if any(edge.stage in reached for edge in stage.inputs):
            reached.add(stage.name)
    return reached
