"""Enters tables of public rows in the ledger, because published rows stay known whatever is published later.

A table has no epsilon. It is entered as a release of the method `TABLE`, with an event that touches no record. So
claims of later runs on the same files know that such rows are public, and which redaction judged them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from pipelines.accounting.decisions import made as decisions_made
from pipelines.accounting.events import NoEvent
from pipelines.accounting.facts import ReleaseFacts
from pipelines.accounting.ledger import TABLE, Release
from pipelines.stage import Stage, Step
from pipelines.store.building.lookup import resolve_key
from pipelines.store.ledger.documents import corpus_of, split_keys, with_data, write_documents
from pipelines.store.ledger.ledger import document_of, published, releases_of
from pipelines.store.ledger.redaction_equivalence import redactions_of
from pipelines.store.ledger.release_facts import data_tokens, redaction_id
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.ledger_lines import append, locked, read_documents
from pipelines.store.objects.session import Session
from pipelines.walks import upstream, walk


def note_table(session: Session, key: str, stats: Mapping[str, Any]) -> None:
    """Enters the run's table of public rows, unless the ledger has it. Call it before the table is published.

    Child runs publish no table, nor do runs that wait with training (`train.when`).

    Raises:
        LedgerError: the ledger was changed or damaged.
    """
    publishes = session.spec.purpose == "release" and session.spec.trained_by is None
    if not publishes or session.is_table_noted or not stats.get("num_published"):
        return
    redaction, tokens = redaction_id(session), data_tokens(session)
    with locked(session.roots) as path:
        known = releases_of(session.roots, read_documents(session.roots, path))
        earlier = {name for release in known if release.is_table and release.facts for name in release.facts.redactions}
        same = redactions_of(session, earlier, _redacted_now(session) if earlier - {redaction} else None)
        keys = split_keys(session)
        if not _is_known(known, same, tokens, corpus_of(session.roots, keys)):
            train: Any = session.configs["train"]
            gate: Any = session.configs["gate"]
            table = Release(
                release_id=secrets.token_hex(8),
                run_id=session.spec.run_id,
                key=key,
                event=NoEvent(),
                delta=train.target_delta,
                epsilon=0.0,
                facts=ReleaseFacts(
                    method=TABLE,
                    record="sentence",
                    num_private_records=0,
                    phases=(),
                    redactions=frozenset({redaction}),
                    publishes_rows=True,
                    holds_rows=gate.holds,
                    decisions=decisions_made(session.configs),
                ),
            )
            table, names = with_data(session.roots, table, tokens, keys, known)
            write_documents(session.roots, table.release_id, names)
            append(session.roots, path, [document_of(table), published(table.release_id)])
    session.is_table_noted = True


def _is_known(known: list[Release], redactions: frozenset[str], tokens: frozenset[str], corpus: str | None) -> bool:
    """Returns True if tables of this redaction are entered for all of these files and documents."""
    named: set[str] = set()
    by_id = {release.release_id: release for release in known}
    same = [r for r in known if r.is_table and r.facts is not None and not redactions.isdisjoint(r.facts.redactions)]
    for release in same:
        # Its own tokens are those that no earlier entry named. The others stand in the entries that it overlaps.
        named |= release.tokens or set()
        named.update(*(by_id[o].tokens or () for o in release.overlaps if o in by_id))
    # A table of an earlier version, whose documents are not known, overlaps with every later entry.
    return tokens <= named and any(r.documents is None or r.documents.corpus == corpus for r in same)


def _redacted_now(session: Session) -> dict[str | None, str] | None:
    """Returns the keys of the run's redacted text by partition; None until all of it is stored."""

    def look_up(stage: Stage, steps: tuple[Step, ...]) -> list[str] | None:
        keys = []
        for step in steps:
            key, _ = resolve_key(session, stage.name, step.partition, step.inputs)
            if manifests.load(session.roots, stage.name, key) is None:
                return None
            keys.append(key)
        return keys

    known = walk(session.partition_names, look_up, upstream({"redact"}))
    return None if known is None else dict(known["redact"])
