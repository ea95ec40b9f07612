"""``reticent metrics``: prints the last run as Prometheus text, for the textfile collector of node_exporter."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from flows.commands.ledger_people import totals_of_people
from flows.running.auditing import sequential_test_of
from flows.running.spec import open_store
from flows.running.spending import checked_releases
from pipelines.errors import ConfigError
from pipelines.files import write_atomic
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.store.objects import runs
from pipelines.store.objects.ledger_lines import locked, read_documents
from pipelines.store.place.roots import Roots

_FIGURES: Mapping[str, tuple[str, str]] = {
    "num_documents": ("documents", "Documents of the corpus."),
    "num_sentences": ("sentences", "Sentences of the corpus."),
    "num_rejected": ("rejected_rows", "Rows that could not be used."),
    "duplicates": ("duplicates", "Sentences masked as duplicates."),
    "coverage": ("redacted_tokens_ratio", "Share of tokens that are masked."),
    "num_public": ("public_rows", "Unique rows of the public set."),
    "num_private": ("private_rows", "Rows of the private set."),
    "num_held": ("held_rows", "Rows that the gate holds back."),
    "miss_rate": ("miss_rate_ratio", "Missed tokens of all tokens, m."),
    "miss_rate_upper": ("miss_rate_upper_ratio", "Upper bound of m."),
    "false_negative_rate_upper": ("missed_secrets_upper_ratio", "Upper bound of gamma."),
    "delta2_upper": ("published_secrets_upper", "Upper bound of delta2."),
    "perplexity": ("perplexity", "Held-out perplexity of the model."),
    "epsilon": ("epsilon", "Epsilon of the headline claim, all releases on these files."),
    "delta": ("delta", "Delta of the headline claim."),
    "epsilon_this_model": ("epsilon_this_model", "Epsilon of the newest model alone."),
    "num_releases": ("releases", "Releases that may share records."),
}
"""Name and help of a metric, by the figure's name in a run's record."""


class Metric(NamedTuple):
    """A gauge, with its name (without the prefix), its help, and values by labels."""

    name: str
    meaning: str
    values: tuple[tuple[Mapping[str, str], float], ...]


def metrics_text(config: Path, environ: Mapping[str, str]) -> str:
    """Returns gauges in the text format of Prometheus 0.0.4: counts, figures and times, without text or file names.

    Raises:
        ConfigError: no run has ended yet.
        LedgerError: the ledger is damaged.
    """
    settings = load_settings(config, environ)
    roots = open_store(settings, create=False)
    newest = next((r for r in runs.records(roots) if not runs.is_child(r)), None)
    if newest is None:
        raise ConfigError(f"no run has ended yet; start one with `reticent run {config}`")
    lines = []
    completed = runs.latest(roots) or {}
    found = (
        *_of_runs(newest, completed), *_of_figures(completed), *_of_audits(roots), *metrics_of_people(settings, roots)
    )  # fmt: skip
    for name, meaning, values in found:
        lines += [f"# HELP reticent_{name} {meaning}", f"# TYPE reticent_{name} gauge"]
        lines += [f"reticent_{name}{_labels(labels)} {value!r}" for labels, value in values]
    return "\n".join(lines) + "\n"


def write_metrics(text: str, path: Path) -> None:
    """Writes the file in one step, readable for its owner and group, because figures are for the trusted side.

    Raises:
        ConfigError: the folder is missing or cannot be written.
    """
    try:
        write_atomic(path.absolute(), text.encode(), mode=0o640)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}); its folder must exist") from None


def _one(name: str, meaning: str, value: float) -> Metric:
    return Metric(name, meaning, (({}, float(value)),))


def _of_runs(newest: Mapping[str, Any], completed: Mapping[str, Any]) -> Iterator[Metric]:
    yield _one("last_run_success", "1 if the newest run completed.", newest.get("state") == "completed")
    if (started := runs.started_at(str(newest["run_id"]))) is not None:
        stamp = datetime.fromisoformat(started).timestamp()
        yield _one("last_run_started_timestamp_seconds", "Start of the newest run.", stamp)
        if "finished" in newest:
            yield _one("last_run_duration_seconds", "Duration of the newest run.", newest["finished"] - stamp)
    if "finished" in completed:
        yield _one("last_completed_timestamp_seconds", "End of the last completed run.", completed["finished"])
        yield _one(
            "training_waits", "1 if that run left the model unchanged (train.when).", bool(completed.get("trained_by"))
        )
    yield from _of_stages(newest.get("stages", ()))


def _of_stages(rows: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    seconds: dict[str, float] = defaultdict(float)
    states: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        stage = f"{row['stage']}.{row['step']}" if row["step"] else str(row["stage"])
        seconds[stage] += row["seconds"]
        states[stage, row["state"]] += 1
    if seconds:
        spent = tuple(({"stage": stage}, float(value)) for stage, value in seconds.items())
        yield Metric("stage_seconds", "Seconds of the newest run by stage, all partitions together.", spent)
        counted = tuple(({"stage": stage, "state": state}, float(n)) for (stage, state), n in states.items())
        yield Metric("stage_partitions", "Partitions of the newest run by stage and state.", counted)


def _of_figures(record: Mapping[str, Any]) -> Iterator[Metric]:
    """Yields measured figures only, so that a monitoring system never takes a missing one for zero."""
    for figure, (name, meaning) in _FIGURES.items():
        value = record.get("metrics", {}).get(figure)
        if value is not None:
            yield _one(name, meaning, value)
    if left_out := record.get("left_out_files"):
        yield _one(
            "left_out_files", "Files in the corpus's folders and patterns that are not read.", sum(left_out.values())
        )


def _of_audits(roots: Roots) -> Iterator[Metric]:
    with locked(roots) as path:
        state = sequential_test_of(read_documents(roots, path))
    yield _one("audit_alarm", "1 if audits refute the claimed epsilon.", state.is_alarm)


def metrics_of_people(settings: ProjectSettings, roots: Roots) -> Iterator[Metric]:
    """Yields the largest total of a person; infinite if a release does not bound what a person brings."""
    guarantee: Any = settings.stages["guarantee"]
    totals = [total for *_, total in totals_of_people(guarantee, checked_releases(roots))]
    if totals:
        yield _one("person_epsilon", "Epsilon of a person, all releases on the same people.", max(totals))


def _labels(labels: Mapping[str, str]) -> str:
    quoted = (f'{name}="{re.sub(r"[^A-Za-z0-9_.]", "_", value)}"' for name, value in labels.items())
    return f"{{{','.join(quoted)}}}" if labels else ""
