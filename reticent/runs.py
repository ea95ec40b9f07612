"""Results of runs: tables as polars frames, figures, claims, reports, models, and the privacy ledger.

Everything here reads, and changes nothing. Its results may quote private text, unless their description says otherwise.

    >>> import reticent
    >>> run = reticent.open_run(project)  # a settings file, its folder, or a store
    >>> run.state, run.table("redacted").select("num_masked_tokens").sum().collect().item() > 0
    ('completed', True)
    >>> {claim.relation for claim in run.claims}
    {'replace_one'}
    >>> round(run.figures("train")["perplexity"]) > 1, run.report.name
    (True, 'report.html')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipelines.accounting.claim_builder import Claim
from pipelines.accounting.ledger import Release
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, InputError, StoreError
from pipelines.files import read_json
from pipelines.frames import scan
from pipelines.graph import GRAPH
from pipelines.graph_names import FIGURES
from pipelines.settings.loading import load_settings
from pipelines.stage import ROOTS
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.place.roots import Roots, open_roots
from pipelines.store.upkeep.report_view import shown_report

if TYPE_CHECKING:
    import polars as pl

    from pipelines.training.trained import TrainedModel

__all__ = ["Artifact", "Claim", "Release", "Run", "RunSummary", "Store", "open_run", "open_store"]

_SETTINGS = "reticent.toml"
_EVALUATES = "evaluate"


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run in a list of runs.

    Attributes:
        run_id: name of the run; names sort by start.
        started: start time in UTC; None for a name of another form.
        purpose: purpose of the run: ``release``, ``audit`` or ``comparison``.
        parent: run that a child run belongs to.
        state: state of the run: ``completed``, ``failed``, or ``unfinished`` (still running, or killed).
        built: number of artifacts that the run built, by stage.
        is_forgotten: true if the run read a document that ``reticent forget`` has since removed from the store.
    """

    run_id: str
    started: datetime | None
    purpose: str
    parent: str | None
    state: str
    built: Mapping[str, int]
    is_forgotten: bool = False


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """An output of a stage, as its manifest describes it.

    Attributes:
        stage: name of the stage as ``reticent plan`` shows it, such as ``dedup.keys``.
        partition: partition of the corpus; None for a stage of the whole corpus.
        key: key of the artifact.
        private_folder, public_folder: folders of the files; the second is None if the artifact has no public files.
        files: size in bytes and SHA-256 by ``root/path``.
        stats: counts of the stage.
        lineage: ingredients of the key, and the keys of the inputs.
        seconds: duration of the build in seconds.
    """

    stage: str
    partition: str | None
    key: str
    private_folder: Path
    public_folder: Path | None
    files: Mapping[str, Mapping[str, Any]]
    stats: Mapping[str, Any]
    lineage: Mapping[str, Any]
    seconds: float


