"""Decides if a training is due: compares `train.when` with the input of the last run that trained."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.context import Partition
from pipelines.graph import GRAPH, config_references
from pipelines.settings.tables import config_class
from pipelines.stage import OUTSIDE
from pipelines.store.building.lookup import same_values
from pipelines.store.objects import runs
from pipelines.store.place.roots import Roots
from pipelines.walks import upstream

_SHOWN = ("public", "model", "private_model", "report", "public_report")
_OF_THE_MODEL = ("perplexity", "epsilon", "delta", "epsilon_this_model", "num_releases")


@dataclass(frozen=True, kw_only=True)
class Training:
    """The last run that trained, or found its model in the store.

    Attributes:
        run_id: id of the run.
        nights: number of days (UTC) since the run started.
        changed: share of the input that was added or removed since, for the format that changed most.
        is_due: true if another training is due.
    """

    run_id: str
    nights: int
    changed: float
    is_due: bool

    def text(self, when: Any) -> str:
        """Says why the model stays. ``when`` is None if only forgotten text has changed."""
        if when is None:
            return f"nothing but what was forgotten (`reticent forget`) has changed since run {self.run_id}"
        limits = [f"{self.nights} of {when.nights} nights have passed"] if when.nights is not None else []
        if when.changed is not None:
            limits.append(f"{self.changed:.2%} of the input changed, of {when.changed:.2%}")
        return f"{' and '.join(limits)} since run {self.run_id} (train.when)"


def last_training(
    roots: Roots, when: Any, partitions: Sequence[Partition], *, now: datetime | None = None
) -> Training | None:
    """Describes the last training for `train.when`; None if no run has trained, or its input is no longer known.

    Args:
        when: the settings (`pipelines.settings.train_fields.TrainWhen`).
        partitions: partitions of the run that is about to begin.
        now: present time in UTC.
    """
    spec = _last_spec(roots)
    run_id = None if spec is None else str(spec["run_id"])
    if spec is None or run_id is None or (nights := _nights_since(run_id, now)) is None:
        return None
    before = [piece for partition in spec["partitions"] for piece in partition["pieces"]]
    pieces = [vars(piece) for partition in partitions for piece in partition.pieces]
    changed = changed_share(before, pieces)
    is_due = (when.nights is not None and nights >= when.nights) or (
        when.changed is not None and changed >= when.changed
    )
    return Training(run_id=run_id, nights=nights, changed=changed, is_due=is_due)


def training_before_forgetting(
    roots: Roots, settings: Mapping[str, Any], seed: int, partitions: Sequence[Partition]
) -> Training | None:
    """Describes the last training if only forgotten text has changed since; otherwise None.

    Forgetting asks for no training, because that would be another release of everybody else's records.

    Args:
        settings: stage tables of the run that is about to begin, as JSON values.
        seed: ``run.seed``.
        partitions: partitions of the run that is about to begin.
    """
    spec = _last_spec(roots)
    if spec is None:
        return None
    before = [piece for partition in spec["partitions"] for piece in partition["pieces"]]
    pieces = [piece for partition in partitions for piece in partition.pieces]
    stayed = [piece for piece in before if piece["path"]]  # the record has no path of a forgotten file
    is_forgotten = len(stayed) < len(before) or {p.forgotten for p in pieces} != {
        tuple(p.get("forgotten", ())) for p in stayed
    }
    is_same = Counter(p["digest"] for p in stayed) == Counter(p.digest for p in pieces) and spec["seed"] == seed
    if not is_forgotten or not is_same or not same_values(_read(spec["settings"]), _read(settings)):
        return None
    run_id = str(spec["run_id"])
    return Training(run_id=run_id, nights=_nights_since(run_id) or 0, changed=0.0, is_due=False)


def _read(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the settings that training and the stages before it depend on."""
    references = config_references()
    tables = {table for name in upstream(["train"]) - OUTSIDE for table in GRAPH[name].configs if table in settings}
    return {
        table: {n: v for n, v in settings[table].items() if n not in config_class(references[table]).UNKEYED}
        for table in tables
    }


def changed_share(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> float:
    """Returns the share of the input that was added or removed, whichever is more, for the most changed format.

    The share is of the earlier input. Pieces (bytes of text files, rows of tables) are compared by content, wherever
    they lie. A piece that was edited in one place has changed as a whole.

    Args:
        before, after: fields of the pieces (`pipelines.context.Piece`).
    """
    old, new = _extents(before), _extents(after)
    shares = [0.0]
    for kind in old.keys() | new.keys():
        was, now = old.get(kind, {}), new.get(kind, {})
        gone = sum(size for digest, size in was.items() if digest not in now)
        came = sum(size for digest, size in now.items() if digest not in was)
        shares.append(min(1.0, max(gone, came) / max(1, sum(was.values()))))
    return max(shares)


def _extents(pieces: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    extents: dict[str, dict[str, int]] = defaultdict(dict)
    for piece in pieces:
        extents[str(piece["format"])][str(piece["digest"])] = int(piece["end_byte"]) - int(piece["start_byte"])
    return extents


def _last_record(roots: Roots) -> dict[str, Any] | None:
    """Finds the record of the newest release with a model. Failed runs do not count."""
    return next((r for r in runs.records(roots) if r.get("became_latest") and runs.key_in(r, "train")), None)


def _last_spec(roots: Roots) -> dict[str, Any] | None:
    """Reads the specification of the run that trained the model of the newest release."""
    record = _last_record(roots)
    return None if record is None else runs.spec_document(roots, str(record.get("trained_by") or record["run_id"]))


def _nights_since(run_id: str, now: datetime | None = None) -> int | None:
    started = runs.started_at(run_id)
    today = (now or datetime.now(UTC)).date()
    return None if started is None else (today - datetime.fromisoformat(started).date()).days


@dataclass(frozen=True, kw_only=True)
class CurrentRelease:
    """The release that stays when a run does not train.

    Attributes:
        artifacts: rows of the run record, for the stages that make the release.
        outputs: paths of the release below ``latest/``.
        metrics: figures of its model and of its claims. Figures of the text are left out, because the text has changed.
    """

    artifacts: Sequence[list[Any]] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)


def current_release(roots: Roots, stages: Iterable[str]) -> CurrentRelease:
    """Returns the release that stays when a run does not train. ``stages`` are the stages that make a release."""
    record = _last_record(roots) or {}
    names = set(stages)
    outputs, metrics = roots.shown_here(record.get("outputs", {})), record.get("metrics", {})
    return CurrentRelease(
        artifacts=[row for row in record.get("artifacts", ()) if row[0] in names],
        outputs={n: outputs[n] for n in _SHOWN if n in outputs and Path(outputs[n]).exists()},
        metrics={name: metrics[name] for name in _OF_THE_MODEL if name in metrics},
    )
