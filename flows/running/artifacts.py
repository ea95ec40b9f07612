"""Shows a run in Prefect's user interface: its name, a summary, and tables.

Prefect's database lies outside the private root, so this module sends only counts, figures, stage names and keys. It
sends them only if the flow runs on a server of its own. A failure to show something never fails a run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.environment import on_server
from flows.running.figures import FIGURES, headlines, label_of, written
from flows.running.progress import never_in_the_way
from flows.running.spending import Group, checked_releases, latest_model, spent_with, trained_key
from pipelines.errors import PrivacyGateError, message_of
from pipelines.graph import GRAPH
from pipelines.numbers import real, upper_bound
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.session import Session, open_session

SUMMARY_KEY = "reticent-summary"
STAGES_KEY = "reticent-stages"
FIGURES_KEY = "reticent-figures"


def run_id_of(run: str) -> str:
    """Returns a run's id, from the path of its specification."""
    return Path(run).parent.name


def run_metrics(session: Session) -> dict[str, Any]:
    """Returns the figures of the report that this run made or found; empty if there is no report."""
    return dict(_of_report(session).get("metrics", {}))


def run_warnings(session: Session) -> list[str]:
    """Returns the report's warnings about the text. They quote counts, so they must not go to Prefect."""
    return list(_of_report(session).get("warnings", ()))


def _of_report(session: Session) -> Mapping[str, Any]:
    for outcome in reversed(session.outcomes):
        if outcome.stage == "report" and outcome.key:
            manifest = manifests.load(session.roots, "report", outcome.key)
            return manifest.stats if manifest else {}
    return {}


@contextmanager
def shown(run: str) -> Iterator[None]:
    """Names the flow run after the run, and adds tables and a summary to it, however it ends."""
    if not on_server():
        yield
        return
    with never_in_the_way("name the flow run"):
        _name_flow_run(f"nightly {run_id_of(run)}")
    before = None
    with never_in_the_way("read the ledger"):
        before = ledger_of(open_session(run))
    try:
        yield
    except Exception as error:
        _publish(run, before, error)
        raise
    _publish(run, before, None)


def ledger_of(session: Session) -> Group:
    """Returns the releases that may share a record (or a person) with the run's model, and their joint cost.

    A run that has no model yet stands for the latest run.
    """
    releases = checked_releases(session.roots)
    trained = trained_key(session.roots, {"artifacts": [(o.stage, o.partition, o.key) for o in session.outcomes]})
    key = trained if any(release.key == trained for release in releases) else latest_model(session.roots)
    return spent_with(session.configs["guarantee"], releases, key)  # type: ignore[arg-type]


def _name_flow_run(name: str) -> None:
    from prefect import get_client
    from prefect.runtime import flow_run

    with get_client(sync_client=True) as client:
        client.set_flow_run_name(flow_run.id, name)


def _publish(run: str, before: Group | None, error: Exception | None) -> None:
    with never_in_the_way("publish the run's artifacts"):
        from prefect.artifacts import create_markdown_artifact, create_table_artifact

        session = open_session(run)
        metrics = run_metrics(session)
        stages = stage_rows(session)
        create_table_artifact(stages, STAGES_KEY, "What became of every stage")
        if metrics:
            create_table_artifact(figure_rows(metrics), FIGURES_KEY, "Figures of the run")
        text = summary(session, stages, metrics, before, ledger_of(session), error)
        create_markdown_artifact(text, SUMMARY_KEY, "What the run did, what it cost, and where its report is")


def stage_rows(session: Session) -> list[dict[str, Any]]:
    """Returns a row per stage, in the graph's order: number of partitions built or found, and seconds."""
    rows: list[dict[str, Any]] = []
    for stage in GRAPH.values():
        outcomes = [o for o in session.outcomes if o.stage == stage.name]
        if not outcomes:
            continue
        states = Counter(o.state for o in outcomes)
        key = outcomes[0].key if len(outcomes) == 1 else None
        rows.append(
            {
                "stage": stage.shown_name,
                "built": states["completed"],
                "cached": states["cached"],
                "skipped": states["skipped"],
                "seconds": round(sum(o.seconds for o in outcomes), 1),
                "key": key[:12] if key else "",
            }
        )
    return rows


def figure_rows(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a row per figure, first those of the summary. Only numbers pass, so that no text reaches Prefect."""
    names = [*(name for name in FIGURES if name in metrics), *(name for name in metrics if name not in FIGURES)]
    numbers = (
        (name, metrics[name]) for name in names if metrics[name] is None or isinstance(metrics[name], int | float)
    )
    return [{"figure": label_of(name), "value": written(name, value)} for name, value in numbers]


def summary(
    session: Session,
    stages: list[dict[str, Any]],
    metrics: Mapping[str, Any],
    before: Group | None,
    after: Group,
    error: Exception | None,
) -> str:
    """Describes a run in Markdown: what it did, what it cost, its figures, and where its report is.

    Args:
        session: run
        stages: rows of `stage_rows`
        metrics: figures of the run
        before: releases that shared records with the latest model before the run; None if unknown
        after: releases that share records with the run's model
        error: error that ended the run; None if it completed
    """
    run_id = session.spec.run_id
    built = [f"{row['stage']} ({row['built']})" if row["built"] > 1 else row["stage"] for row in stages if row["built"]]
    cached = sum(row["cached"] for row in stages)
    state = "completed" if error is None else "refused" if isinstance(error, PrivacyGateError) else "failed"
    lines = [f"## Run {run_id}: {state}", ""]
    if error is not None:
        lines += [message_of(error), "", f"Finished before that: {', '.join(built) or 'no stage'}. It is kept."]
        lines += ["The model and the report of the last completed run stay as they are."]
    elif built:
        lines += [f"Built: {', '.join(built)}. Taken from the store: {cached}."]
    else:
        lines += ["Nothing to do: all of it was up to date."]
    if session.spec.trained_by:
        lines += ["No training was due, so the model and the report stay as they are."]
    lines += ["", "| figure | value |", "|---|---|"]
    lines += [f"| {label} | {value} |" for label, value in [*_cost(session, before, after), *headlines(metrics)]]
    report = session.roots.private / "latest" / "report" / "report.html"
    if error is None or report.exists():
        whose = "The report" if error is None and not session.spec.trained_by else "The report of the last training"
        lines += ["", f"{whose}, on the machine of the store: `{report}`. `reticent open` shows it."]
    lines += ["", f"What changed: `reticent diff previous {run_id}`."] if error is None else []
    return "\n".join(lines)


def _cost(session: Session, before: Group | None, after: Group) -> Iterator[tuple[str, str]]:
    """Yields what the ledger says before and after a run, and what is left of the budget."""
    guarantee: Any = session.configs["guarantee"]
    whose = " for a person" if guarantee.budget_unit == "owner" else ""
    if before is not None:
        yield f"epsilon in the ledger before this run{whose}", _epsilon(before)
    yield f"epsilon in the ledger after this run{whose}", _epsilon(after)
    if (budget := guarantee.budget_epsilon) is None:
        yield "budget left", "no budget is set (guarantee.budget_epsilon)"
    else:
        yield "budget left", f"{real(max(budget - after.epsilon, 0.0), 3, lower=True)} of {budget:g}"


def _epsilon(group: Group) -> str:
    return upper_bound(group.epsilon) if math.isfinite(group.epsilon) else "no bound"
