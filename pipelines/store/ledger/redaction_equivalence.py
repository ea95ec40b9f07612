"""Finds earlier redactions that equal the run's: another id, but the same tokens masked in the same sentences.

The id of a redaction depends on its code and packages (`release_facts.redaction_id`). An upgrade changes both, and
often not one mask. Earlier tables and models are then still of the same redaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pipelines.graph_names import REDACTED
from pipelines.store.ledger.release_facts import (
    LATER_STAGES,
    REDACTION_STAGES,
    redacted_output,
    redaction_id,
    redaction_id_of,
)
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.objects.session import Session
from pipelines.store.place.roots import Roots

Keys = Mapping[str | None, str]


def redactions_of(session: Session, wanted: Collection[str], now: Keys | None) -> frozenset[str]:
    """Returns all ids of the run's redaction.

    Args:
        wanted: other ids to compare. The result has those with the same masks in every row.
        now: keys of the run's redacted text by partition; None if the text is not stored.
    """
    current = redaction_id(session)
    unknown = {name for name in wanted if name != current}
    if not unknown or now is None:
        return frozenset({current})
    output = redacted_output(session, {"redact": tuple(now.items())})
    found = {current} | ({output} if output else set())
    digests = _digests(session.roots, now)
    seen = set()
    for record in runs.records(session.roots):
        if not unknown - found:
            break
        then = {p: key for stage, p, key in record.get("artifacts", []) if stage == "redact"}
        earlier = _redaction_id_of_run(session, record) if tuple(then.items()) not in seen else None
        seen.add(tuple(then.items()))
        if earlier in unknown and digests is not None and _digests(session.roots, then) == digests:
            found.add(earlier)
    return frozenset(found)


def _digests(roots: Roots, keys: Keys) -> dict[str | None, str] | None:
    found = {partition: manifests.load(roots, "redact", key) for partition, key in keys.items()}
    if not found or None in found.values():
        return None
    return {partition: manifest.output_digest((REDACTED,)) for partition, manifest in found.items() if manifest}


def _redaction_id_of_run(session: Session, record: Mapping[str, Any]) -> str | None:
    """Returns the id of an earlier run's redaction, from the ingredients of its artifacts."""
    own = {}
    for stage, _, key in record.get("artifacts", []):
        if stage in REDACTION_STAGES and stage not in own:
            manifest = manifests.load(session.roots, stage, key)
            if manifest is None or "ingredients" not in manifest.lineage:
                return None
            own[stage] = {name: value for name, value in manifest.lineage["ingredients"].items() if name != "inputs"}
    return redaction_id_of(session, own) if own.keys() | LATER_STAGES == set(REDACTION_STAGES) else None
