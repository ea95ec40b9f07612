"""The way out of a damaged ledger where there is no backup: what can still be known is entered anew, and said so.

Nothing gets cheaper by it. A release that can be read but not vouched for counts as published, may share records with
every other, and gets no credit; one whose event contradicts its epsilon, and lines that are gone, count as a release
without any noise. What audits said is kept, and so is their alarm; an audit that cannot be vouched for counts as one
that refutes the claim. The old file is kept beside the new one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from pipelines.accounting.ledger import Release

_DEFAULT_DELTA = 1e-5
_REFUTED = 1e-300
"""The p-value of an audit whose line cannot be vouched for."""


@dataclass
class _Found:
    """What is left of a ledger."""

    releases: list[Release] = field(default_factory=list)
    audits: list[dict[str, Any]] = field(default_factory=list)
    copies: list[dict[str, Any]] = field(default_factory=list)
    signatures: list[dict[str, Any]] = field(default_factory=list)
    published: set[str] = field(default_factory=set)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    num_unverified: int = 0
    num_lost: int = 0


def acknowledge_damage(roots: Roots, reason: str) -> dict[str, Any]:
    """Begins the ledger anew with what can still be known of it.

    Args:
        roots: the store, opened without comparing it with its secret.
        reason: why, in the user's words; stands in the ledger.

    Returns:
        ``num_kept``, ``num_unverified``, ``num_lost``, and ``old_ledger``, where the old file is now (None: there was
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
        found = _found(roots, path, max((anchor.count for anchor in known), default=0))
        found.num_lost += len(set(changed) - {release.key for release in found.releases})
        old = _set_aside(path)
        lines = [
            {
                "type": ACKNOWLEDGED,
                "reason": reason,
                "num_kept": len(found.releases),
                "num_unverified": found.num_unverified,
                "num_lost": found.num_lost,
                "old_ledger": digest_file(old) if old else None,
                "voids": sorted([anchor.count, anchor.head] for anchor in known),
            }
        ]
        for release in found.releases:
            lines.append(document_of(release))
            if release.release_id in found.published:
                lines.append(published(release.release_id))
        if found.num_lost:
            lost = _lost(found)
            lines += [document_of(lost), published(lost.release_id)]
        lines += [*found.audits, *found.copies, *found.signatures, {"type": FORGOT, "digest": _forgotten(roots)}]
        append(roots, path, lines)
        lives = location.location_of(roots)
        if found.num_lost and lives and lives.path == str(roots.private) and not location.is_here(roots, lives):
            location.record_location(roots)  # an older copy was put back in place, and what it lacks is counted now
    return {
        "num_kept": len(found.releases),
        "num_unverified": found.num_unverified,
        "num_lost": found.num_lost,
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
    """The digest of the list of what was forgotten, as it is now; one that was edited is set aside."""
    try:
        return digest_now(roots)
    except SealError:
        path = forgotten_path(roots)
        path.rename(numbered(path.parent, "forgotten.damaged-{}.json"))
        return None


def _found(roots: Roots, path: Path, expected: int) -> _Found:
    found = _Found()
    raw = ledger_file.readable_lines(path)
    for line in raw:
        document = _parsed(line)
        is_verified = document is not None and bears_seal(document, "ledger line", roots.secret)
        if document is None:
            found.num_lost += 1
            continue
        found.num_unverified += not is_verified
        try:
            if document["type"] == "published":
                found.published.add(str(document["release_id"]))
            elif document["type"] == "release":
                release = release_of(document)
                found.releases.append(release if is_verified else _unverified(release))
            elif document["type"] == DOCUMENTS and is_verified:
                found.documents[str(document["release_id"])] = document
            elif document["type"] == AUDITED:
                audit = {name: document[name] for name in ("type", "audit", "run_id", "p_value")}
                found.audits.append(audit if is_verified else {**audit, "p_value": _REFUTED})
            elif document["type"] == COPIED:
                found.copies.append({name: document[name] for name in ("type", "reason", "at")})
            elif document["type"] == SIGNED and is_verified:
                found.signatures.append({name: document[name] for name in ("type", *SIGNATURE_FIELDS)})
            elif document["type"] == AUDITS_SETTLED and is_verified:
                found.audits.append({name: document[name] for name in ("type", "reason")})
        except (ReticentError, KeyError, TypeError, ValueError, ArithmeticError):
            found.num_lost += 1
    found.releases = [_with_documents(roots, r, found.documents.get(r.release_id)) for r in found.releases]
    found.num_lost += max(0, expected - len(raw))
    if found.num_lost or found.num_unverified:  # the mark of any of them may be what was lost
        found.published |= {release.release_id for release in found.releases}
    return found


def _with_documents(roots: Roots, release: Release, line: Mapping[str, Any] | None) -> Release:
    """A release with what a later line says of its documents; it overlaps with every other where they are lost."""
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
    """A release of which the line cannot be vouched for: it may share records with any other, and gets no credit."""
    from pipelines.accounting.events import NonPrivate
    from pipelines.accounting.ledger import epsilon_alone

    plain = replace(release, tokens=None, overlaps=(), documents=None, facts=None, is_public=True)
    if is_close(epsilon_alone(plain), math.inf if release.epsilon is None else release.epsilon):
        return plain
    return replace(plain, event=NonPrivate(), epsilon=None)


def _lost(found: _Found) -> Release:
    from pipelines.accounting.events import NonPrivate
    from pipelines.accounting.ledger import Release

    return Release(
        release_id=f"lost-{found.num_lost}-lines",
        key="unknown",
        event=NonPrivate(),
        delta=max((release.delta for release in found.releases), default=_DEFAULT_DELTA),
    )


def _set_aside(path: Path) -> Path | None:
    if not path.exists():
        return None
    return path.rename(numbered(path.parent, "damaged-{}.jsonl"))
