"""Documents and texts of ``plan``, ``status`` and ``report``. Imports no orchestrator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.commands.conclusion import conclusion, training_ahead
from flows.commands.ledger import ledger_document
from flows.commands.ledger_people import more_text, people_text
from flows.running.figures import headlines
from flows.running.spec import EVERYTHING, make_spec, open_store, read_corpus, spec_and_wait
from pipelines.corpus.listing import left_out_text
from pipelines.errors import ConfigError
from pipelines.graph import GRAPH
from pipelines.numbers import upper_bound
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.store.building.plan import check_settings, make_plan
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.objects import runs
from pipelines.store.objects.inputs import CorpusState
from pipelines.store.objects.session import Session, make_session
from pipelines.store.place.location import location_problem
from pipelines.store.place.roots import Roots
from pipelines.store.place.unlocking import is_encrypted, private_root_of

_ACTIONS = {"hit": "up to date", "stale": "stale", "run": "run", "maybe": "maybe"}
_STATES = {"completed": "built", "cached": "up to date"}
_WIDTH = 18
"""Width of the names of lines."""
_UNDER_WAY = {"unfinished": ": still running, or killed"}
HELD = "they hold a string that is masked elsewhere (`reticent inspect gate --show-text`)"


def open_planning(config: Path, environ: Mapping[str, str]) -> Session:
    """Opens a session for planning, not for running. Reads input files that changed."""
    settings = load_settings(config, environ)
    corpus = read_corpus(settings, open_store(settings), read=True)
    return make_session(make_spec(settings, corpus, verify="size"))


def plan_document(
    config: Path,
    environ: Mapping[str, str],
    *,
    read: bool,
    selected: Sequence[str] = EVERYTHING,
    forced: Sequence[str] = (),
    verify: str = "size",
) -> dict[str, Any]:
    """Returns the plan as JSON: an action and its reasons for every stage and partition.

    Args:
        read: true to read input files that are new to the store, false to only count them
        selected: stages to plan for
        forced: stages that the run would rebuild
        verify: check of cached files, ``full`` or ``size``
    """
    settings = load_settings(config, environ)
    roots = open_store(settings, create=read)  # remembers the input that is read
    corpus = read_corpus(settings, roots, read=read)
    spec, waits = spec_and_wait(settings, corpus, selected=selected, forced=forced, verify=verify, create=read)
    session = make_session(spec, create=read)
    previous = runs.latest(roots)
    unread = corpus.partitions is None
    plan = [] if unread else make_plan(session, previous)
    if read:
        check_settings(session, plan)
    rows = _unread_plan(corpus) if unread else [p.to_json() for p in plan]
    shown = {(GRAPH[name].table, GRAPH[name].step) for name in spec.selected}
    rows = [row for row in rows if (row["stage"], row["step"]) in shown]
    last = {k: previous[k] for k in ("run_id", "state", "outputs", "metrics")} if previous else None
    return {
        "stages": rows,
        "num_input_files": corpus.num_files,
        "left_out_files": dict(corpus.left_out),
        "last_run": last,
        "unfinished_run": _unfinished(roots),
        "warnings": [*settings.warnings, *filter(None, [location_problem(roots)])],
        "budget_carries": _budget(config, environ, settings),
        "training_ahead": training_ahead(settings, roots, rows),
        "training_waits": None
        if waits is None
        else {
            **{name: getattr(waits, name) for name in ("run_id", "nights", "changed")},
            "text": waits.text(settings.stages["train"].when),  # type: ignore[attr-defined]
        },
    }


def _budget(config: Path, environ: Mapping[str, str], settings: ProjectSettings) -> str | None:
    """Says how much training the budget still allows; None without a budget, or before the first training."""
    if settings.stages["guarantee"].budget_epsilon is None:  # type: ignore[attr-defined]
        return None
    document = ledger_document(config, environ)
    groups = [g for g in (*document["groups"], *document["people"]) if g["num_more"] is not None]
    said = [more_text(g["num_more"], document["nights"]) for g in groups[:1]]
    return "; ".join([*said, *map(people_text, document["people"])]) or None


def _unfinished(roots: Roots) -> dict[str, str] | None:
    """Returns the newest run if it failed, was killed, or is still running."""
    newest = next(runs.each_run(roots), None)
    if newest is None or newest["state"] == "completed":
        return None
    return {"run_id": newest["run_id"], "state": newest["state"]}


def _unread_plan(corpus: CorpusState) -> list[dict[str, Any]]:
    """Returns every stage without partitions, which are unknown before the input is read."""
    reason = f"input: {corpus.num_unread} of {corpus.num_files} files not read yet"
    return [
        {
            "stage": stage.table,
            "step": stage.step,
            "partition": None,
            "action": "maybe",
            "reasons": [reason if stage.name == "split" else "waits for split"],
            "key": None,
        }
        for stage in GRAPH.values()
    ]


def _by_stage(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(f"{row['stage']}.{row['step']}" if row["step"] else row["stage"], []).append(row)
    return grouped


def plan_text(document: Mapping[str, Any]) -> str:
    """Formats the plan for people, with a line per stage, its reasons below, and a conclusion."""
    lines = [_line("warning", text) for text in document["warnings"]]
    if left_out := document["left_out_files"]:
        lines.append(_line("not read", f"{left_out_text(left_out)} (files that corpus.inputs reaches)"))
    for name, rows in _by_stage(document["stages"]).items():
        actions = Counter(row["action"] for row in rows)
        what = ", ".join(
            f"{count} {_ACTIONS[action]}" if len(rows) > 1 else _ACTIONS[action] for action, count in actions.items()
        )
        lines.append(_line(name, what))
        reasons = Counter(reason for row in rows for reason in row["reasons"])
        for reason, count in reasons.most_common(8):
            lines.append(_line("", f"  {reason}") + (f"  ({count} partitions)" if count > 1 else ""))
        if actions["stale"]:
            is_release = rows[0]["stage"] == "train"
            trains = "`reticent run --force train`" if is_release else f"`reticent audit --force {name}`"
            lines.append(_line("", f"  the model stays; {trains} trains another{', a second release' * is_release}"))
    if (more := document["budget_carries"]) is not None:
        lines.append(_line("budget", more))
    if waits := document["training_waits"]:
        lines.append(_line("train", f"waits: {waits['text']}; `reticent run --force train` trains now"))
    return "\n".join([*lines, "", conclusion(document)])


def status_text(document: Mapping[str, Any]) -> str:
    """Formats the last run and the plan for people."""
    last = document["last_run"]
    lines = [_line("last run", f"{last['run_id']} {last['state']}" if last else "none")]
    if newer := document["unfinished_run"]:
        lines.append(_line("newest run", f"{newer['run_id']} {newer['state']}{_UNDER_WAY.get(newer['state'], '')}"))
    if last and (num_held := last["metrics"].get("num_held")):
        lines.append(_line("held rows", f"{num_held:,}, which would otherwise be public: {HELD}"))
    return "\n".join([*lines, _line("input files", document["num_input_files"]), plan_text(document)])


def _line(name: str, text: object) -> str:
    return f"{name:<{_WIDTH}} {text}"


def last_run(config: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns the record of the last finished run.

    Raises:
        ConfigError: no run has finished yet.
    """
    roots = open_store(load_settings(config, environ), create=False)
    record = runs.latest(roots)
    if record is None:
        if _unfinished(roots):
            raise ConfigError(f"no run has finished yet; `reticent status {config}` says how the newest one is")
        raise ConfigError(f"no run has finished yet; start one with `reticent run {config}`")
    shown = {k: v for k, v in record.items() if k not in ("artifacts", "finished", "became_latest")}
    shown["outputs"] = roots.shown_here(record.get("outputs", {}))
    listed = [r for r in read_ledger(roots) if r.counts]
    if len(listed) != (
        record.get("metrics", {}).get("num_releases") or 0
    ):  # otherwise the record's figures are current
        ledger = ledger_document(config, environ)
        groups = [g for g in ledger["groups"] if g["num_releases"]]
        shown["ledger"] = [{k: g[k] for k in ("num_releases", "epsilon", "delta")} for g in groups]
        shown["people"] = ledger["people"]
    return shown


