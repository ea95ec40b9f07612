"""One run's view of the store: frozen settings, partitions, the stages that may run, and the roots.

A specification file in the private root describes a run. Tasks get only the path of that file and keys, so that no
setting or text can reach the orchestrator's database.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from pipelines.config import StageConfig
from pipelines.context import Partition, Piece, Purpose, Runtime
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, StoreError
from pipelines.files import read_json
from pipelines.graph import GRAPH, config_references
from pipelines.settings.tables import config_class
from pipelines.store.objects.code import CodeDigests
from pipelines.store.objects.reviews import ReviewState
from pipelines.store.place import versions
from pipelines.store.place.roots import Roots, open_roots
from pipelines.store.place.seals import SEAL, bears_seal, write_sealed
from pipelines.store.place.statcache import StatCache
from pipelines.store.place.unlocking import unlock
from pipelines.walks import default_stages

_IN_ROWS = (".parquet", ".arrow")
_ROW_BYTES = 1_000


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """The specification of a run, which decides all that the run does.

    Attributes:
        run_id: name of the run; sorts by start time.
        private_root, public_root, secret_file: paths of the store. Without secret_file, the store has its own secret.
        config_dir: folder of the settings file, where relative paths and plug-ins start.
        settings: validated stage tables as JSON values.
        seed: ``run.seed``.
        runtime: speed and memory settings, never keyed.
        partitions: the corpus, in order.
        left_out: number of files that are not read, by suffix or by reason (`pipelines.corpus.listing.FileList`).
        selected: stages that may run. Other stages are used if cached, and skipped if not.
        forced: stages that are rebuilt even if cached.
        reviews: state of the log of reviews when the run began; None if nobody has reviewed.
        purpose: purpose of the run. Only a release publishes anything, or becomes the latest run.
        parent: id of the run that a child run belongs to; None for a release.
        overlay: digest of the rows that a child run trains on beside the corpus, or leaves out
            (`pipelines.store.objects.overlays`); None without any.
        trained_by: id of the run whose model stays because `train.when` says that no training is due; otherwise None.
        state: folder of the user that keeps witnesses of ledgers (`pipelines.store.place.roots.Roots`).
        store_key: source of the store's key, without the key itself; None for a store in plain.
    """

    run_id: str
    private_root: str
    public_root: str
    secret_file: str | None
    config_dir: str
    settings: Mapping[str, Mapping[str, Any]]
    seed: int
    runtime: Runtime
    partitions: tuple[Partition, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    selected: tuple[str, ...] = field(default_factory=default_stages)
    reviews: ReviewState | None = None
    forced: tuple[str, ...] = ()
    purpose: Purpose = "release"
    parent: str | None = None
    overlay: str | None = None
    trained_by: str | None = None
    store_key: KeySource | None = None
    state: str | None = None

    def __post_init__(self) -> None:
        if self.overlay is not None and self.purpose == "release":
            raise ConfigError("a release trains on the corpus as it is: only child runs add rows, or leave rows out")

    def to_json(self) -> dict[str, Any]:
        """Returns the specification as a JSON document."""
        fields = asdict(self)
        if self.store_key is None:
            del fields["store_key"]
        return {"schema_version": versions.RUN, **fields}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunSpec:
        """Reads a specification from the document of `to_json`.

        Raises:
            StoreError: another version wrote the document.
        """
        fields = dict(document)
        for name in (SEAL, "recorded"):  # `runs.RECORDED`
            fields.pop(name, None)
        if fields.pop("schema_version", None) != versions.RUN:
            raise StoreError("the run specification was written by another version of reticent; start a new run")
        known = Runtime.__dataclass_fields__  # earlier versions had other settings
        fields["runtime"] = Runtime(**{name: value for name, value in fields["runtime"].items() if name in known})
        fields["partitions"] = tuple(
            Partition(p["name"], tuple(map(_piece, p["pieces"]))) for p in fields["partitions"]
        )
        fields["reviews"] = ReviewState(**fields["reviews"]) if fields["reviews"] else None
        if key := fields.get("store_key"):
            fields["store_key"] = KeySource.from_json(key)
        fields["selected"], fields["forced"] = tuple(fields["selected"]), tuple(fields["forced"])
        return cls(**fields)


def _piece(fields: Mapping[str, Any]) -> Piece:
    return Piece(**{**fields, "forgotten": tuple(fields.get("forgotten", ()))})


def child_of(
    parent: RunSpec,
    run_id: str,
    *,
    purpose: Purpose,
    changes: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    overlay: str | None = None,
    selected: Sequence[str] | None = None,
) -> RunSpec:
    """Makes the specification of a child run, which uses stored artifacts with the same key and publishes nothing.

    Its artifacts lie in the private root. ``latest/`` and the public root stay as they are. In the ledger, models of an
    audit are entered as such and cost nothing. Models of a comparison are charged for, because any of them may be
    chosen by its figures.

    Args:
        parent: specification of a release.
        run_id: id of the child run.
        purpose: ``audit`` or ``comparison``.
        changes: settings that differ from the parent's, by table.
        overlay: digest from `pipelines.store.objects.overlays.make_overlay`.
        selected: stages that may run; None for all stages that are not optional.

    Raises:
        ConfigError: the purpose is a release, the parent is itself a child, or a setting is wrong.
    """
    if purpose == "release" or parent.purpose != "release":
        raise ConfigError("a child run is for an audit or a comparison, and the run that it belongs to is a release")
    references = config_references()
    settings = dict(parent.settings)
    for table, changed in changes.items():
        if table not in references:
            raise ConfigError(f"there is no settings table [{table}]")
        try:
            config = config_class(references[table]).model_validate({**parent.settings.get(table, {}), **changed})
        except ValidationError as error:
            # Without the values: settings may quote private text.
            wrong = "; ".join(f"{table}.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ConfigError(wrong) from None
        settings[table] = config.model_dump(mode="json")
    return replace(
        parent,
        run_id=run_id,
        purpose=purpose,
        parent=parent.run_id,
        settings=settings,
        overlay=overlay,
        selected=default_stages() if selected is None else tuple(selected),
        forced=(),
        trained_by=None,  # a child run trains even if no training is due
    )


@dataclass
class Session:
    """An opened run. Use `open_session` in tasks and workers.

    Attributes:
        verified: artifacts whose files were checked in this process.
        built: artifacts built or found in this process: (stage, partition) to key.
        own: the input-independent key ingredients of each stage, computed once.
        outcomes: outcomes of the stages and partitions so far (`pipelines.store.place.outcome.Outcome`).
        is_table_noted: true if this process ensured that the ledger has the run's table of public rows.
    """

    spec: RunSpec
    roots: Roots
    configs: Mapping[str, StageConfig]
    stat_cache: StatCache
    code: CodeDigests
    verified: set[tuple[str, str]] = field(default_factory=set)
    built: dict[tuple[str, str | None], str] = field(default_factory=dict)
    own: dict[str, dict[str, Any]] = field(default_factory=dict)
    outcomes: list[Any] = field(default_factory=list)
    is_table_noted: bool = False

    def makes_unpublishable(self, stage: str) -> bool:
        """Returns True for a model of an audit, which must never be published because it may have seen canaries."""
        return self.spec.purpose == "audit" and GRAPH[stage].is_release

    def partition_names(self, stage: str) -> tuple[str | None, ...]:
        """Returns the partitions of a stage in corpus order; a single None for a whole-corpus stage."""
        if GRAPH[stage].own_partitions:
            return self.configs[GRAPH[stage].table].partition_names(self._input_bytes)
        return self._names if GRAPH[stage].partitioned else (None,)

    @functools.cached_property
    def _pieces(self) -> Mapping[str, tuple[Piece, ...]]:
        return {plan.name: plan.pieces for plan in self.spec.partitions}

    @functools.cached_property
    def _names(self) -> tuple[str, ...]:
        """The names of the corpus's partitions. Making them again for each would take the square of their number."""
        return tuple(self._pieces)

    @functools.cached_property
    def _input_bytes(self) -> int:
        """The approximate size of the input, because for Parquet and Arrow files only row counts are known."""
        pieces = (piece for partition in self.spec.partitions for piece in partition.pieces)
        return sum((p.end_byte - p.start_byte) * (_ROW_BYTES if p.name.endswith(_IN_ROWS) else 1) for p in pieces)

    def pieces(self, partition: str) -> tuple[Piece, ...]:
        """Returns the input pieces of a partition.

        Raises:
            LookupError: the run has no such partition.
        """
        if partition not in self._pieces:
            raise LookupError(f"this run has no partition {partition}")
        return self._pieces[partition]