class Store:
    """A store of artifacts and runs. `open_store` makes it."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    @property
    def private_root(self) -> Path:
        """The folder with everything that may hold secrets."""
        return self._roots.private

    @property
    def public_root(self) -> Path:
        """The folder with what may be published."""
        return self._roots.public

    def runs(self) -> list[RunSummary]:
        """Returns every run, newest first."""
        return [
            RunSummary(**{**row, "started": row["started"] and datetime.fromisoformat(row["started"])})
            for row in runs.each_run(self._roots)
        ]

    def run(self, name: str = "latest") -> Run:
        """Returns a run.

        Args:
            name: id of the run, the beginning of an id, ``latest``, or ``previous`` (the completed run before the
                latest).

        Raises:
            ConfigError: no recorded run has this name, or several do.
        """
        return Run(self, runs.resolve(self._roots, name))

    def ledger(self) -> tuple[Release, ...]:
        """Returns every release, in the order of entry. `reticent.accounting.composed_epsilon` gives their joint cost.

        Raises:
            PrivacyGateError: the ledger was changed after it was written.
        """
        return tuple(read_ledger(self._roots))


class Run:
    """A finished run. `open_run` and `Store.run` make it.

    Attributes:
        store: store of the run.
        record: record of the run, as JSON values.
    """

    def __init__(self, store: Store, record: Mapping[str, Any]) -> None:
        self.store = store
        self.record = record
        self._roots = store._roots
        self._artifacts: Sequence[tuple[str, str | None, str]] = [tuple(row) for row in record.get("artifacts", [])]

    def __repr__(self) -> str:
        return f"Run({self.run_id!r}, state={self.state!r})"

    @property
    def run_id(self) -> str:
        """The name of the run. Names sort by start."""
        return str(self.record["run_id"])

    @property
    def state(self) -> str:
        """``completed`` or ``failed``."""
        return str(self.record.get("state"))

    @property
    def purpose(self) -> str:
        """``release``, ``audit`` or ``comparison``; only a release publishes."""
        return str(self.record.get("purpose", "release"))

    @property
    def finished(self) -> datetime | None:
        """The time at which the run ended, in UTC."""
        seconds = self.record.get("finished")
        return None if seconds is None else datetime.fromtimestamp(float(seconds), UTC)

    @property
    def metrics(self) -> Mapping[str, Any]:
        """The figures of the run's summary, such as ``epsilon`` (of all releases together) and ``perplexity``."""
        return dict(self.record.get("metrics") or {})

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the run's tables."""
        return tuple(table.name for stage in GRAPH.values() if self._made_by(stage.name) for table in stage.tables)

    def table(self, name: str) -> pl.LazyFrame:
        """Returns a table over all partitions; nothing is read before you collect it. Columns: `docs/inspecting.md`.

        Args:
            name: name of a table in `tables`, such as ``sentences``, ``redacted``, ``private`` or ``token_scores``.

        Raises:
            ConfigError: the run has no such table.
            StoreError: files of the table are gone, because `reticent gc` has removed what this run used.
        """
        for stage in GRAPH.values():
            for table in stage.tables:
                artifacts = self._made_by(stage.name)
                if table.name == name and artifacts:
                    files = [self._roots.object_dir(table.root, by, key) / table.file for by, key in artifacts]
                    self._check_there(*files)
                    return scan(files)
        raise ConfigError(f"the run has no table {name!r}; it has {', '.join(self.tables) or 'none'}")

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions of the run's corpus, in order."""
        return tuple(dict.fromkeys(partition for _, partition, _ in self._artifacts if partition is not None))

    def artifact(self, stage: str, partition: str | None = None) -> Artifact:
        """Reads the manifest of one output of a stage.

        Args:
            stage: name of the stage as ``reticent plan`` shows it: ``train``, ``dedup.keys``.
            partition: partition, for a stage that works by partition.

        Raises:
            ConfigError: the run has no such artifact.
            StoreError: the artifact is gone, or its manifest is damaged.
        """
        name, key = self._key(stage, partition)
        manifest = manifests.load(self._roots, name, key)
        if manifest is None:
            raise StoreError(f"the manifest of {stage} is gone or damaged; `reticent verify` says more")
        public = self._roots.object_dir("public", name, key)
        return Artifact(
            stage=stage,
            partition=partition,
            key=key,
            private_folder=self._roots.object_dir("private", name, key),
            public_folder=public if public.is_dir() else None,
            files=manifest.files,
            stats=manifest.stats,
            lineage=manifest.lineage,
            seconds=manifest.seconds,
        )

    def figures(self, stage: str, partition: str | None = None) -> Mapping[str, Any]:
        """Returns the figures of a stage, as JSON values: ``train`` has perplexities, ``estimate`` has m, γ and δ₂.

        The figures of ``train`` include those of ``train.evaluate``, which measures the finished model.

        Args:
            stage, partition: arguments of `artifact`.

        Raises:
            ConfigError: the run has no such artifact, or the stage has no figures.
            StoreError: the figures are gone.
        """
        name, key = self._key(stage, partition)
        path = self._roots.object_dir("private", name, key) / FIGURES
        self._check_there(path.parent)
        if not isinstance(figures := read_json(path), dict):
            raise ConfigError(f"{stage} has no figures")
        has_more = name == "train" and bool(self._keys(_EVALUATES))
        return {**figures, **self.figures(_EVALUATES)} if has_more else figures

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims of the run for the trusted side, with refused ones. Empty without a training."""
        return self._claims("private")

    @property
    def public_claims(self) -> tuple[Claim, ...]:
        """The claims that the public may see: without any figure that was counted on private text."""
        return self._claims("public")

    @property
    def headline(self) -> Claim | None:
        """The claim to show first; None if nothing can be claimed."""
        index = self._claim_document().get("headline")
        return None if index is None else self.claims[index]

    @property
    def report(self) -> Path | None:
        """The report for the trusted side, an HTML page; None if the run wrote none."""
        return self._page("private")

    @property
    def public_report(self) -> Path | None:
        """The report that may be published; None if the run wrote none."""
        return self._page("public")

    @property
    def model_folder(self) -> Path | None:
        """The folder of the trained model; None without a model. A model without any bound lies in the private root."""
        places = ((root, key) for key in self._keys("train") for root in reversed(ROOTS))
        folders = (self._roots.object_dir(root, "train", key) / "model" for root, key in places)
        return next(filter(Path.is_dir, folders), None)

    def open_model(self, *, device: str = "auto") -> TrainedModel:
        """Opens the trained model, to score records and to write texts (`reticent.open_trained`).

        Raises:
            ConfigError: the run trained no model, or a classifier.
        """
        from pipelines.training.trained import open_trained

        if (folder := self.model_folder) is None:
            raise ConfigError("the run has no model: it trained none, or `reticent gc` has removed it")
        return open_trained(folder, device=device, task=self.figures("train").get("task"))

    def _made_by(self, stage: str) -> list[tuple[str, str]]:
        """Returns the artifacts that hold the output of a stage, each with the stage that made it."""
        artifacts = [(stage, key) for key in self._keys(stage)]
        is_older = stage == _EVALUATES and not artifacts  # a training evaluated its model itself
        return self._made_by("train") if is_older else artifacts

    def _keys(self, stage: str) -> list[str]:
        return [key for made_by, _, key in self._artifacts if made_by == stage]

    def _key(self, shown: str, partition: str | None) -> tuple[str, str]:
        names = [stage.name for stage in GRAPH.values() if shown in (stage.shown_name, stage.name)]
        rows = [(stage, of_partition, key) for stage, of_partition, key in self._artifacts if stage in names]
        for stage, of_partition, key in rows:
            if of_partition == partition:
                return stage, key
        if rows:
            raise ConfigError(f"{shown} works by partition: name one of Run.partitions")
        known = dict.fromkeys(GRAPH[stage].shown_name for stage, _, _ in self._artifacts)
        raise ConfigError(f"the run has no output of {shown}; it has those of {', '.join(known)}")

    def _check_there(self, *paths: Path) -> None:
        if not all(path.exists() for path in paths):
            raise StoreError("files of this run are gone: `reticent gc` removed them, or they are in quarantine")

    def _claim_document(self) -> Mapping[str, Any]:
        for key in self._keys("guarantee"):
            path = self._roots.object_dir("private", "guarantee", key) / "claims.json"
            self._check_there(path)
            return dict(read_json(path) or {})
        return {}

    def _claims(self, side: Literal["private", "public"]) -> tuple[Claim, ...]:
        names = {field.name for field in fields(Claim)}

        def known(row: Mapping[str, Any]) -> dict[str, Any]:
            return {n: tuple(v) if isinstance(v, list) else v for n, v in row.items() if n in names}

        document = self._claim_document()
        shown = document if side == "private" else document.get("public", {})
        return tuple(Claim(**known(row)) for row in shown.get("claims", []))

    def _page(self, side: Literal["private", "public"]) -> Path | None:
        folders = [self._roots.object_dir(side, "report", key) for key in self._keys("report")]
        if side == "private" and shown_report(self._roots) in folders:  # with examples of rows that are open
            folders = [self._roots.private / "latest" / "report"]
        return next(filter(Path.is_file, (folder / "report.html" for folder in folders)), None)


def open_store(path: str | Path, *, key_file: str | Path | None = None) -> Store:
    """Opens a store for reading. Tables of an encrypted store are decrypted as you read them.

    Args:
        path: path of a settings file, of a folder with ``reticent.toml``, or of a store's folder with its two roots.
            The environment overrides no setting here.
        key_file: path of the file with the key of an encrypted store; None for the key that the settings name.

    Raises:
        InputError: no settings file and no store is at the path.
        ConfigError: the settings are wrong; or the store is encrypted, and the key is missing or belongs to another
            store.
        PrivacyGateError: others can read the private root, or its secret is missing.
    """
    path = Path(path)
    store_key = None if key_file is None else KeySource(file=str(Path(key_file).absolute()))
    if (path / "private").is_dir():
        return Store(open_roots(path / "private", path / "public", create=False, store_key=store_key))
    file = path / _SETTINGS if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"there is neither a store nor a settings file at {path}")
    settings = load_settings(file, {})
    private, public, secret = settings.roots()
    if not private.is_dir():
        raise InputError("the store of these settings does not exist yet; `reticent run` makes it")
    return Store(open_roots(private, public, secret, create=False, store_key=store_key or settings.store_key()))


def open_run(path: str | Path, run: str = "latest", *, key_file: str | Path | None = None) -> Run:
    """Opens a finished run for reading.

    Args:
        path: path that `open_store` takes.
        run: id of the run, the beginning of an id, ``latest``, or ``previous``.
        key_file: path of a key file, which `open_store` takes.

    Raises:
        InputError, ConfigError, PrivacyGateError: the errors of `open_store` and `Store.run`.
    """
    return open_store(path, key_file=key_file).run(run)


open = open_run
"""`open_run` by a shorter name: ``reticent.open("reticent.toml").table("sentences")`` is a lazy frame of polars."""
