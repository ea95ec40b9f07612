"""Audit, domain models: for each domain, one more training by the run's recipe, without that domain's documents."""

from __future__ import annotations

from typing import Any, Final

from pipelines.context import StageContext
from pipelines.corpus.tables import SENTENCES
from pipelines.stages.audit.domain_choice import attacked_domains
from pipelines.stages.audit.training import train_each_without
from pipelines.tables import schema

REFERENCES: Final = schema("references", "domain: string, folder: string")
"""The folder of the model that was trained without a domain, by domain."""


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes a folder for each model, and ``references.parquet``. All of them are private.

    Raises:
        ConfigError: the training fold has fewer than two domains that the run's policies know.
    """
    documents: dict[str | None, dict[str, None]] = {}
    for artifact in ctx.inputs["split"]:
        for row in artifact.table(SENTENCES).rows(("doc_id", "domain", "fold")):
            if row["fold"] == "train":
                documents.setdefault(row["domain"], {})[row["doc_id"]] = None
    domains = attacked_domains(documents, ctx.configs["redact"])
    folders = {domain: f"reference-{number}" for number, domain in enumerate(domains)}
    train_each_without(
        ctx, {folder: [(doc_id, None) for doc_id in documents[domain]] for domain, folder in folders.items()}
    )
    with ctx.out.table(REFERENCES) as writer:
        for domain, folder in folders.items():
            writer.append(domain=domain, folder=folder)
    return {"num_models": len(folders)}
