"""Names that the stages' declarations use: modules, files, packages and fields of settings."""

from __future__ import annotations

STAGES = "pipelines.stages"

MODEL_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
TRAINING_PACKAGES = (*MODEL_PACKAGES, "dp-accounting")

SENTENCES = "sentences.parquet"
DOCUMENTS = "documents.parquet"
SPEAKERS = "speakers.parquet"
DECISIONS = "decisions.parquet"
STABILITY = "stability.parquet"
MASKED = "masked.parquet"
REDACTED = "redacted.parquet"
FIGURES = "figures.json"
REIDENTIFICATION = "reidentification.json"
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
    "mail_text",
    "encoding",
    "dialogue_gap_minutes",
    "max_document_chars",
)
"""Settings that say how a corpus is read, another one too (`pipelines.corpus.options`)."""

SCORED_WITH = (
    *("method", "task", "options", "model", "record", "sentences_per_block", "conversation_tokens", "typed_masks"),
    *("evaluate_fold", "max_eval_sentences", "max_new_tokens", "num_beams", "max_generated"),
    *("num_distractors", "bert_score_model"),
    *("template", "classes", "label_words"),
)
SPLIT_ROWS = ("mode", "model", "language", "max_sentence_tokens")
"""Settings that say how a text becomes rows."""
