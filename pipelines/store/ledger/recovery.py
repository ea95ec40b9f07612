"""Recovers a damaged ledger without a backup: enters anew what can still be known, and says so.

Recovery makes nothing cheaper. A release that can be read but is not vouched for counts as published, may share records
with every other release, and gets no credit. A release whose event contradicts its epsilon, and lines that are gone,
count as a release without any noise. The evidence of audits and their alarm are kept. An audit that is not vouched for
counts as one that refutes the claim. The old file is kept beside the new one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipelines.accounting.events import NonPrivate
from pipelines.accounting.ledger import Release, epsilon_alone
from pipelines.errors import ConfigError, PrivacyGateError, ReticentError
from pipelines.store.ledger.check import check_releases, is_close
from pipelines.store.ledger.documents import check_documents
from pipelines.store.ledger.ledger import document_of, published, release_of, releases_of, with_line
from pipelines.store.objects.anchors import anchors, set_changed_aside
from pipelines.store.objects.forgotten import digest_now, forgotten_path, read_forgotten
from pipelines.store.objects.ledger_lines import append, locked, read_documents
from pipelines.store.place import identity, ledger_file, location
from pipelines.store.place.disk import digest_file, numbered
from pipelines.store.place.ledger_file import (
    ACKNOWLEDGED,
    AUDITED,
    AUDITS_SETTLED,
    COPIED,
    DOCUMENTS,
    FORGOT,
    SIGNATURE_FIELDS,
    SIGNED,
    LedgerError,
)
from pipelines.store.place.locks import exclusive_store_lock
from pipelines.store.place.roots import Roots
from pipelines.store.place.seals import SealError, bears_seal

_DEFAULT_DELTA = 1e-5
_REFUTED = 1e-300
"""The p-value of an audit whose line is not vouched for."""


@dataclass
class _Remains:
    """The parts of a damaged ledger that can still be read."""

    releases: list[Release] = field(default_factory=list)
    audits: list[dict[str, Any]] = field(default_factory=list)
    copies: list[dict[str, Any]] = field(default_factory=list)
    signatures: list[dict[str, Any]] = field(default_factory=list)
    published: set[str] = field(default_factory=set)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    num_unverified: int = 0
    num_lost: int = 0


def acknowledge_damage(roots: Roots, reason: str) -> dict[str, Any]:
    """Begins the ledger anew with what can still be known.

    Args:
        roots: the store, opened without comparing it with its secret.
        reason: reason in the user's words, which stands in the ledger.

    Returns:
        ``num_kept``, ``num_unverified``, ``num_lost``, and ``old_ledger``, the path of the old file (None if there was
        none).

    Raises:
        ConfigError: nothing is damaged, or no reason is given.
        StoreError: a run is using the store, or ``store.json`` cannot be parsed.
    """
    if not reason.strip():
        raise ConfigError("--acknowledge-damage needs a reason, which will stand in the ledger")
    with exclusive_store_lock(roots.private), locked(roots) as path:
        if _is_whole(roots, path):
            raise ConfigError("the privacy ledger is as it was written; there is no damage to acknowledge")
        changed = set_changed_aside(roots)
        known = [anchor for _, anchor in anchors(roots)]
        remains = _read_remains(roots, path, max((anchor.count for anchor in known), default=0))
        remains.num_lost += len(set(changed) - {release.key for release in remains.releases})
        old = path.rename(numbered(path.parent, "damaged-{}.jsonl")) if path.exists() else None
        lines = [
            {
                "type": ACKNOWLEDGED,
                "reason": reason,
                "num_kept": len(remains.releases),
                "num_unverified": remains.num_unverified,
                "num_lost": remains.num_lost,
                "old_ledger": digest_file(old) if old else None,
                "voids": sorted([anchor.count, anchor.head] for anchor in known),
            }
        ]
        for release in remains.releases:
            lines.append(document_of(release))
            if release.release_id in remains.published:
                lines.append(published(release.release_id))
        if remains.num_lost:
            lost = _lost(remains)
            lines += [document_of(lost), published(lost.release_id)]
        lines += [*remains.audits, *remains.copies, *remains.signatures, {"type": FORGOT, "digest": _forgotten(roots)}]
        append(roots, path, lines)
        recorded = location.location_of(roots)
        is_put_back = recorded and recorded.path == str(roots.private) and not location.is_here(roots, recorded)
        if remains.num_lost and is_put_back:
            location.record_location(roots)  # the lines that an older copy lacks are counted now
    return {
        "num_kept": len(remains.releases),
        "num_unverified": remains.num_unverified,
        "num_lost": remains.num_lost,
        "old_ledger": str(old) if old else None,
    }


def _is_whole(roots: Roots, path: Path) -> bool:
    try:
        identity.check_identity(roots.private, roots.secret)
        check_releases(roots, releases_of(roots, read_documents(roots, path)))
        read_forgotten(roots)
    except (PrivacyGateError, SealError):
        return False
    return True


def _forgotten(roots: Roots) -> str | None:
    """Returns the digest of the present list of forgotten documents. Sets aside a list that was changed."""
    try:
        return digest_now(roots)
    except SealError:
        path = forgotten_path(roots)
        path.rename(numbered(path.parent, "forgotten.damaged-{}.json"))
        return None


def _read_remains(roots: Roots, path: Path, expected: int) -> _Remains:
    remains = _Remains()
    raw = ledger_file.readable_lines(path)
    for line in raw:
        document = _parsed(line)
        is_verified = document is not None and bears_seal(document, "ledger line", roots.secret)
        if document is None:
            remains.num_lost += 1
            continue
        remains.num_unverified += not is_verified
        try:
            if document["type"] == "published":
                remains.published.add(str(document["release_id"]))
            elif document["type"] == "release":
                release = release_of(document)
                remains.releases.append(release if is_verified else _unverified(release))
            elif document["type"] == DOCUMENTS and is_verified:
                remains.documents[str(document["release_id"])] = document
            elif document["type"] == AUDITED:
                audit = {name: document[name] for name in ("type", "audit", "run_id", "p_value")}
                remains.audits.append(audit if is_verified else {**audit, "p_value": _REFUTED})
            elif document["type"] == COPIED:
                remains.copies.append({name: document[name] for name in ("type", "reason", "at")})
            elif document["type"] == SIGNED and is_verified:
                remains.signatures.append({name: document[name] for name in ("type", *SIGNATURE_FIELDS)})
            elif document["type"] == AUDITS_SETTLED and is_verified:
                remains.audits.append({name: document[name] for name in ("type", "reason")})
        except (ReticentError, KeyError, TypeError, ValueError, ArithmeticError):
            remains.num_lost += 1
    remains.releases = [_with_documents(roots, r, remains.documents.get(r.release_id)) for r in remains.releases]
    remains.num_lost += max(0, expected - len(raw))
    if remains.num_lost or remains.num_unverified:  # the lost line may be the mark of any of them
        remains.published |= {release.release_id for release in remains.releases}
    return remains


def _with_documents(roots: Roots, release: Release, line: Mapping[str, Any] | None) -> Release:
    """Adds what a later line says about a release's documents. If they are lost, it overlaps with every other."""
    if release.tokens is not None and line is not None:
        release = with_line(release, line)
    try:
        check_documents(roots, [release])
    except LedgerError:
        return replace(release, tokens=None, documents=None)
    return release


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "type" in document else None


def _unverified(release: Release) -> Release:
    """Returns a release whose line is not vouched for: it may share records with any other, and gets no credit."""
    plain = replace(release, tokens=None, overlaps=(), documents=None, facts=None, is_public=True)
    if is_close(epsilon_alone(plain), math.inf if release.epsilon is None else release.epsilon):
        return plain
    return replace(plain, event=NonPrivate(), epsilon=None)


def _lost(remains: _Remains) -> Release:
    return Release(
        release_id=f"lost-{remains.num_lost}-lines",
        key="unknown",
        event=NonPrivate(),
        delta=max((release.delta for release in remains.releases), default=_DEFAULT_DELTA),
    )
