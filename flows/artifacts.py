"""What a run shows in Prefect's user interface: its name, a summary, tables, and progress of long stages.

Everything here is counts, figures, stage names and keys: Prefect's database lies outside the private root. Nothing is
sent unless a server of its own runs the flow, and a failure to show something never fails a run.
"""

from __future__ import annotations

import contextvars
import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from pipelines.graph import GRAPH
from pipelines.store import manifest as manifests
from pipelines.store.session import Session, open_session
from tasks.builders import PARTITIONS, StageProgress

SUMMARY_KEY = "reticent-summary"
STAGES_KEY = "reticent-stages"
FIGURES_KEY = "reticent-figures"

_INTERVAL_SECONDS = 3.0
_log = logging.getLogger(__name__)


def on_server() -> bool:
    """Whether a Prefect server of its own, not the embedded one, is used."""
    return bool(os.environ.get("PREFECT_API_URL"))


def run_id_of(run: str) -> str:
    """A run's id, from the path of its specification."""
    return Path(run).parent.name


def run_metrics(session: Session) -> dict[str, Any]:
    """The figures of the report that this run made or found; empty if it did not come to that."""
    for outcome in reversed(session.outcomes):
        if outcome.stage == "report" and outcome.key:
            manifest = manifests.load(session.roots, "report", outcome.key)
            return dict(manifest.stats.get("metrics", {})) if manifest else {}
    return {}


@contextmanager
def shown(run: str) -> Iterator[None]:
    """Names the flow run after the run, and leaves a summary and tables with it, however it ends."""
    if not on_server():
        yield
        return
    with _never_in_the_way("name the flow run"):
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
    with _never_in_the_way("publish the run's artifacts"):
        from prefect.artifacts import create_markdown_artifact, create_table_artifact

        session = open_session(run)
        metrics = run_metrics(session)
        stages = stage_rows(session)
        create_markdown_artifact(summary(run_id_of(run), state, stages, metrics), SUMMARY_KEY, "What the run did")
        create_table_artifact(stages, STAGES_KEY, "What became of every stage")
        if metrics:
            create_table_artifact(figure_rows(metrics), FIGURES_KEY, "Figures of the run")


def stage_rows(session: Session) -> list[dict[str, Any]]:
    """A row per stage, in the graph's order: how many partitions were built or found, and how long that took."""
    rows: list[dict[str, Any]] = []
    for stage in GRAPH.values():
        found = [o for o in session.outcomes if o.stage == stage.name]
        if not found:
            continue
        states = Counter(o.state for o in found)
        key = found[0].key if len(found) == 1 else None
        rows.append(
            {
                "stage": stage.shown_name,
                "built": states["completed"],
                "cached": states["cached"],
                "skipped": states["skipped"],
                "seconds": round(sum(o.seconds for o in found), 1),
                "key": key[:12] if key else "",
            }
        )
    return rows


def figure_rows(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row per figure. Only numbers pass: a text would have no business here."""
    return [
        {"figure": name, "value": _number(value)}
        for name, value in sorted(metrics.items())
        if value is None or isinstance(value, int | float)
    ]


def summary(run_id: str, state: str, stages: list[dict[str, Any]], metrics: Mapping[str, Any]) -> str:
    """The run in Markdown: what was done, and the figures that people ask for first."""
    built = [f"{row['stage']} ({row['built']})" if row["built"] > 1 else row["stage"] for row in stages if row["built"]]
    cached = sum(row["cached"] for row in stages)
    lines = [
        f"## Run {run_id}: {state}",
        "",
        f"Built: {', '.join(built) if built else 'nothing, all of it was up to date'}. Taken from the store: {cached}.",
    ]
    told = [(label, metrics[name], name in _BOUNDS) for name, label in _HEADLINES if name in metrics]
    if told:
        lines += ["", "| figure | value |", "|---|---|"]
        lines += [
            f"| {label} | {'no bound' if is_bound and value is None else _number(value)} |"
            for label, value, is_bound in told
        ]
    lines += [
        "",
        f"What changed: `reticent diff previous {run_id}`. Data and reports stay in the store.",
    ]
    return "\n".join(lines)


_HEADLINES = (
    ("num_sentences", "sentences"),
    ("duplicates", "masked as duplicates"),
    ("coverage", "tokens redacted (share)"),
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


@contextmanager
def _never_in_the_way(what: str) -> Iterator[None]:
    """What is shown is not the run: a server that is restarting must not fail a night's work."""
    try:
        yield
    except Exception as error:
        _log.warning("could not %s: %s", what, type(error).__name__)


class ServerProgress:
    """Progress artifacts of the stages of one run, sent by a thread of their own every few seconds.

    Stages that are over before the first sending never appear, so a run that changes nothing sends nothing. Use as a
    context manager; call as a `StageProgress`.

    Args:
        also: another display that is told the same.
        interval_seconds: between sendings.
    """

    def __init__(self, also: StageProgress | None = None, interval_seconds: float = _INTERVAL_SECONDS) -> None:
        self._also = also
        self._interval = interval_seconds
        self._lock = threading.Lock()
        self._percent: dict[str, float] = {}
        self._contexts: dict[str, contextvars.Context] = {}
        self._sent: dict[str, float] = {}
        self._artifacts: dict[str, Any] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send_now_and_then, name="reticent-progress", daemon=True)

    def __call__(self, stage: str, done: int, total: int | None, message: str) -> None:
        """Notes how far a stage is. Cheap: sending is the thread's affair."""
        if self._also is not None:
            self._also(stage, done, total, message)
        counts_partitions = stage in GRAPH and GRAPH[stage].partitioned
        if not total or stage not in GRAPH or counts_partitions != (message == PARTITIONS):
            return
        with self._lock:
            self._percent[stage] = round(100.0 * min(done / total, 1.0), 1)
            # The first report's context says which task run the artifact belongs to.
            self._contexts.setdefault(stage, contextvars.copy_context())

    def _send_now_and_then(self) -> None:
        while not self._over.wait(self._interval):
            self.send()

    def send(self) -> None:
        """Sends what has changed since the last time."""
        with self._lock:
            changed = {s: p for s, p in self._percent.items() if self._sent.get(s) != p}
        for stage, percent in changed.items():
            if stage not in self._artifacts and percent >= 100.0:
                continue  # over before it was worth showing
            with _never_in_the_way("show progress"):
                self._contexts[stage].run(self._send_one, stage, percent)
                self._sent[stage] = percent

    def _send_one(self, stage: str, percent: float) -> None:
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        if stage in self._artifacts:
            update_progress_artifact(self._artifacts[stage], progress=percent)
        else:
            key = f"reticent-progress-{stage.replace('_', '-')}"
            self._artifacts[stage] = create_progress_artifact(percent, key, f"Progress of {GRAPH[stage].shown_name}")

    def __enter__(self) -> ServerProgress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if kind is None or issubclass(kind, Exception):  # a run that was told to stop must not wait for a server
            self._thread.join(self._interval)
            if kind is None:
                self._percent.update(dict.fromkeys(self._artifacts, 100.0))
            self.send()
