"""The last lines of ``plan``, ``status`` and ``run``: what would happen, what it costs, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from flows.running.spending import checked_releases, latest_model, spent_with
from pipelines.errors import PrivacyGateError
from pipelines.files import finite
from pipelines.numbers import is_number, upper_bound
from pipelines.settings.loading import ProjectSettings
from pipelines.store.place.roots import Roots
from pipelines.store.place.unlocking import is_encrypted, private_root_of

_SAME: Final = 0.01
"""Relative difference of two epsilons up to which the next training counts as one like the newest."""


def training_ahead(settings: ProjectSettings, roots: Roots, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Predicts what a planned training adds to the ledger.

    Args:
        settings: settings of the run
        roots: store
        rows: rows of the plan

    Returns:
        A dictionary of ``is_certain`` (false if the training waits for the output of a stage), ``epsilon_before``
        (None: no bound), ``epsilon_after`` (None if it is unknown) and ``budget_epsilon``; None if no training is
        planned, or if the model stays on the trusted side. An epsilon is that of all releases that may share a record
        with the latest model. The prediction assumes that the new training reads the same records as that model.
    """
    actions = {row["action"] for row in rows if (row["stage"], row["step"]) == ("train", None)}
    train: Any = settings.stages["train"]
    guarantee: Any = settings.stages["guarantee"]
    if not actions & {"run", "maybe"} or not train.method_spec().publishes_model:
        return None
    try:
        releases = checked_releases(roots)
        before = spent_with(guarantee, releases, latest_model(roots))
        after = None
        target = None if "target_epsilon" in train.idle() or train.is_light_noise() else train.target_epsilon
        if not before.counted:
            after = target
        elif target is not None:
            newest = before.counted[-1]
            is_alike = newest.facts is not None and newest.facts.method == train.method
            if is_alike and newest.epsilon is not None and abs(newest.epsilon - target) <= _SAME * target:
                links = (*newest.overlaps, newest.release_id)
                planned = replace(newest, release_id="planned", key="planned", overlaps=links)
                after = finite(spent_with(guarantee, [*releases, planned], "planned").epsilon)
    except PrivacyGateError:  # the ledger is damaged; other commands say so
        return None
    return {
        "is_certain": "run" in actions or not before.counted,
        "epsilon_before": finite(before.epsilon),
        "epsilon_after": after,
        "budget_epsilon": guarantee.budget_epsilon,
    }


def conclusion(document: Mapping[str, Any]) -> str:
    """Says in one sentence what a run would do, from a plan."""
    rows = document["stages"]
    if any("not read yet" in reason for row in rows for reason in row["reasons"]):
        return "Some input files are not read yet. `reticent plan` reads them and says what a run would do."
    ahead = document["training_ahead"]
    if ahead is None:
        to_run = list(dict.fromkeys(row["stage"] for row in rows if row["action"] in ("run", "maybe")))
        return f"Would run {', '.join(to_run)}, without a training that costs epsilon." if to_run else "Nothing to do."
    verb = "Would train" if ahead["is_certain"] else "May train, if the prepared text changes"
    before, after, budget = (ahead[name] for name in ("epsilon_before", "epsilon_after", "budget_epsilon"))
    if after is None or before is None:
        return f"{verb}: epsilon in the ledger is {_epsilon(before)}, and grows by what the new training costs."
    about = "about " if before else "at most "
    text = f"{verb}: epsilon {_epsilon(before)} → {about}{_epsilon(after)} in the ledger."
    if budget is not None and after > budget:
        text += f" That is above guarantee.budget_epsilon = {budget:g}, so the training will probably be refused."
    return text


def _epsilon(value: float | None) -> str:
    return upper_bound(value) if is_number(value) else "without bound"


def next_commands(record: Mapping[str, Any], config: Path) -> list[str]:
    """Returns three commands that are worth a look after a run, each with what it is for."""
    outputs, metrics = record.get("outputs", {}), record.get("metrics", {})
    given = "" if config == Path("reticent.toml") else f" -c {shlex.quote(str(config))}"
    if "report" not in outputs:
        found = [
            ("status", "the state of every stage"),
            ("show redacted", "the text with its masks"),
            ("run", "all other stages"),
        ]
    else:
        is_audited = any(row["stage"] == "audit" for row in record["stages"])
        is_sealed = is_encrypted(private_root_of(Path(outputs["report"])))
        found = [
            ("export report --out FOLDER", "the report, unencrypted") if is_sealed else ("open", "the report"),
            ("review", "mark what redaction missed, so that the report can say how much")
            if metrics.get("false_negative_rate_upper") is None
            else ("show redacted", "the text with its masks")
            if is_audited
            else ("audit", "attack the model, and compare with its epsilon"),
            ("sign", "the page for the person who signs"),
        ]
    width = max(len(command) for command, _ in found) + len(given)
    return [f"  {f'reticent {command}{given}':<{width + 12}} {what}" for command, what in found]
