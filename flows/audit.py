"""The flow of the audit: attacks on the trained model, and on models of its recipe that only the audit sees."""

from __future__ import annotations

from prefect import flow

from flows.fit import fit
from flows.running.ending import one_message
from flows.running.lifecycle import run_of
from flows.running.spec import AUDIT
from flows.running.wiring import Outputs, whole
from tasks.stages import audit as audit_stage
from tasks.stages import (
    audit_canaries,
    audit_domain_models,
    audit_domains,
    audit_extraction,
    audit_membership,
    audit_model,
    audit_secrets,
)


@flow(name="audit", persist_result=False)
@one_message
def audit(config: str = "reticent.toml", trained: dict[str, Outputs] | None = None) -> Outputs:
    """Attacks a trained model. Skips what the settings do not ask for (``audit.enabled``, ``audit.domains``,
    ``audit.num_secrets``).

    Args:
        config: settings file, or specification of a run that has begun
        trained: outputs of the preparation and the training; looked up in the store if not given
    """
    with run_of(config, AUDIT) as run:
        t = trained or fit(run)
        rows = {name: t[name] for name in ("split", "redact")}
        read = {**rows, **{name: t[name] for name in ("shard", "estimate", "gate", "train")}}
        models = {"train": t["train"], "audit_model": whole(audit_model, run, **read)}
        members = whole(audit_membership, run, **models, **rows)
        extracted = whole(audit_extraction, run, **models, **rows)
        exposed = whole(audit_canaries, run, **models)
        asked = whole(audit_secrets, run, train=t["train"], **rows)
        references = whole(audit_domain_models, run, **read)  # Kabra and Elenberg 2023, section 4
        leaked = whole(audit_domains, run, train=t["train"], audit_domain_models=references, split=rows["split"])
        attacks = {
            "audit_membership": members,
            "audit_extraction": extracted,
            "audit_canaries": exposed,
            "audit_domains": leaked,
            "audit_secrets": asked,
        }
        return whole(audit_stage, run, **models, **attacks)