def run_text(record: Mapping[str, Any]) -> str:
    """Formats a finished run for people: states, figures and paths."""
    states = Counter(row["state"] for row in record["stages"])
    lines = [
        f"run {record['run_id']}: "
        + ", ".join(f"{count} {_STATES.get(state, state)}" for state, count in states.items())
    ]
    if record.get("trained_by"):
        lines.append(
            f"  no training this time (`reticent plan` says why): the text is prepared. Model, tables and report are "
            f"those of run {record['trained_by']}"
        )
    metrics = record.get("metrics", {})
    for group in record.get("ledger", ()):
        bound = "no bound" if group["epsilon"] is None else f"epsilon {upper_bound(group['epsilon'])}"
        lines.append(
            f"  the ledger now: {group['num_releases']} releases that may share records, {bound}, delta "
            f"{upper_bound(group['delta'])}, unamplified (`reticent ledger`)"
        )
    lines += [f"  the ledger now: {people_text(people)}" for people in record.get("people", ())]
    if left_out := record.get("left_out_files"):
        lines.append(f"  {'files left out of the corpus':<38} {left_out_text(left_out)}")
    lines += [f"  {label:<44} {value}" for label, value in headlines(metrics)]
    lines += [f"  warning: {text}" for text in record.get("warnings", ())]
    if metrics.get("num_held"):
        lines.append(f"  {metrics['num_held']:,} rows are held back that would otherwise be public: {HELD}")
    outputs = record.get("outputs", {})
    empty = "private_synthetic" if "model" in outputs else "synthetic"  # the table is in the root of the model
    lines += [f"  {name:<17} {path}" for name, path in outputs.items() if name in _SHOWN and name != empty]
    if "report" in outputs and is_encrypted(private_root_of(Path(outputs["report"]))):
        lines.append(
            "  private files are encrypted: `reticent export report --out FOLDER` writes the report unencrypted"
        )
    removed = record.get("num_superseded_removed", 0)
    if removed is None:
        lines.append(
            "  warning: tables or reports of earlier runs may still lie in the public root, because another run holds "
            "the store; the claims do not cover them, and the next run removes them"
        )
    elif removed:
        lines.append(f"  tables and reports of earlier runs removed from the public root: {removed}")
    return "\n".join(lines)


_SHOWN = (
    *("sentences", "redacted", "public", "private", "model", "private_model"),
    *("synthetic", "private_synthetic", "report", "public_report"),
)
