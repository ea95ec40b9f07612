"""``reticent ledger``: shows what a store's releases spent on the records that they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.commands.ledger_people import by_owner, left, more_text, num_more, people_of, people_text, person_of
from flows.running.spec import open_store, state_folder
from flows.running.spending import checked_releases, latest_model, spent, trusted_text
from pipelines.accounting.assumptions import OF_WORST_LABEL
from pipelines.accounting.claim_documents import credit_of
from pipelines.accounting.ledger import Release, Scope, of_people, overlapping, releases_digest
from pipelines.accounting.withdrawn import refusal
from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.files import finite
from pipelines.numbers import real, upper_bound
from pipelines.report.people import figures_text
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.store.ledger.ledger import copies_of
from pipelines.store.ledger.recovery import acknowledge_damage
from pipelines.store.ledger.relocation import accept_retired, acknowledge_copy
from pipelines.store.ledger.sign_offs import page_state, signatures
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.place.roots import Roots, open_roots

_WHERE = "which `reticent estimate` prints below the averages"
"""Rates that credit depends on: an attacker who knows a secret's kind faces the rates of that label, not averages."""


def ledger_document(config: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns every release, and the joint cost of releases that may share records.

    Raises:
        LedgerError: the ledger is damaged.
    """
    settings = load_settings(config, environ)
    roots = open_store(settings, create=False)
    guarantee: Any = settings.stages["guarantee"]
    scope: Scope = guarantee.budget_scope
    releases = checked_releases(roots)
    latest = latest_model(roots)
    budget = guarantee.budget_epsilon if guarantee.budget_unit == "record" else None
    groups = []
    rows: dict[str, dict[str, Any]] = {}
    for number, group in enumerate(spent(guarantee, releases), 1):
        counted, total, delta = group.counted, group.epsilon, group.delta
        is_latest = any(r.key == latest for r in counted)
        claims, stale = latest_claims(roots, releases, group.members, scope) if is_latest else ({}, None)
        groups.append(
            {
                "group": number,
                "num_releases": len(counted),
                "epsilon": finite(total),
                "delta": delta,
                "left": left(budget, total),
                "num_more": num_more(counted, budget, delta) if is_latest else None,
                "by_owner": by_owner(counted),
                "person": person_of(counted, delta, claims.get("person") if stale is None else None),
                "credit": _credit(claims, stale) if is_latest else None,
                "not_guaranteed_because": too_large(counted, delta),
            }
        )
        rows |= {r.release_id: _row(r, number) for r in group.members}
    return {
        "releases": [rows[r.release_id] for r in releases if not r.is_table],
        "tables": [rows[r.release_id] for r in releases if r.is_table],
        "groups": groups,
        "people": people_of(guarantee, releases),
        "copies": copies_of(roots),
        "signatures": [{**signed, "page": page_state(roots, signed)} for signed in signatures(roots)],
        "budget": {
            "epsilon": guarantee.budget_epsilon,
            "delta": guarantee.budget_delta,
            "scope": scope,
            "unit": guarantee.budget_unit,
        },
        "nights": when.nights if (when := settings.stages["train"].when) is not None else None,  # type: ignore[attr-defined]
    }


def acknowledge(config: Path, environ: Mapping[str, str], reason: str) -> tuple[dict[str, Any], str]:
    """Restarts a damaged ledger (`pipelines.store.ledger.recovery`), and returns the result as JSON and as text.

    Raises:
        ConfigError: nothing is damaged.
        StoreError: a run is using the store.
    """
    settings = load_settings(config, environ)
    roots = open_roots(*settings.roots(), is_checked=False, store_key=settings.store_key(), state=state_folder())
    document = acknowledge_damage(roots, reason)
    return document, _acknowledged_text(document)


def acknowledge_copies(config: Path, environ: Mapping[str, str], reason: str) -> tuple[dict[str, Any], str]:
    """Records that a copy of the store may spend budget too (`pipelines.store.ledger.relocation`).

    Raises:
        ConfigError: no reason is given.
    """
    roots = open_store(load_settings(config, environ))
    acknowledge_copy(roots, reason)
    return {"copies": copies_of(roots)}, (
        "recorded: a copy of this store may spend budget too. From the next run on, every claim assumes that the copy "
        "releases nothing trained on the same records"
    )


def accept(config: Path, environ: Mapping[str, str], proof: str) -> tuple[dict[str, Any], str]:
    """Lets a copy train whose original root was retired (`pipelines.store.ledger.relocation`).

    Raises:
        ConfigError: this store is not a copy.
        PrivacyGateError: the proof does not fit.
    """
    roots = open_store(load_settings(config, environ))
    accept_retired(roots, proof)
    return {"private_root": str(roots.private)}, f"the store lives in {roots.private} from now on"


def too_large(releases: Sequence[Release], delta: float | None) -> str | None:
    """Returns a reason if a composed figure promises nothing, because delta is not below one over the record count."""
    known = [r.facts.num_private_records for r in releases if r.facts is not None]
    if delta is None or not known or delta < 1 / max(known):
        return None
    return (
        f"delta {real(delta)} is not below 1 / {max(known)}, one over the number of private records: publishing one "
        "random record whole would satisfy it. Lower train.target_delta"
    )


def _row(release: Release, group: int) -> dict[str, Any]:
    return {
        "release": release.release_id,
        "run_id": release.run_id,
        "started": runs.started_at(release.run_id) if release.run_id else None,
        "key": release.key,
        "state": release.state,
        "group": group,
        "relation": "replace_one",
        "epsilon": release.epsilon,
        "withdrawn": refusal(release.withdrawals) if release.withdrawals else None,
        "delta": release.delta,
        "data": release.data,
        "num_partitions": release.num_partitions,
        "num_private_records": release.facts.num_private_records if release.facts else None,
        "method": release.facts.method if release.facts else None,
        "is_public": release.is_public,
        "purpose": release.purpose,
        "insecure_test_seed": release.insecure_test_seed,
    }


def _credit(claims: Mapping[str, Any], stale: str | None) -> dict[str, Any]:
    """Returns the credit for redaction of all releases of a group, as the latest run's claims decided.

    Args:
        claims, stale: result of `latest_claims`.

    Returns:
        A dictionary of ``epsilon`` and ``delta`` of Bayesian confidentiality, composed first and with credit given
        once; or None for both, and the ``reason`` why no credit is given.
    """
    none: dict[str, Any] = {"epsilon": None, "delta": None}
    return {**none, **(credit_of(claims) if stale is None else {"reason": stale})}


def latest_claims(
    roots: Roots, releases: Sequence[Release], members: Sequence[Release], scope: Scope
) -> tuple[dict[str, Any], str | None]:
    """Returns the latest run's claims (``claims.json``), and a reason if they no longer hold, else None.

    Args:
        roots: store
        releases: all releases
        members: releases that may share records with the latest run's model
        scope: setting ``guarantee.budget_scope``
    """
    key = runs.key_in(runs.latest(roots), "guarantee")
    manifest = manifests.load(roots, "guarantee", key) if key else None
    if manifest is None or manifests.damage(roots, manifest, full=True):
        return {}, "no run has stated claims about these releases"
    document: dict[str, Any] = roots.private_files("guarantee", manifest.key).find_json("claims.json") or {}
    people = document.get("of_people")
    others = of_people(releases, members, people["owner_space"], scope) if people else ()
    is_about_others = people and people["releases"] != releases_digest(others)
    if document.get("releases") != releases_digest(r for r in members if r.is_claimed) or is_about_others:
        return document, "the latest run's claims are about other releases; run `reticent run` again"
    return document, None


def latest_run_with_valid_claims(
    settings: ProjectSettings, roots: Roots, *, then: str
) -> tuple[Mapping[str, Any], tuple[Release, ...]]:
    """Returns the record of the latest run and the published releases that may share records with its model.

    The releases are empty if the latest run's model is not a release.

    Raises:
        ConfigError: there is no run.
        LedgerError: the ledger is damaged.
        PrivacyGateError: the run read documents that were forgotten since, or its claims no longer hold.
    """
    record = runs.latest(roots)
    if record is None:
        raise ConfigError("there is no run yet; start one with `reticent run`")
    if record.get(runs.FORGOTTEN):
        raise PrivacyGateError(f"the latest run read what was forgotten since; run again, then {then}")
    guarantee: Any = settings.stages["guarantee"]
    releases, latest = checked_releases(roots), latest_model(roots)
    # Trainings that ended early link others: later entries do not repeat the files that they named.
    groups = overlapping(releases, guarantee.budget_scope)
    group = next((members for members in groups if any(r.key == latest for r in members)), ())
    members = tuple(r for r in group if r.state == "published")
    _, stale = latest_claims(roots, releases, members, guarantee.budget_scope)
    if stale is not None:
        raise PrivacyGateError(f"the latest run's report and card state claims that do not hold now: {stale}")
    return record, members


def ledger_text(document: Mapping[str, Any]) -> str:
    """Formats the ledger for people."""
    lines = [
        f"a copy of this store may have spent more, which is not counted here (acknowledged {copy['at']}: "
        f"{copy['reason']})"
        for copy in document["copies"]
    ]
    lines += [
        f"run {signed['run_id']} was signed by {signed['name']}, {signed['at']}; its page is {signed['page']}, digest "
        f"{signed['digest']}"
        for signed in document["signatures"]
    ]
    if not document["releases"] and not document["tables"]:
        return "\n".join([*lines, "no release yet: nothing was trained on private records"])
    budget = document["budget"]
    for group in document["groups"]:
        members = [r for r in document["releases"] if r["group"] == group["group"]]
        if not group["num_releases"]:
            continue
        plural = "s" if group["num_releases"] > 1 else ""
        share = " that may share records" if plural else ""
        lines.append(
            f"{group['num_releases']} release{plural}{share}: epsilon {_number(group['epsilon'])}, delta "
            f"{upper_bound(group['delta'])}, all together, without credit for sampling, replace-one"
        )
        if group["by_owner"]:
            lines.append(
                "  steps sampled people, so this is the epsilon of a person for these files; the total is below"
            )
        if (person := group["person"]) is not None:
            unknown = "" if person["is_known"] else " (whose text a record is, is not known: corpus.owner_from)"
            in_each = ", in each of them" if plural else ""
            lines.append(f"  {figures_text(person['figures'], 'epsilon')}{in_each}{unknown}")
        lines += _left(group, document)
        if group["not_guaranteed_because"]:
            lines.append(f"  no guarantee: {group['not_guaranteed_because']}")
        if credit := group["credit"]:
            lines.append(
                f"  with credit for redaction, given once: epsilon {upper_bound(credit['epsilon'])}, "
                f"delta {upper_bound(credit['delta'])} (CRT, Theorem 8.3, for a random secret, with gamma and delta2 "
                f"{OF_WORST_LABEL}, {_WHERE}; the assumptions are in the report)"
                if credit["epsilon"] is not None
                else f"  no credit for redaction: {credit['reason']}"
                + (f" (the worst label, {_WHERE})" if OF_WORST_LABEL in credit["reason"] else "")
            )
        lines += _table(members)
        lines += [f"  model {r['key'][:12]}: {r['withdrawn']}" for r in members if r["withdrawn"]]
    for people in document["people"]:
        lines.append(people_text(people))
        lines += _left(people, document)
    if tables := len(document["tables"]):
        plural = "s" if tables > 1 else ""
        lines.append(
            f"{tables} table{plural} of public rows {'were' if plural else 'was'} published: no epsilon. The rate of "
            "missed secrets in them is delta2, which claims on these files count from then on"
        )
    private = Counter(r["purpose"] for r in document["releases"] if not r["is_public"] and r["state"] != "abandoned")
    if number := private.total():
        lines.append(trusted_text(number, private["audit"]))
    abandoned = sum(r["state"] == "abandoned" for r in document["releases"])
    if abandoned:
        lines.append(f"{abandoned} training{'s' if abandoned > 1 else ''} ended before a model was published: no cost")
    if budget["epsilon"] is None:
        lines.append("no budget: set guarantee.budget_epsilon, and Reticent refuses a training that would exceed it")
    return "\n".join(lines)


def _left(of: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """Formats what is left of the budget for a group of releases, or for people."""
    lines = []
    if of["left"] is not None:
        budget = document["budget"]["epsilon"]
        lines.append(f"  budget {budget:g}: {real(of['left'], lower=True)} left (epsilons do not simply add up)")
    if of["num_more"] is not None:
        lines.append(f"  {more_text(of['num_more'], document['nights'])}")
    return lines


def _table(members: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"  {r['started'] or 'before the ledger':<21} {r['state']:<12} epsilon {_number(r['epsilon']):<9} delta "
        f"{upper_bound(r['delta']):<6} data {(r['data'] or 'unknown')[:12]:<12} model {r['key'][:12]}"
        + ("" if r["purpose"] == "release" else f"  {r['purpose']}")
        for r in members
        if r["state"] != "abandoned"
    ]


def _number(epsilon: float | None) -> str:
    return "infinite" if epsilon is None else upper_bound(epsilon)


def _acknowledged_text(document: Mapping[str, Any]) -> str:
    """Formats the result of a restart for people."""
    lines = [f"the ledger was restarted: {document['num_kept']} releases kept"]
    if document["num_unverified"]:
        lines.append(
            f"{document['num_unverified']} lines cannot be verified: their figures count in full, for every file"
        )
    if document["num_lost"]:
        lines.append(
            f"{document['num_lost']} lines are lost: they count as a release without noise, so epsilon is infinite for "
            "all records of this store. For finite figures, use a new store or a backup of this one"
        )
    if document["old_ledger"]:
        lines.append(f"the old ledger is kept: {document['old_ledger']}")
    return "\n".join(lines)
