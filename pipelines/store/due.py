"""Whether it is time to train: `train.when` against what the last run that trained had seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipelines.store import runs
from pipelines.store.roots import Roots
from pipelines.store.session import PartitionPlan

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
        """Why the model stays, for people."""
        limits = [f"{self.nights} of {when.nights} nights have passed"] if when.nights is not None else []
        if when.changed is not None:
            limits.append(f"{self.changed:.2%} of the input changed, of {when.changed:.2%}")
        return f"{' and '.join(limits)} since run {self.run_id}"


def last_training(
    roots: Roots, when: Any, partitions: Sequence[PartitionPlan], *, now: datetime | None = None
) -> Training | None:
    """What `train.when` is about; None where no run has trained, or what it had seen is no longer known.

    Args:
        when: the settings (`pipelines.stages.train_settings.TrainWhen`).
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
class Kept:
    """What a run that does not train leaves as it is.

    Attributes:
        artifacts: rows of a record, of the stages that make the release.
        outputs: where the release is shown.
        metrics: the figures of its model, and of what was promised for it; those of its text are of other text.
    """

    artifacts: Sequence[list[Any]] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)


def kept_release(roots: Roots, stages: Iterable[str]) -> Kept:
    """The release that stays where a run does not train; ``stages`` are those that make one."""
    found = _last_record(roots) or {}
    names = set(stages)
    outputs, metrics = found.get("outputs", {}), found.get("metrics", {})
    return Kept(
        artifacts=[row for row in found.get("artifacts", ()) if row[0] in names],
        outputs={name: outputs[name] for name in _SHOWN if name in outputs},
        metrics={name: metrics[name] for name in _OF_THE_MODEL if name in metrics},
    )
