"""``reticent audit``: runs the whole job with the audit switched on, and shows the results of the attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.commands.run import run_job
from flows.running.auditing import AuditAlarm, clear_alarm
from flows.running.spec import open_store
from pipelines.errors import StageError
from pipelines.numbers import percent, real, upper_bound
from pipelines.report.people import audited_sentences
from pipelines.settings.loading import ENV_PREFIX, load_settings
from pipelines.store.objects import runs
from pipelines.store.place.unlocking import in_plain

CONTRACT = (
    *("exposure", "membership", "secrets", "extraction", "domains"),
    *("epsilon_lower", "epsilon_claimed", "person", "alarm"),
)


def audit_document(config: Path, environ: Mapping[str, str], *, force: Sequence[str] = ()) -> dict[str, Any]:
    """Runs stages that are not up to date, including the audit, and returns the audit's figures.

    Returns:
        A dictionary of ``exposure``, ``membership``, ``extraction``, ``domains``, ``epsilon_lower``,
        ``epsilon_claimed``, ``person``, ``alarm``, ``alarm_reason`` (if ``alarm`` is true) and ``outputs``. Figures
        only.

    Raises:
        ReticentError: a stage failed.
    """
    switched = {**environ, f"{ENV_PREFIX}AUDIT__ENABLED": "true"}
    record = reason = None
    try:
        record = run_job(config, from_stage=None, only=None, force=force, verify=None, environ=switched)
    except AuditAlarm as alarm:
        reason = str(alarm)
    roots = open_store(load_settings(config, switched))
    if record is None:
        record = next(runs.records(roots), {})
    key, report = (runs.key_in(record, stage) for stage in ("audit", "report"))
    found = None if key is None else roots.private_files("audit", key).find_json("audit.json")
    if found is None:
        raise StageError("the audit left no figures; run `reticent audit --force audit` to make them again")
    outputs = dict(record.get("outputs", {}))
    if reason is not None and report is not None:  # a stopped run has a report but no outputs
        outputs["report"] = str(roots.private_files("report", report).blob("report.html"))
    return {
        **{name: found.get(name) for name in CONTRACT},
        "alarm": reason is not None,
        **({"alarm_reason": reason} if reason is not None else {}),
        "not_attacked": found.get("not_attacked", {}),
        "run_id": record["run_id"],
        "outputs": outputs,
    }


def settle_alarm(config: Path, environ: Mapping[str, str], reason: str) -> None:
    """Calls `flows.running.auditing.clear_alarm` for the store of a settings file."""
    clear_alarm(open_store(load_settings(config, environ), create=False), reason)


def audit_text(document: Mapping[str, Any]) -> str:
    """Formats the results for people, with a line per attack and the report's path."""
    missing: Mapping[str, str] = document["not_attacked"]
    lines = [f"audit of run {document['run_id']}"]
    lower, claimed = document["epsilon_lower"], document["epsilon_claimed"]
    if lower is None:
        lines.append(f"  epsilon       no lower bound: {missing.get('epsilon', 'no canary was scored')}")
    else:
        said = "none" if claimed is None else upper_bound(claimed)
        lines.append(
            f"  epsilon       at least {real(lower['value'], lower=True)} at {percent(lower['confidence'])} "
            f"({lower['estimator']}; a perfect attack would show {real(lower['ceiling'])}); claimed {said}, both for "
            "add-or-remove neighbours of the audit's own training"
        )
    lines += [f"  person        {sentence}" for sentence in audited_sentences(document)]
    if (exposure := document["exposure"]) is None:
        lines.append(f"  canaries      not attacked: {missing.get('exposure', '')}")
    else:
        lines += [
            f"  canaries      {group['name']}: {group['num_canaries']}, mean exposure {real(group['mean'])}, largest "
            f"{real(group['maximum'])} of {real(exposure['ceiling'])}: {group['conclusion']}"
            for group in exposure["groups"]
        ]
    if (membership := document["membership"]) is None:
        lines.append(f"  membership    not attacked: {missing.get('membership', '')}")
    elif (best := membership["best"]) is not None:
        leaks = "a leak" if membership["any_leak"] else "no leak seen"
        lines.append(
            f"  membership    best AUC {real(best['auc'], 3)} ({best['name']}; texts alone "
            f"{real(membership['blind_auc'], 3)}): {leaks}"
        )
    if (secrets := document.get("secrets")) is None:
        lines.append(f"  secrets       not attacked: {missing.get('secrets', '')}")
    else:
        first = max(secrets["attacks"], key=lambda attack: attack["auc"] - max(0.5, attack["blind_auc"]))
        lines.append(
            f"  secrets       {'a leak' if secrets['any_leak'] else 'no leak seen'}; most for {first['label']} "
            f"{first['kind']}: AUC {real(first['auc'], 3)} (texts alone {real(first['blind_auc'], 3)})"
        )
    if (extraction := document["extraction"]) is None:
        lines.append(f"  extraction    not attacked: {missing.get('extraction', '')}")
    else:
        lines.append(
            f"  extraction    {extraction['num_verbatim_of_all_rows']} distinct secrets of all rows in "
            f"{extraction['num_texts']} texts; {extraction['num_found_only_by_model']} only from the model that read "
            "them"
        )
    if (domains := document["domains"]) is None:
        lines.append(f"  domains       not attacked: {missing.get('domains', '')}")
    else:
        rates = [pair["rate"]["value"] for pair in domains["pairs"] if pair["rate"]["value"] is not None]
        value, low = domains["c"]["value"], real(domains["c"]["low"], lower=True)
        lines.append(
            f"  domains       leaks of another domain in up to {percent(max(rates, default=None))} of the texts of a "
            f"pair, of {len(domains['pairs'])} pairs; C {'has no value' if value is None else real(value)}, at least "
            f"{low}"
        )
    lines.append("  ALARM         the claim is refuted" if document["alarm"] else "  alarm         none")
    if report := document["outputs"].get("report"):
        lines += [f"  report        {report}", *in_plain(Path(report))]
    return "\n".join(lines)