def make_session(spec: RunSpec, *, create: bool = True) -> Session:
    """Opens the store that a specification names (see `open_roots`) and validates its settings."""
    roots = open_roots(
        Path(spec.private_root),
        Path(spec.public_root),
        Path(spec.secret_file) if spec.secret_file else None,
        create=create,
        store_key=spec.store_key,
        state=None if spec.state is None else Path(spec.state),
    )
    if spec.config_dir not in sys.path:
        sys.path.append(spec.config_dir)  # where plug-ins named by import path may live
    configs = {
        table: config_class(reference).model_validate(spec.settings.get(table, {}))
        for table, reference in config_references().items()
    }
    cache = StatCache(roots.cache / "code.json", roots.secret)
    return Session(spec, roots, configs, cache, CodeDigests(cache))


def save_spec(session: Session) -> Path:
    """Writes the specification that tasks open, and returns its path."""
    path = session.roots.runs / session.spec.run_id / "spec.json"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_sealed(path, session.spec.to_json(), "run", session.roots.secret)
    return path


def open_session(path: str, store_key: KeySource | None = None) -> Session:
    """Opens a run from its specification file; once per process and run.

    Args:
        path: specification file in the private root.
        store_key: source of the key of an encrypted store, for a process that has not opened the store yet.

    Raises:
        ConfigError: the store is encrypted, and the key is missing or is not its own.
        StoreError: the file is missing, damaged, or of another version.
    """
    unlock(Path(path).parents[2], store_key, create=False)
    return read_session(path)


@functools.lru_cache(maxsize=4)
def read_session(path: str) -> Session:
    """Opens a run like `open_session`, in a process that has already opened the store."""
    document = read_json(Path(path))
    if document is None:
        raise StoreError(f"the run specification {path} is missing or damaged; start a new run")
    session = make_session(RunSpec.from_json(document))
    if not bears_seal(document, "run", session.roots.secret):
        raise StoreError(f"the run specification {path} is not as it was written; start a new run")
    return session
