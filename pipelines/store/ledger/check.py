"""Checks of the ledger against other records of its releases: recomputed epsilons, and the events of the models."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipelines.accounting.events import from_json, leaves
from pipelines.accounting.ledger import Release, epsilon_alone
from pipelines.store.ledger.documents import check_documents
from pipelines.store.objects.anchors import events_of, release_stages, removed_releases
from pipelines.store.place.ledger_file import WAY_OUT, LedgerError
from pipelines.store.place.roots import Roots

_TOLERANCE = 0.01
"""Relative difference between an epsilon and its recomputation. A later accountant may be a little tighter."""


def check_releases(roots: Roots, releases: Sequence[Release]) -> None:
    """Checks every entry of a ledger whose lines and seals are whole.

    Lines of the oldest kind have no seal, so only this check can reveal a change to them.

    Raises:
        LedgerError: an entry's event costs another epsilon than the entry says, or is not the event of its model. Or
            the record of its documents was changed.
    """
    check_documents(roots, releases)
    for release in releases:
        _check_epsilon(release)
    by_key: dict[str, list[Release]] = {}
    for release in releases:
        by_key.setdefault(release.key, []).append(release)
    for stage in release_stages():
        for key, entries in by_key.items():
            if roots.manifest_path(stage, key).exists():
                _check_events(key, entries, events_of(roots, stage, key))
    for _, document in removed_releases(roots):
        _check_events(document["key"], by_key.get(document["key"], []), document["events"])


def is_close(found: float, stated: float) -> bool:
    """Returns True if an entry's epsilon is the cost of its event. Both may be infinite."""
    return math.isclose(found, stated, rel_tol=_TOLERANCE, abs_tol=1e-6)


def _check_epsilon(release: Release) -> None:
    found, stated = epsilon_alone(release), math.inf if release.epsilon is None else release.epsilon
    if not is_close(found, stated):
        raise LedgerError(
            f"the entry {release.release_id} of the privacy ledger contradicts itself: its event costs epsilon "
            f"{found:.4g}, and it says {stated:.4g}. {WAY_OUT}"
        )


def _check_events(key: str, entries: Sequence[Release], events: object) -> None:
    if not entries or not isinstance(events, dict):
        return
    of_model = sorted(map(repr, leaves(from_json(events["event"]))))
    # One key may have several entries, one for each training. The model belongs to one of them.
    if not any(sorted(map(repr, leaves(entry.event))) == of_model for entry in entries):
        raise LedgerError(
            f"the privacy ledger has another event for the model {key[:12]} than the model's own record. {WAY_OUT}"
        )
