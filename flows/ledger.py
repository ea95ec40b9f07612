"""``reticent ledger``: what the releases of a store spent on the records that they share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.settings import load_settings
from flows.spec import open_store
from pipelines.store import runs
from pipelines.store.files import read_json
from pipelines.store.ledger import read_ledger
from pipelines.store.roots import Roots

if TYPE_CHECKING:
    from pipelines.accounting.ledger import Release


def ledger_document(config: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Every release, and what overlapping ones cost together.

    Raises:
        StoreError: the ledger is damaged.
    """
    from pipelines.accounting.ledger import composed_epsilon, overlapping

    settings = load_settings(config, environ)
    roots = open_store(settings)
    guarantee: Any = settings.stages["guarantee"]
    releases = read_ledger(roots)
    latest = next((key for stage, _, key in (runs.latest(roots) or {}).get("artifacts", []) if stage == "train"), None)
    groups = []
    rows: dict[str, dict[str, Any]] = {}
    for number, members in enumerate(overlapping(releases, guarantee.budget_scope), 1):
        counted = [r for r in members if r.counts]
        delta = guarantee.budget_delta or max((r.delta for r in counted), default=None)
        total = composed_epsilon(counted, delta) if delta is not None else 0.0
        is_latest = any(r.key == latest for r in counted)
        groups.append(
            {
                "group": number,
                "num_releases": len(counted),
                "epsilon": _finite(total),
                "delta": delta,
                "left": None
                if guarantee.budget_epsilon is None
                else (max(guarantee.budget_epsilon - total, 0.0) if math.isfinite(total) else 0.0),
                "amplified": _amplified(roots, total, delta) if is_latest and delta is not None else None,
            }
        )
        rows |= {r.release_id: _row(r, number) for r in members}
    return {
        "releases": [rows[r.release_id] for r in releases],
        "groups": groups,
        "budget": {
            "epsilon": guarantee.budget_epsilon,
            "delta": guarantee.budget_delta,
            "scope": guarantee.budget_scope,
        },
    }


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
        "delta": release.delta,
        "data": release.data,
        "num_partitions": release.num_partitions,
        "insecure_test_seed": release.insecure_test_seed,
    }


def _amplified(roots: Roots, epsilon: float, delta: float) -> dict[str, Any] | None:
    """The Bayesian figure for all releases together: composed first, credit for redaction given once.

    The latest run's gamma and delta2 are used, so it supposes that the same secrets were masked in every release.
    """
    from pipelines.accounting.confidentiality import PrivacyLoss, bayesian_confidentiality
    from pipelines.miss_rate.rates import delta2_of, false_negative_rate_of

    artifacts = (runs.latest(roots) or {}).get("artifacts", [])
    key = next((key for stage, _, key in artifacts if stage == "estimate"), None)
    figures = read_json(roots.object_dir("private", "estimate", key) / "figures.json") if key else None
    if not isinstance(figures, dict) or figures.get("source") not in ("gold", "human") or not math.isfinite(epsilon):
        return None
    gamma, delta2 = false_negative_rate_of(figures), delta2_of(figures)
    if gamma is None or delta2 is None:
        return None
    loss = bayesian_confidentiality(PrivacyLoss(epsilon, delta), gamma, delta2)
    return {"epsilon": loss.epsilon, "delta": loss.delta, "gamma_upper": gamma.upper, "delta2_upper": delta2.upper}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def ledger_text(document: Mapping[str, Any]) -> str:
    """For people."""
    if not document["releases"]:
        return "no release yet: nothing was trained on private records"
    budget = document["budget"]
    lines = []
    for group in document["groups"]:
        members = [r for r in document["releases"] if r["group"] == group["group"]]
        if not group["num_releases"]:
            continue
        plural = "s" if group["num_releases"] > 1 else ""
        share = " that may share records" if plural else ""
        lines.append(
            f"{group['num_releases']} release{plural}{share}: epsilon {_number(group['epsilon'])}, delta "
            f"{group['delta']:g}, composed, unamplified, replace-one"
        )
        if group["left"] is not None:
            lines.append(f"  budget {budget['epsilon']:g}: {group['left']:.4g} left (epsilons do not simply add up)")
        if group["amplified"]:
            a = group["amplified"]
            lines.append(
                f"  with credit for redaction, given once: epsilon {a['epsilon']:.4g}, delta {a['delta']:.3g} "
                f"(Theorem 8.3, gamma at most {a['gamma_upper']:.3g}; supposes the same masks in every release)"
            )
        lines += _table(members)
    abandoned = sum(r["state"] == "abandoned" for r in document["releases"])
    if abandoned:
        lines.append(f"{abandoned} training{'s' if abandoned > 1 else ''} ended before a model was published: no cost")
    if budget["epsilon"] is None:
        lines.append("no budget: set guarantee.budget_epsilon to have a training that would exceed it refused")
    return "\n".join(lines)


def _table(members: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"  {r['started'] or 'before the ledger':<21} {r['state']:<12} epsilon {_number(r['epsilon']):<9} delta "
        f"{r['delta']:g}  data {(r['data'] or 'unknown')[:12]:<12} model {r['key'][:12]}"
        for r in members
        if r["state"] != "abandoned"
    ]


def _number(epsilon: float | None) -> str:
    return "infinite" if epsilon is None else f"{epsilon:.4g}"
