"""Summaries of the attacks' results for people and programs: figures only, the strongest attack first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipelines.attacks.extraction import ALL

NUM_DRAWN: Final = 3
_ONE_PERCENT: Final = 0.01

LEFT_OPEN: Final = (
    "an attacker who sees several of the models, or every step of the training",
    "attacks that were published after this version",
    "what the model says of records in another wording",
)
"""Attacks that no audit here tries."""

PEOPLE: Final = "what the model says of a person in several records together"
"""Attack that an audit tries only if it judges people (``audit.owner_records``)."""
ACROSS_DOMAINS: Final = "what the model, asked about one domain, writes of another one"
"""Attack that an audit without ``domains`` does not try."""


def membership_summary(found: Mapping[str, Any]) -> dict[str, Any]:
    """Summarises the document of membership inference (`pipelines.attacks.membership.MembershipResult.document`).

    Returns:
        ``num_members``, ``num_non_members``, ``num_people`` (of both kinds; None if people are not judged),
        ``any_leak``, ``blind_auc``; ``attacks``, one object each, by AUC, highest
        first; ``best``, the first attack on single records; ``papers``, an object for each protocol of a paper; and
        ``roc``, points of the best few.
    """
    attacks = sorted(
        (
            _attack(name, kind, attack, None if blind is None else blind["auc"])
            for kind, blind in (
                ("individual", found["blind"]),
                ("group", found.get("blind_group")),
                ("person", found.get("blind_person")),
            )
            for name, attack in found.get(kind, {}).items()
        ),
        key=lambda attack: (-attack["auc"], attack["name"], attack["kind"]),
    )
    single = [attack for attack in attacks if attack["kind"] == "individual"]
    return {
        "num_members": found["num_members"],
        "num_non_members": found["num_non_members"],
        "num_people": found.get("num_people"),
        "any_leak": found["any_leak"],
        "blind_auc": found["blind"]["auc"],
        "best": single[0] if single else None,
        "attacks": attacks,
        "papers": [row for result in found["papers"] for row in _as_the_paper(result)],
        "skipped": dict(found["skipped"]),
        "roc": {
            attack["name"]: found["individual"][attack["name"]]["evaluation"]["roc"] for attack in single[:NUM_DRAWN]
        },
    }


def _attack(name: str, kind: str, attack: Mapping[str, Any], blind_auc: float | None) -> dict[str, Any]:
    evaluation, unseen = attack["evaluation"], attack["over_unseen"]
    low, high = evaluation["auc_interval"]
    at = next((point for point in evaluation["points"] if point["wanted"] == _ONE_PERCENT), None)
    return {
        "name": name,
        "kind": kind,
        "auc": evaluation["auc"],
        "low": low,
        "high": high,
        "blind_auc": blind_auc,
        "unseen_auc": None if unseen is None else unseen["baseline_auc"],
        "accuracy": None if evaluation["accuracy"] is None else evaluation["accuracy"]["value"],
        "found_at_one_percent": None if at is None or not at["is_resolved"] else at["true_positive_rate"],
        "p_value": attack["adjusted_p_value"],
    }


_PAPERS: Final = {"selective_dp": "Selective DP", "crt": "CRT"}


def _as_the_paper(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Summarises `pipelines.attacks.membership_protocols.ProtocolResult.document`."""
    protocol, rows = result["protocol"], []
    records = f"{_PAPERS[protocol['name']]}, {protocol['num_records']:,} and {protocol['num_records']:,}"
    size = protocol["group_size"]
    for name, found in (
        (records, result["individual"]),
        (f"{records}, overlapping groups of {size}", result["overlapping_groups"]),
    ):
        if found is not None:
            low, high = found["accuracy_interval"] or (None, None)
            rows.append(
                {
                    "name": name,
                    "accuracy": found["accuracy"],
                    "low": low,
                    "high": high,
                    "blind": found["baselines"]["blind"],
                    "never_saw": found["baselines"].get("never saw"),
                    "over": found["accuracy_over"],
                    "warning": found["warning"],
                }
            )
    return rows


def extraction_summary(found: Mapping[str, Any]) -> dict[str, Any]:
    """Summarises the document that the stage `audit_extraction` writes.

    Returns:
        Counts, and rates by label (all together last) over the secrets of rows that the reference model did not read.
    """
    labels, asked = found["not_read_by_reference"]["labels"], found["targeted"]
    rows = []
    for label in [*sorted(labels.keys() - {ALL}), *(label for label in (ALL,) if label in labels)]:
        one, direct = labels[label], asked.get(label)
        rows.append(
            {
                "label": label,
                "num_secrets": one["num_distinct"],
                "verbatim": one["verbatim"]["value"],
                "near": one["near"]["value"],
                "verbatim_reference": one["verbatim_reference"]["value"],
                "verbatim_decoys": None if one["verbatim_decoys"] is None else one["verbatim_decoys"]["value"],
                "p_value": one["p_value"],
                "targeted": None if direct is None else direct["model"]["value"],
                "targeted_reference": None if direct is None else direct["reference"]["value"],
            }
        )
    everything = found["all_rows"]["labels"].get(ALL)
    return {
        "num_prompts": found["num_prompts"],
        "num_texts": found["num_texts"],
        "num_verbatim_of_all_rows": 0 if everything is None else everything["num_verbatim"],
        "num_found_only_by_model": labels[ALL]["num_model_only"] if ALL in labels else 0,
        "labels": rows,
    }


def estimates_shown(games: Sequence[tuple[str, float | None, Sequence[Mapping[str, Any]]]]) -> list[dict[str, Any]]:
    """Returns the estimates of all games, each with the name of its game and the claimed epsilon."""
    return [
        {"game": game, "epsilon_claimed": claimed, **estimate}
        for game, claimed, estimates in games
        for estimate in estimates
    ]
