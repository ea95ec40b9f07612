"""Shows a run in Prefect's user interface: its name, a summary, and tables.

Prefect's database lies outside the private root, so this module sends only counts, figures, stage names and keys. It
sends them only if the flow runs on a server of its own. A failure to show something never fails a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.environment import on_server
from flows.running.progress import never_in_the_way
from pipelines.graph import GRAPH
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
    """Names the flow run after the run, and adds a summary and tables to it, however it ends."""
    if not on_server():
        yield
        return
    with never_in_the_way("name the flow run"):
        _name_flow_run(f"nightly {run_id_of(run)}")
    try:
        yield
    except Exception:
        _publish(run, "failed")
        raise
    _publish(run, "completed")


def _name_flow_run(name: str) -> None:
    from prefect import get_client
    from prefect.runtime import flow_run

    with get_client(sync_client=True) as client:
        client.set_flow_run_name(flow_run.id, name)


def _publish(run: str, state: str) -> None:
    with never_in_the_way("publish the run's artifacts"):
        from prefect.artifacts import create_markdown_artifact, create_table_artifact

        session = open_session(run)
        metrics = run_metrics(session)
        stages = stage_rows(session)
        create_markdown_artifact(summary(run_id_of(run), state, stages, metrics), SUMMARY_KEY, "What the run did")
        create_table_artifact(stages, STAGES_KEY, "What became of every stage")
        if metrics:
            create_table_artifact(figure_rows(metrics), FIGURES_KEY, "Figures of the run")


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
    """Returns a row per figure. Only numbers pass, so that no text can reach Prefect."""
    return [
        {"figure": name, "value": _number(value)}
        for name, value in sorted(metrics.items())
        if value is None or isinstance(value, int | float)
    ]


def summary(run_id: str, state: str, stages: list[dict[str, Any]], metrics: Mapping[str, Any]) -> str:
    """Describes the run in Markdown: its stages, and the figures that people ask for first."""
    built = [f"{row['stage']} ({row['built']})" if row["built"] > 1 else row["stage"] for row in stages if row["built"]]
    cached = sum(row["cached"] for row in stages)
    lines = [
        f"## Run {run_id}: {state}",
        "",
        f"Built: {', '.join(built) if built else 'nothing, all of it was up to date'}. Taken from the store: {cached}.",
    ]
    headlines = [(label, metrics[name], name in _BOUNDS) for name, label in _HEADLINES if name in metrics]
    if headlines:
        lines += ["", "| figure | value |", "|---|---|"]
        lines += [
            f"| {label} | {'no bound' if is_bound and value is None else _number(value)} |"
            for label, value, is_bound in headlines
        ]
    lines += ["", f"What changed: `reticent diff previous {run_id}`. Data and reports stay in the store."]
    return "\n".join(lines)


_HEADLINES = (
    ("num_sentences", "sentences"),
    ("duplicates", "masked as duplicates"),
    ("coverage", "tokens redacted (share)"),
    ("num_held", "rows held back by the gate"),
    ("miss_rate", "missed tokens / all tokens, m"),
    ("false_negative_rate_upper", "secrets missed, upper bound, γ"),
    ("delta2_upper", "secrets published, upper bound, δ₂"),
    ("epsilon", "ε of the headline claim, all releases on these files together"),
    ("delta", "δ of the headline claim"),
    ("epsilon_this_model", "ε of this model alone"),
    ("num_releases", "releases that may share records"),
    ("perplexity", "held-out perplexity"),
)


_BOUNDS = frozenset({"epsilon", "delta", "epsilon_this_model"})


def _number(value: float | int | None) -> str:
    if value is None:
        return "not measured"
    return f"{value:,}" if isinstance(value, int) else f"{value:.5g}"
