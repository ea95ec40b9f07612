"""The evidence of all audits in the ledger, and the alarm that stops a run.

At 95 %, one audit's lower bound lies above a correct claim in one of twenty audits. So the evidence of all audits
together raises the alarm. With correct engines, it ever rises that far in one store of a thousand
(`pipelines.attacks.sequential_test`). It is computed from the ledger's lines, so that no edit can lower it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.attacks.sequential_test import SequentialTest
from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.store.objects.ledger_lines import append, locked, read_documents
from pipelines.store.objects.session import Session, open_session
from pipelines.store.place.ledger_file import AUDITED, AUDITS_SETTLED
from pipelines.store.place.roots import Roots

STAGE = "audit"


class AuditAlarm(PrivacyGateError):  # messages and pages call it an alarm
    """Audits refute the claim. Other gate errors do not say so."""


def audit_of(session: Session) -> dict[str, Any] | None:
    """Reads the result of this run's audit; None if the run had no audit."""
    key = _key(session, STAGE)
    audit: dict[str, Any] | None = session.roots.private_files(STAGE, key).find_json("audit.json") if key else None
    return audit


def _key(session: Session, stage: str) -> str | None:
    return next((o.key for o in reversed(session.outcomes) if o.stage == stage and o.key), None)


def require_no_alarm(run: str) -> None:
    """Enters the run's audit in the ledger, once, and stops the run if the claims are refuted.

    An alarm that nobody has cleared also stops a run without an audit, because that run trains with the refuted engine.

    Raises:
        AuditAlarm: the claims are refuted. The model stays where it is, and does not become the latest one.
        LedgerError: the ledger was changed or damaged.
    """
    session = open_session(run)
    found = audit_of(session)
    evidence = found["evidence"] if found is not None else []
    if session.spec.purpose != "release" or _key(session, "train") is None:
        return
    with locked(session.roots) as path:
        documents = read_documents(session.roots, path)
        # The audit's coins were tossed once, so a second look at their result is no new evidence.
        known = {d["audit"] for d in documents if d["type"] == AUDITED}
        lines = [
            {"type": AUDITED, **one, "run_id": session.spec.run_id} for one in evidence if one["audit"] not in known
        ]
        if lines:
            append(session.roots, path, lines)
            documents += lines
    if (state := sequential_test_of(documents)).is_alarm:
        where = "; the report of this run has the figures" if found is not None else ""
        raise AuditAlarm(
            "the audit refutes the claimed epsilon: attacks succeed more often than it allows, or the training's steps "
            "are not those that it is computed from. Correct trainings show this in one store of a thousand "
            f"(audit {str(state.alarmed_by)[:12]}). Nothing becomes the latest model{where}. Once "
            "the cause is found, `reticent audit --settle REASON` lets audits count anew"
        )
    if found is not None and _is_settled(found, documents):
        raise AuditAlarm(
            "this audit refuted the claimed epsilon. That was settled, so later ones count anew; but its model was "
            "made by what was refuted. Train anew: `reticent audit --force train --force audit.model`"
        )


def _is_settled(found: Mapping[str, Any], documents: Sequence[Mapping[str, Any]]) -> bool:
    """Returns True if a cleared alarm was raised by this audit, or would have been by this audit alone."""
    settled = [at for at, document in enumerate(documents) if document["type"] == AUDITS_SETTLED]
    own = {one["audit"] for one in found["evidence"]}
    before = {d["audit"] for d in documents[: settled[-1]] if d["type"] == AUDITED} if settled else set()
    raised = {sequential_test_of(documents[:at]).alarmed_by for at in settled}
    return bool(own & raised) or bool(found["alarm"] and own and own <= before)


def sequential_test_of(documents: Sequence[Mapping[str, Any]]) -> SequentialTest:
    """Combines the evidence of all audits since the last alarm was cleared."""
    state = SequentialTest()
    for document in documents:
        if document["type"] == AUDITS_SETTLED:
            state = SequentialTest()
        elif document["type"] == AUDITED:
            state = state.after(document["audit"], document["p_value"])
    return state


def clear_alarm(roots: Roots, reason: str) -> None:
    """Clears an alarm, so that audits count anew.

    Raises:
        ConfigError: there is no alarm, or no reason.
    """
    if not reason.strip():
        raise ConfigError("--settle needs a reason, which will stand in the ledger")
    with locked(roots) as path:
        if not sequential_test_of(read_documents(roots, path)).is_alarm:
            raise ConfigError("no audit has raised an alarm; there is nothing to settle")
        append(roots, path, [{"type": AUDITS_SETTLED, "reason": reason.strip()}])
