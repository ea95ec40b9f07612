"""The stages of the audit: they attack what was trained.

Models that it needs are trained in a stage of its own, by the code of `train`. None is built unless the settings ask.
"""

from __future__ import annotations

from pipelines.graph_names import (
    DOCUMENTS,
    FIGURES,
    MODEL_PACKAGES,
    PRIVATE,
    PUBLIC,
    REDACTED,
    SCREENED,
    SENTENCES,
    SPLIT_ROWS,
    STAGES,
    TRAINING_PACKAGES,
)
from pipelines.settings.tables import settings_of
from pipelines.stage import Input, Stage, Table

_READ_BY_TRAINING = (
    Input("shard", (PUBLIC, PRIVATE), "all"),
    Input("split", (SENTENCES, DOCUMENTS), "all"),
    Input("redact", (REDACTED, FIGURES), "all"),
    Input("estimate", (FIGURES, SCREENED)),
    Input("gate", ("held.json",)),
)
_READ_BY_ATTACKS_ON_ROWS = (
    Input("train"),
    Input("audit_model"),
    Input("split", (SENTENCES, DOCUMENTS), "all"),
    Input("redact", (REDACTED,), "all"),
)
_ATTACKED = settings_of("audit", "train")
_RECIPE = settings_of("audit", "train", "split", "redact")
_CANARIES = ("num_canaries", "num_detected_canaries", "num_public_canaries")
_REDACTED_ROWS = (
    *("conservative", "collapse", "replacement", "surrogate_scope", "surrogate_persons", "shift_dates", "day_first"),
)
_JUDGED_DOMAINS = ("policies", "keywords", "classifier")
AUDIT_STAGES = (
    Stage(
        name="audit_model",
        title="Train a model of the same recipe on canaries, and without the records that membership attacks judge.",
        table="audit",
        step="model",
        module=f"{STAGES}.audit.model",
        configs=_RECIPE,
        fields={
            "audit": ("num_members", "canary_form", *_CANARIES, "copies", "copies_differ", "owner_records"),
            "split": SPLIT_ROWS,
            "redact": _REDACTED_ROWS,
        },
        inputs=_READ_BY_TRAINING,
        packages=TRAINING_PACKAGES,
        runs=("train",),
        tables=(Table("audit_members", "members.parquet"), Table("audit_canaries", "canaries.parquet")),
        optional=True,
    ),
    Stage(
        name="audit_membership",
        title="Membership inference against the released model (records it trained on, or not).",
        table="audit",
        step="membership",
        module=f"{STAGES}.audit.membership",
        configs=_ATTACKED,
        fields={"audit": ("confidence", "owner_records")},
        inputs=_READ_BY_ATTACKS_ON_ROWS,
        packages=(*MODEL_PACKAGES, "scipy"),
        optional=True,
    ),
    Stage(
        name="audit_extraction",
        title="Prompt the released model, and search its output for masked secrets of the training text.",
        table="audit",
        step="extraction",
        module=f"{STAGES}.audit.extraction",
        configs=settings_of("audit", "train", "gate"),
        fields={
            "audit": ("num_prompts", "num_generations", "max_new_tokens", "confidence"),
            "gate": ("labels", "min_characters", "case_sensitive", "ignore", "everyday_words"),
        },
        inputs=_READ_BY_ATTACKS_ON_ROWS,
        packages=(*MODEL_PACKAGES, "scipy"),
        optional=True,
    ),
    Stage(
        name="audit_canaries",
        title="Measure the exposure of canaries (Carlini et al. 2019), and score each for the membership test.",
        table="audit",
        step="canaries",
        module=f"{STAGES}.audit.canaries",
        configs=_ATTACKED,
        fields={"audit": ("canary_form", "candidates")},
        inputs=(Input("train"), Input("audit_model")),
        packages=(*MODEL_PACKAGES, "scipy"),
        tables=(Table("audit_exposures", "exposures.parquet"),),
        optional=True,
    ),
    Stage(
        name="audit_domain_models",
        title="For each domain, train a model of the same recipe without that domain's documents (audit.domains).",
        table="audit",
        step="domain_models",
        module=f"{STAGES}.audit.domain_models",
        configs=_RECIPE,
        fields={"audit": (), "split": SPLIT_ROWS, "redact": (*_REDACTED_ROWS, *_JUDGED_DOMAINS)},
        inputs=_READ_BY_TRAINING,
        packages=TRAINING_PACKAGES,
        runs=("train",),
        optional=True,
    ),
    Stage(
        name="audit_domains",
        title="Prompt the released model about one domain, and search its output for text of others (audit.domains).",
        table="audit",
        step="domains",
        module=f"{STAGES}.audit.domains",
        configs=_RECIPE,
        fields={
            "audit": ("domain_prompts", "domain_generations", "max_new_tokens", "confidence"),
            "split": ("language",),
        },
        inputs=(Input("train"), Input("audit_domain_models"), Input("split", (SENTENCES,), "all")),
        packages=(*MODEL_PACKAGES, "scipy", "spacy"),
        runs=("redact",),
        optional=True,
    ),
    Stage(
        name="audit",
        title="Collect what attacks found, compare lower bounds on epsilon with the claims, and raise alarms.",
        table="audit",
        module=f"{STAGES}.audit.audit",
        configs=_ATTACKED,
        fields={"audit": ("confidence", "num_trials", "copies", "owner_records")},
        inputs=(
            Input("train", ("events.json", FIGURES)),
            Input("audit_model", ("events.json", FIGURES, "canaries.parquet")),
            Input("audit_membership"),
            Input("audit_extraction"),
            Input("audit_canaries"),
            Input("audit_domains", optional=True),
        ),
        packages=(*MODEL_PACKAGES, "dp-accounting", "scipy"),
        optional=True,
    ),
)
