"""Collects what a run has to know about earlier releases on its files."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from pipelines.accounting.ledger import Release, Scope, of_people, overlapping
from pipelines.context import Releases
from pipelines.files import canonical_json
from pipelines.store.ledger.documents import sharing_documents, split_keys
from pipelines.store.ledger.ledger import copies_of, document_of, read_ledger
from pipelines.store.ledger.redaction_equivalence import Keys, redactions_of
from pipelines.store.ledger.release_facts import data_tokens
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.anchors import release_stages
from pipelines.store.objects.session import Session
from pipelines.store.place.roots import Roots


def releases_on_files(session: Session, redacted: Keys) -> Releases:
    """Returns the published releases that may share a record, or a person, with the run, whatever their keys are.

    Models of audits link releases that share records with them, and are left out themselves.

    Args:
        redacted: keys of the run's redacted text by partition.

    Raises:
        LedgerError: the ledger was changed or damaged.
    """
    everything = read_ledger(session.roots)  # with abandoned entries, whose documents later entries do not repeat
    tokens = data_tokens(session)
    sharing = sharing_documents(session.roots, split_keys(session), everything)
    scope: Scope = getattr(session.configs.get("guarantee"), "budget_scope", "overlap")
    linked: list[Release] = []
    for group in overlapping(everything, scope):
        if any(r.tokens is None or tokens & r.tokens or r.release_id in sharing for r in group):
            linked += list(group)
    claimed = [r for r in linked if r.is_claimed]
    corpus: Any = session.configs.get("corpus")
    others = {name for r in claimed if r.facts is not None for name in r.facts.redactions}
    order = {r.release_id: n for n, r in enumerate(everything)}
    return Releases(
        published=tuple(sorted(claimed, key=lambda r: order[r.release_id])),
        of_people=of_people(everything, linked, corpus.space_of_people if corpus else "", scope),
        redactions=redactions_of(session, others, redacted),
        adopted=adopted_models(session.roots),
        is_copied=bool(copies_of(session.roots)),
    )


def adopted_models(roots: Roots) -> dict[str, str]:
    """Returns keys of adopted models, each with its key before the adoption (`store.upkeep.maintenance.adopt`)."""
    adopted = {}
    for stage in release_stages():
        for path in sorted((roots.private / "manifests" / stage).glob("*.json")):
            manifest = manifests.load(roots, stage, path.stem)
            if manifest is not None and manifest.lineage.get("adopted_from"):
                adopted[path.stem] = str(manifest.lineage["adopted_from"])
    return adopted


def digest_of(releases: Releases) -> str:
    """Returns the digest of the releases that enters the key of a stage that reads them."""
    documents = [{**document_of(replace(r, tokens=None, documents=None)), "run_id": None} for r in releases.published]
    known = [sorted(releases.redactions), releases.is_current, dict(releases.recipe)]
    if releases.is_copied:
        known.append("copied")
    if releases.of_people:
        known.append([r.release_id for r in releases.of_people])
    return hashlib.sha256(canonical_json([known, documents])).hexdigest()
