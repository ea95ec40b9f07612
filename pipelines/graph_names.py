"""The names in the declarations of stages: modules, settings classes, files, packages."""

from __future__ import annotations

STAGES = "pipelines.stages"
CORPUS = f"{STAGES}.prepare.split:CorpusConfig"
SPLIT = f"{STAGES}.prepare.split:SplitConfig"
DEDUP = f"{STAGES}.prepare.dedup:DedupConfig"
REDACT = f"{STAGES}.prepare.redact:RedactConfig"
SAMPLE = f"{STAGES}.prepare.sample:SampleConfig"
ESTIMATE = f"{STAGES}.prepare.estimate:EstimateConfig"
GATE = f"{STAGES}.prepare.gate:GateConfig"
SHARD = f"{STAGES}.prepare.shard:ShardConfig"
TRAIN = f"{STAGES}.train.config:TrainConfig"
GUARANTEE = f"{STAGES}.train.guarantee:GuaranteeConfig"
AUDIT = f"{STAGES}.audit.config:AuditConfig"
REPORT = f"{STAGES}.train.report:ReportConfig"
SYNTHESIZE = f"{STAGES}.synthesize.config:SynthesizeConfig"

MODEL_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
TRAINING_PACKAGES = (*MODEL_PACKAGES, "dp-accounting")

SENTENCES = "sentences.parquet"
DOCUMENTS = "documents.parquet"
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
SYNTHETIC = "synthetic.parquet"
PRIVATE_SYNTHETIC = "private_synthetic.parquet"

READ_OPTIONS = (
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
"""The settings for reading a corpus, also another one (`pipelines.corpus.options`)."""

SCORED_WITH = (
    *("method", "task", "options", "model", "record", "sentences_per_block", "conversation_tokens", "typed_masks"),
    *("evaluate_fold", "max_eval_sentences", "max_new_tokens", "num_beams", "max_generated"),
    *("template", "classes", "label_words"),
)
SPLIT_ROWS = ("mode", "model", "language", "max_sentence_tokens")
"""The settings that divide a text into rows."""
