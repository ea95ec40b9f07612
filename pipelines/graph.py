"""The one declaration of the pipeline: every stage, what it reads, and where it writes.

Stages are named by module path and loaded on demand, so that planning a run imports neither torch nor spaCy.
``flows/`` wires exactly this graph; a test holds the two together. `pipelines.walks` goes through it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from pipelines.config import StageConfig
from pipelines.stage import LEFT_OUT, OVERLAY, RELEASES, REVIEWS, SOURCE, Input, Stage, Table

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

_MODEL_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
_TRAINING_PACKAGES = (*_MODEL_PACKAGES, "dp-accounting")

SENTENCES = "sentences.parquet"
DECISIONS = "decisions.parquet"
STABILITY = "stability.parquet"
MASKED = "masked.parquet"
REDACTED = "redacted.parquet"
FIGURES = "figures.json"
SCREENED = "screened.parquet"
GENERATED = "generated.parquet"
SCORES = "token_scores.parquet"
PASSED = "passed.json"
HELD_BY_LABEL = "held_by_label.json"
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
    "delimiter",
    "wikitext_joiners",
    "mail_headers",
    "mail_quotes",
    "mail_signatures",
    "max_document_chars",
)
"""How another corpus is read, too (`pipelines.corpus.options`)."""

_SCORED_WITH = (
    *("method", "task", "options", "model", "record", "sentences_per_block", "conversation_tokens", "typed_masks"),
    *("evaluate_fold", "max_eval_sentences", "max_new_tokens", "num_beams", "max_generated"),
    *("template", "classes", "label_words"),
)

GRAPH: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            name="split",
            title="Tokenise, then split into sentences: before redaction and deduplication (CRT, A.5).",
            table="split",
            module=f"{_STAGES}.split",
            configs={"corpus": CORPUS, "split": SPLIT},
            inputs=(Input(SOURCE, partitions="same"),),
            partitioned=True,
            packages=("spacy", "pyarrow"),
            runs=("corpus",),
            tables=(
                Table("sentences", SENTENCES),
                Table("documents", "documents.parquet"),
                Table("rejected", "rejected.parquet"),
                Table("gold", "gold.parquet"),
            ),
        ),
        Stage(
            name="dedup_keys",
            title="A 128-bit key for every sentence of one partition.",
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
            title="Which sentences repeat an earlier one: Bloom filter nominates, an exact pass decides.",
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
            title="The decisions of one partition, one row per sentence (CRT Algorithm 1, line 1).",
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
            title="Mask what the policies find in one partition (CRT Algorithm 1, line 2).",
            table="redact",
            module=f"{_STAGES}.redact",
            configs={"redact": REDACT, "corpus": CORPUS},
            fields={"corpus": ("format", "source")},
            inputs=(Input("split", (SENTENCES,), "same"), Input("dedup_mask", (MASKED,), "same")),
            partitioned=True,
            packages=("spacy", "pyarrow"),
            tables=(Table("redacted", REDACTED),),
        ),
        Stage(
            name="sample",
            title="Draw the sentences whose redaction is reviewed (JFT: 10 samples of 0.01 %).",
            table="sample",
            module=f"{_STAGES}.sample",
            configs={"sample": SAMPLE},
            inputs=(Input("split", (SENTENCES,), "all"),),
            packages=("numpy", "pyarrow"),
            tables=(Table("sample", "sample.parquet"), Table("screening", "screening.parquet")),
        ),
        Stage(
            name="stability",
            title="Which caught secrets are redacted stably: masked by hand, they would change nothing else.",
            table="estimate",
            step="stability",
            module=f"{_STAGES}.stability",
            configs={"estimate": ESTIMATE, "redact": REDACT, "corpus": CORPUS, "split": SPLIT, "dedup": DEDUP},
            fields={
                "estimate": ("source",),
                "corpus": ("format", "source"),
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
            title="How much redaction missed: m, gamma and delta2 with their intervals.",
            table="estimate",
            module=f"{_STAGES}.estimate",
            configs={"estimate": ESTIMATE, "redact": REDACT, "corpus": CORPUS},
            fields={"corpus": ("format", "source")},
            inputs=(
                Input("sample"),
                Input("split", (SENTENCES, "gold.parquet", "documents.parquet"), "all"),
                Input("redact", (REDACTED,), "all"),
                Input("stability", (STABILITY,), "all"),
                Input(REVIEWS),
            ),
            packages=("numpy", "scipy", "pyarrow"),
            tables=(Table("screened", SCREENED),),
            runs=("redact",),
        ),
        Stage(
            name="gate_strings",
            title="List the distinct strings that were masked in one partition.",
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
            title="Search every masked string in all that will be public, and hold back the rows that it stands in.",
            table="gate",
            step="search",
            module=f"{_STAGES}.gate",
            configs={"gate": GATE},
            inputs=(Input("gate_strings", partitions="all"), Input("redact", (REDACTED,), "all"), Input(REVIEWS)),
            packages=("pyarrow", "faker"),
            tables=(Table("held", "hits.parquet"),),
        ),
        # Whatever has a public root reads the gate: the store searches its public files for what the gate lists.
        # Only the constant `passed.json` enters the key, so that another list builds nothing anew. Which rows are held
        # enters that of the shards, of trainings that read text beside them (`TrainConfig.files_read`), and how many by
        # label that of the report.
        Stage(
            name="shard",
            title="Divide one partition into public and private rows (CRT Algorithm 1, lines 3 and 4).",
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
            title="Publish the public rows of one partition, where the method or the settings ask for it.",
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
            title="Phase 1 of methods that fine-tune twice: on redacted text (JFT, section 4.1).",
            table="train",
            step="phase1",
            module=f"{_STAGES}.train_phase1",
            configs={"train": TRAIN},
            inputs=(
                Input("shard", (PUBLIC, PRIVATE), "all"),
                Input("split", (SENTENCES,), "all"),
                Input("redact", (FIGURES,), "all"),
                Input("estimate", (FIGURES, SCREENED)),
                Input(OVERLAY),
            ),
            packages=_TRAINING_PACKAGES,
            has_recipe=True,
        ),
        Stage(
            name="train",
            title="Fine-tune with the chosen method, such as CRT (Algorithm 1, lines 5 to 8).",
            table="train",
            module=f"{_STAGES}.train",
            configs={"train": TRAIN},
            inputs=(
                Input("train_phase1"),
                Input("shard", (PUBLIC, PRIVATE), "all"),
                Input("split", (SENTENCES,), "all"),
                Input("redact", (REDACTED,), "all"),
                Input("gate", (PASSED,)),
                Input(OVERLAY),
            ),
            roots=("private", "public"),
            packages=_TRAINING_PACKAGES,
            is_release=True,
            has_recipe=True,
        ),
        # The rest of what a finished model is scored with stands in its folder.
        Stage(
            name="evaluate",
            title="What the finished model scores on held-out text, and the text that it generates.",
            table="train",
            step="evaluate",
            module=f"{_STAGES}.evaluate",
            configs={"train": TRAIN},
            fields={"train": _SCORED_WITH},
            inputs=(
                Input("train"),
                Input("split", (SENTENCES,), "all"),
                Input("redact", (REDACTED,), "all"),
            ),
            packages=(*_MODEL_PACKAGES, "nltk", "rouge-score", "sacrebleu"),
            tables=(Table("generated", GENERATED), Table("token_scores", SCORES)),
        ),
        Stage(
            name="train_utility",
            title="Utility on what the policies found in held-out text, and on the rest.",
            table="train",
            step="utility",
            module=f"{_STAGES}.train_utility",
            configs={},
            inputs=(Input("evaluate", (SCORES,)), Input("redact", (REDACTED,), "all")),
            packages=("pyarrow",),
        ),
        Stage(
            name="guarantee",
            title="From training events and the miss rate to stated guarantees (CRT Theorem 8).",
            table="guarantee",
            module=f"{_STAGES}.guarantee",
            configs={
                "guarantee": GUARANTEE,
                "dedup": DEDUP,
                "redact": REDACT,
                "gate": GATE,
                "shard": SHARD,
                "train": TRAIN,
                "report": REPORT,
            },
            fields={"gate": ("enabled", "on_hit"), "report": ("public", "publish_counts")},
            # Shards and masks say whether the model is one of the text as it is redacted now (`Releases.is_current`).
            inputs=(
                Input("train", ("events.json",)),
                Input("estimate", (FIGURES,)),
                Input("shard", (PUBLIC, PRIVATE), "all"),
                Input("redact", (REDACTED,), "all"),
                Input(RELEASES),
            ),
            packages=("dp-accounting", "numpy", "scipy"),
        ),
        Stage(
            name="report",
            title="The self-contained HTML and JSON report.",
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
                Input("evaluate", (FIGURES,)),
                Input("train_utility"),
                Input("guarantee"),
                Input("gate", (PASSED, HELD_BY_LABEL)),
                Input(LEFT_OUT),
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
