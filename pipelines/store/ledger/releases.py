"""What a run has to know of the releases on its files."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from pipelines.accounting.ledger import Scope


def releases_on_files(session: Session, redacted: Keys) -> Releases:
    """The published releases that may share a record with the run, oldest first, whatever key they have.

    Models of audits link releases that share records with them, and are left out themselves.

    Args:
        redacted: the keys of the run's redacted text by partition.

    Raises:
        LedgerError: the ledger is not as it was written.
    """
    from pipelines.accounting.ledger import overlapping

    everything = read_ledger(session.roots)  # also what ended early: later entries do not repeat what it named
    tokens = data_tokens(session)
    sharing = sharing_documents(session.roots, split_keys(session), everything)
    scope: Scope = getattr(session.configs.get("guarantee"), "budget_scope", "overlap")
    found = []
    for group in overlapping(everything, scope):
        if any(r.tokens is None or tokens & r.tokens or r.release_id in sharing for r in group):
            found += list(group)
    found = [r for r in found if r.is_claimed]
    others = {name for r in found if r.facts is not None for name in r.facts.redactions}
    order = {r.release_id: n for n, r in enumerate(everything)}
    return Releases(
        published=tuple(sorted(found, key=lambda r: order[r.release_id])),
        redactions=redactions_of(session, others, redacted),
        adopted=adopted_models(session.roots),
        is_copied=bool(copies_of(session.roots)),
    )


def adopted_models(roots: Roots) -> dict[str, str]:
    """Returns keys of adopted models, each with its key before the adoption (`store.upkeep.maintenance.adopt`)."""
    found = {}
    for stage in release_stages():
        for path in sorted((roots.private / "manifests" / stage).glob("*.json")):
            manifest = manifests.load(roots, stage, path.stem)
            if manifest is not None and manifest.lineage.get("adopted_from"):
                found[path.stem] = str(manifest.lineage["adopted_from"])
    return found


def digest_of(releases: Releases) -> str:
    """What of the releases enters the key of a stage that reads them."""
    documents = [{**document_of(replace(r, tokens=None, documents=None)), "run_id": None} for r in releases.published]
    known = [sorted(releases.redactions), releases.is_current, dict(releases.recipe)]
    known += ["copied"] * releases.is_copied
    return hashlib.sha256(canonical_json([known, documents])).hexdigest()
