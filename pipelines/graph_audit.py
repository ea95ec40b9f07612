"""The stages of the audit: they attack what was trained.

Models that it needs are trained in stages of their own, by the code of `train`. Each stands for the released model, so
both must have the same recipe (`pipelines.store.building.lookup`). None is built unless the settings ask.
"""

from __future__ import annotations

from typing import Any

from pipelines import graph_names as names
from pipelines.settings.tables import settings_of
from pipelines.stage import Input, Stage, Table

_READ_BY_TRAINING = (
    Input("shard", (names.PUBLIC, names.PRIVATE), "all"),
    Input("split", (names.SENTENCES, names.DOCUMENTS), "all"),
    Input("redact", (names.REDACTED, names.FIGURES), "all"),
    Input("estimate", (names.FIGURES, names.SCREENED)),
    Input("gate", ("held.json",)),
    Input("train", in_key=False),
)
_READ_BY_ATTACKS_ON_ROWS = (
    Input("train"),
    Input("audit_model"),
    Input("split", (names.SENTENCES, names.DOCUMENTS), "all"),
    Input("redact", (names.REDACTED,), "all"),
)
_ATTACKED = settings_of("audit", "train")
_RECIPE = settings_of("audit", "train", "split", "redact")
_TRAINED = {**_RECIPE, **settings_of("guarantee")}
_BOUND = {"guarantee": ("owner_bound",)}
_CANARIES = ("num_canaries", "num_detected_canaries", "num_public_canaries")
_REDACTED_ROWS = (
    *("conservative", "collapse", "replacement", "surrogate_scope", "surrogate_persons", "shift_dates", "day_first"),
)
_JUDGED_DOMAINS = ("policies", "keywords", "classifier")


def _step(step: str, title: str, **fields: Any) -> Stage:
    """Declares a step of the audit, which runs leave out unless their settings ask for it."""
    module = f"{names.STAGES}.audit.{step}"
    return Stage(name=f"audit_{step}", title=title, table="audit", step=step, module=module, optional=True, **fields)


AUDIT_STAGES: tuple[Stage, ...] = (
    _step(
        "model",
        "Train a model of the same recipe on canaries, and without the records that membership attacks judge.",
        configs=_TRAINED,
        fields={
            "audit": ("num_members", "canary_form", *_CANARIES, "copies", "copies_differ", "owner_records"),
            "split": names.SPLIT_ROWS,
            "redact": _REDACTED_ROWS,
            **_BOUND,
        },
        inputs=_READ_BY_TRAINING,
        packages=names.TRAINING_PACKAGES,
        runs=("train",),
        has_recipe=True,
        tables=(Table("audit_members", "members.parquet"), Table("audit_canaries", "canaries.parquet")),
    ),
    _step(
        "membership",
        "Membership inference against the released model (records it trained on, or not).",
        configs=_ATTACKED,
        fields={"audit": ("confidence", "owner_records")},
        inputs=_READ_BY_ATTACKS_ON_ROWS,
        packages=(*names.MODEL_PACKAGES, "scipy"),
    ),
    _step(
        "extraction",
        "Prompt the released model, and search its output for masked secrets of the training text.",
        configs=settings_of("audit", "train", "gate"),
        fields={
            "audit": ("num_prompts", "num_generations", "max_new_tokens", "confidence"),
            "gate": ("labels", "min_characters", "case_sensitive", "ignore", "everyday_words"),
        },
        inputs=_READ_BY_ATTACKS_ON_ROWS,
        packages=(*names.MODEL_PACKAGES, "scipy"),
    ),
    _step(
        "canaries",
        "Measure the exposure of canaries (Carlini et al. 2019), and score each for the membership test.",
        configs=_ATTACKED,
        fields={"audit": ("canary_form", "candidates")},
        inputs=(Input("train"), Input("audit_model")),
        packages=(*names.MODEL_PACKAGES, "scipy"),
        tables=(Table("audit_exposures", "exposures.parquet"),),
    ),
    _step(
        "secrets",
        "Membership of single names, numbers and addresses, against others of the same form (audit.num_secrets).",
        configs=_ATTACKED,
        fields={"audit": ("num_secrets", "confidence")},
        inputs=(Input("train"), *_READ_BY_ATTACKS_ON_ROWS[2:]),
        packages=(*names.MODEL_PACKAGES, "scipy"),
    ),
    _step(
        "domain_models",
        "For each domain, train a model of the same recipe without that domain's documents (audit.domains).",
        configs=_TRAINED,
        fields={"audit": (), "split": names.SPLIT_ROWS, "redact": (*_REDACTED_ROWS, *_JUDGED_DOMAINS), **_BOUND},
        inputs=_READ_BY_TRAINING,
        packages=names.TRAINING_PACKAGES,
        runs=("train",),
        has_recipe=True,
    ),
    _step(
        "domains",
        "Prompt the released model about one domain, and search its output for text of others (audit.domains).",
        configs=_RECIPE,
        fields={
            "audit": ("domain_prompts", "domain_generations", "max_new_tokens", "confidence"),
            "split": ("language",),
        },
        inputs=(Input("train"), Input("audit_domain_models"), Input("split", (names.SENTENCES,), "all")),
        packages=(*names.MODEL_PACKAGES, "scipy", "spacy"),
        runs=("redact",),
    ),
    Stage(
        name="audit",
        title="Collect what attacks found, compare lower bounds on epsilon with the claims, and raise alarms.",
        table="audit",
        module=f"{names.STAGES}.audit.audit",
        configs=_ATTACKED,
        fields={"audit": ("confidence", "num_trials", "copies", "owner_records")},
        inputs=(
            Input("train", ("events.json", names.FIGURES)),
            Input("audit_model", ("events.json", names.FIGURES, "canaries.parquet")),
            Input("audit_membership"),
            Input("audit_extraction"),
            Input("audit_canaries"),
            Input("audit_domains", optional=True),
            Input("audit_secrets", optional=True),
        ),
        packages=(*names.MODEL_PACKAGES, "dp-accounting", "scipy"),
        optional=True,
    ),
)
