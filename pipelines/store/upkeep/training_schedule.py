"""Whether it is time to train: `train.when` against what the last run that trained had seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.graph import GRAPH, config_class, config_references
from pipelines.stage import OUTSIDE
from pipelines.store.building.lookup import same_values
from pipelines.store.objects import runs
from pipelines.store.objects.session import PartitionPlan
from pipelines.store.place.roots import Roots
from pipelines.walks import upstream

_SHOWN = ("public", "model", "private_model", "report", "public_report")
_OF_THE_MODEL = ("perplexity", "epsilon", "delta", "epsilon_this_model", "num_releases")


@dataclass(frozen=True, kw_only=True)
class Training:
    """Of the last run that trained, or found the model in the store.

    Attributes:
        run_id: its name.
        nights: days (UTC) since it started.
        changed: share of the input, of the format that changed most, that has come or gone since.
        is_due: whether it is time for another.
    """

    run_id: str
    nights: int
    changed: float
    is_due: bool

    def text(self, when: Any) -> str:
        """Why the model stays, for people; ``when`` is None where only what was forgotten has changed."""
        if when is None:
            return f"nothing but what was forgotten (`reticent forget`) has changed since run {self.run_id}"
        limits = [f"{self.nights} of {when.nights} nights have passed"] if when.nights is not None else []
        if when.changed is not None:
            limits.append(f"{self.changed:.2%} of the input changed, of {when.changed:.2%}")
        return f"{' and '.join(limits)} since run {self.run_id} (train.when)"


def last_training(
    roots: Roots, when: Any, partitions: Sequence[PartitionPlan], *, now: datetime | None = None
) -> Training | None:
    """What `train.when` is about; None where no run has trained, or what it had seen is no longer known.

    Args:
        when: the settings (`pipelines.stages.train.settings.TrainWhen`).
        partitions: of the run that is about to begin.
        now: the time; UTC.
    """
    found = _last_record(roots)
    if found is None:
        return None
    run_id = str(found.get("trained_by") or found["run_id"])
    started, spec = runs.started_at(run_id), runs.spec_document(roots, run_id)
    if started is None or spec is None:
        return None
    nights = ((now or datetime.now(UTC)).date() - datetime.fromisoformat(started).date()).days
    before = [piece for partition in spec["partitions"] for piece in partition["pieces"]]
    pieces = [vars(piece) for partition in partitions for piece in partition.pieces]
    changed = changed_share(before, pieces)
    is_due = (when.nights is not None and nights >= when.nights) or (
        when.changed is not None and changed >= when.changed
    )
    return Training(run_id=run_id, nights=nights, changed=changed, is_due=is_due)


def training_before_forgetting(
    roots: Roots, settings: Mapping[str, Any], seed: int, partitions: Sequence[PartitionPlan]
) -> Training | None:
    """The last training, where what was forgotten since is all that its run had read otherwise; None elsewhere.

    To forget asks for no training: that would be another release of everybody else's records.

    Args:
        settings: the stage tables of the run that is about to begin, as JSON values.
        seed: ``run.seed``.
        partitions: of the run that is about to begin.
    """
    found = _last_record(roots)
    spec = None if found is None else runs.spec_document(roots, str(found.get("trained_by") or found["run_id"]))
    if found is None or spec is None:
        return None
    before = [piece for partition in spec["partitions"] for piece in partition["pieces"]]
    pieces = [piece for partition in partitions for piece in partition.pieces]
    stayed = [piece for piece in before if piece["path"]]  # of a forgotten file, no path is on record
    is_forgotten = len(stayed) < len(before) or {p.forgotten for p in pieces} != {
        tuple(p.get("forgotten", ())) for p in stayed
    }
    is_same = Counter(p["digest"] for p in stayed) == Counter(p.digest for p in pieces) and spec["seed"] == seed
    if not is_forgotten or not is_same or not same_values(_read(spec["settings"]), _read(settings)):
        return None
    started = runs.started_at(str(spec["run_id"]))
    nights = 0 if started is None else (datetime.now(UTC).date() - datetime.fromisoformat(started).date()).days
    return Training(run_id=str(spec["run_id"]), nights=nights, changed=0.0, is_due=False)


def _read(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings that training, or what is before it, depends on."""
    references = config_references()
    tables = {table for name in upstream(["train"]) - OUTSIDE for table in GRAPH[name].configs if table in settings}
    return {
        table: {n: v for n, v in settings[table].items() if n not in config_class(references[table]).UNKEYED}
        for table in tables
    }


def changed_share(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> float:
    """Share of the input that came or went, whichever is more, of what there was; of the format that changed most.

    Pieces (bytes of text files, rows of tables) are compared by content, wherever they lie. A piece that was edited in
    one place has changed as a whole.

    Args:
        before, after: pieces, as their fields (`pipelines.context.Piece`).
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
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for piece in pieces:
        found[str(piece["format"])][str(piece["digest"])] = int(piece["end_byte"]) - int(piece["start_byte"])
    return found


def _last_record(roots: Roots) -> dict[str, Any] | None:
    """The newest release with a model. A run of a few stages only has none, and one that failed does not count."""
    return next((r for r in runs.records(roots) if r.get("became_latest") and runs.key_in(r, "train")), None)


@dataclass(frozen=True, kw_only=True)
class CurrentRelease:
    """What a run that does not train leaves as it is.

    Attributes:
        artifacts: rows of a record, of the stages that make the release.
        outputs: where the release is shown.
        metrics: the figures of its model, and of what was promised for it; those of its text are of other text.
    """

    artifacts: Sequence[list[Any]] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)


def current_release(roots: Roots, stages: Iterable[str]) -> CurrentRelease:
    """The release that stays where a run does not train; ``stages`` are those that make one."""
    found = _last_record(roots) or {}
    names = set(stages)
    outputs, metrics = roots.shown_here(found.get("outputs", {})), found.get("metrics", {})
    return CurrentRelease(
        artifacts=[row for row in found.get("artifacts", ()) if row[0] in names],
        outputs={n: outputs[n] for n in _SHOWN if n in outputs and Path(outputs[n]).exists()},  # what had to go is gone
        metrics={name: metrics[name] for name in _OF_THE_MODEL if name in metrics},
    )
