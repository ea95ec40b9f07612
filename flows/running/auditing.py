"""What audits said, night after night, in the ledger; and the alarm that stops a run.

One audit's lower bound lies above a correct claim in one of twenty audits, at 95 %. What raises the alarm is therefore
the evidence of all audits together, which correct engines let rise that far in one store of a thousand, ever
(`pipelines.attacks.nights`). It is computed from the ledger's lines, so that no edit can lower it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.store.ledger import append, locked, read_documents
from pipelines.store.ledger_file import AUDITED, AUDITS_SETTLED
from pipelines.store.roots import Roots
from pipelines.store.session import Session, open_session

if TYPE_CHECKING:
    from pipelines.attacks.nights import Nights

STAGE = "audit"


class AuditAlarm(PrivacyGateError):  # it is called an alarm wherever it is told of
    """Audits refute what is claimed; other gate errors say nothing of that."""


def audit_of(session: Session) -> dict[str, Any] | None:
    """What the audit of this run found; None where it was left out."""
    key = _key(session, STAGE)
    found: dict[str, Any] | None = session.roots.private_files(STAGE, key).find_json("audit.json") if key else None
    return found


def _key(session: Session, stage: str) -> str | None:
    return next((o.key for o in reversed(session.outcomes) if o.stage == stage and o.key), None)


def require_no_alarm(run: str) -> None:
    """Enters the run's audit in the ledger, once, and stops the run if the claims are refuted.

    Raises:
        AuditAlarm: they are. The model stays where it is and does not become the latest one.
        LedgerError: the ledger is not as it was written.
    """
    session = open_session(run)
    found = audit_of(session)
    # Coins were tossed when the canaries were trained on: another look at the same model is no new evidence.
    key = _key(session, "audit_model")
    if key is None or found is None or session.spec.purpose != "release":
        return
    with locked(session.roots) as path:
        documents = read_documents(session.roots, path)
        if found["p_value"] is not None and key not in {d.get("audit") for d in documents if d["type"] == AUDITED}:
            line = {"type": AUDITED, "audit": key, "run_id": session.spec.run_id, "p_value": found["p_value"]}
            append(session.roots, path, [line])
            documents.append(line)
    state = nights_of(documents)
    if state.is_alarm:
        raise AuditAlarm(
            "the audit refutes the claimed epsilon: attacks on canaries succeed more often than it allows, in a way "
            f"that a correct training shows in one store of a thousand (audit {str(state.alarmed_by)[:12]}). Nothing "
            "becomes the latest model; the report of this run has the figures. Once the cause is found, `reticent "
            "audit --settle REASON` lets audits count anew"
        )


def nights_of(documents: Sequence[Mapping[str, Any]]) -> Nights:
    """The evidence of all audits since the last alarm was settled."""
    from pipelines.attacks.nights import Nights

    state = Nights()
    for document in documents:
        if document["type"] == AUDITS_SETTLED:
            state = Nights()
        elif document["type"] == AUDITED:
            state = state.after(document["audit"], document["p_value"])
    return state


def settle(roots: Roots, reason: str) -> None:
    """Lets audits count anew after an alarm.

    Raises:
        ConfigError: there is no alarm, or no reason.
    """
    if not reason.strip():
        raise ConfigError("--settle needs a reason, which will stand in the ledger")
    with locked(roots) as path:
        if not nights_of(read_documents(roots, path)).is_alarm:
            raise ConfigError("no audit has raised an alarm; there is nothing to settle")
        append(roots, path, [{"type": AUDITS_SETTLED, "reason": reason.strip()}])
