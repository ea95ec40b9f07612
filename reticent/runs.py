"""What runs left behind: tables as polars frames, figures, claims, reports, models, and the privacy ledger.

Everything here reads, and changes nothing. What it reads may quote private text, unless it says otherwise.

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

from flows.settings import load_settings
from pipelines.accounting.claim_builder import Claim
from pipelines.accounting.ledger import Release
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, InputError, StoreError
from pipelines.files import read_json
from pipelines.frames import scan
from pipelines.graph import GRAPH
from pipelines.graph_names import FIGURES
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.place.roots import Roots, open_roots

if TYPE_CHECKING:
    import polars as pl

    from pipelines.training.trained import TrainedModel

__all__ = ["Artifact", "Claim", "Release", "Run", "RunSummary", "Store", "open_run", "open_store"]

_SETTINGS = "reticent.toml"
_EVALUATES = "evaluate"


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run as a list of runs shows it.

    Attributes:
        run_id: its name; sorts by start.
        started: when, in UTC; None for an id of another form.
        purpose: ``release``, ``audit`` or ``comparison``.
        parent: the run that a child run belongs to.
        state: ``completed``, ``failed``, or ``unfinished`` (under way, or killed).
        built: artifacts that it built, by stage.
        is_forgotten: whether it read a document that ``reticent forget`` took out of the store since.
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
    """One output of a stage, as its manifest has it.

    Attributes:
        stage: as ``reticent plan`` shows it, such as ``dedup.keys``.
        partition: of the corpus; None for a stage of the whole corpus.
        key: of the artifact.
        private_folder, public_folder: where its files are; the second is None where it has none.
        files: size in bytes and SHA-256 by ``root/path``.
        stats: the stage's counts.
        lineage: what the key was made of, and the keys of its inputs.
        seconds: how long the build took.
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
    """A store of artifacts and runs. Made by `open_store`."""

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
        """Every run, newest first."""
        found = []
        for row in runs.each_run(self._roots):
            started = None if row["started"] is None else datetime.fromisoformat(row["started"])
            found.append(RunSummary(**{**row, "started": started}))
        return found

    def run(self, name: str = "latest") -> Run:
        """A run.

        Args:
            name: its id, the beginning of one, ``latest``, or ``previous`` (the completed one before the latest).

        Raises:
            ConfigError: no recorded run is called that, or several are.
        """
        return Run(self, runs.resolve(self._roots, name))

    def ledger(self) -> tuple[Release, ...]:
        """Every release, in the order of entry; `reticent.accounting.composed_epsilon` says what they cost together.

        Raises:
            PrivacyGateError: the ledger is not as it was written.
        """
        return tuple(read_ledger(self._roots))


class Run:
    """A finished run. Made by `open_run` or `Store.run`.

    Attributes:
        store: where it is.
        record: what was written of it, as JSON values.
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
        """Its name, which sorts by start."""
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
        """When it ended, in UTC."""
        found = self.record.get("finished")
        return None if found is None else datetime.fromtimestamp(float(found), UTC)

    @property
    def metrics(self) -> Mapping[str, Any]:
        """The figures of its summary, such as ``epsilon`` (of all releases together) and ``perplexity``."""
        found: Mapping[str, Any] = self.record.get("metrics") or {}
        return found

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that it has."""
        return tuple(table.name for stage in GRAPH.values() if self._made_by(stage.name) for table in stage.tables)

    def table(self, name: str) -> pl.LazyFrame:
        """A table over all partitions; `docs/inspecting.md` has its columns. Nothing is read before it is collected.

        Args:
            name: one of `tables`, such as ``sentences``, ``redacted``, ``private`` or ``token_scores``.

        Raises:
            ConfigError: the run has no such table.
            StoreError: files of it are gone, for `reticent gc` has removed what this run used.
        """
        for stage in GRAPH.values():
            for table in stage.tables:
                found = self._made_by(stage.name)
                if table.name == name and found:
                    files = [self._roots.object_dir(table.root, made_by, key) / table.file for made_by, key in found]
                    self._check_there(*files)
                    return scan(files)
        raise ConfigError(f"the run has no table {name!r}; it has {', '.join(self.tables) or 'none'}")

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions of its corpus, in order."""
        return tuple(dict.fromkeys(partition for _, partition, _ in self._artifacts if partition is not None))

    def artifact(self, stage: str, partition: str | None = None) -> Artifact:
        """What the manifest says of one output of a stage.

        Args:
            stage: as ``reticent plan`` shows it: ``train``, ``dedup.keys``.
            partition: of a stage that works by partition.

        Raises:
            ConfigError: the run has no such artifact.
            StoreError: it is gone, or its manifest is damaged.
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
        """The figures of a stage, as JSON values: ``train`` has perplexities, ``estimate`` m, γ and δ₂.

        Those of ``train`` are with those of ``train.evaluate``, which measures the finished model.

        Args:
            stage, partition: as for `artifact`.

        Raises:
            ConfigError: the run has no such artifact, or the stage has no figures.
            StoreError: they are gone.
        """
        name, key = self._key(stage, partition)
        path = self._roots.object_dir("private", name, key) / FIGURES
        self._check_there(path.parent)
        found = read_json(path)
        if not isinstance(found, dict):
            raise ConfigError(f"{stage} has no figures")
        has_more = name == "train" and any(made_by == _EVALUATES for made_by, _, _ in self._artifacts)
        return {**found, **self.figures(_EVALUATES)} if has_more else found

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What can be promised of the run, and what is refused, for the trusted side. Empty without a training."""
        return self._claims("private")

    @property
    def public_claims(self) -> tuple[Claim, ...]:
        """The same as the public may see it: no figure that was counted on private text."""
        return self._claims("public")

    @property
    def headline(self) -> Claim | None:
        """The claim to show first; None where nothing can be claimed."""
        found = self._claim_document().get("headline")
        return None if found is None else self.claims[found]

    @property
    def report(self) -> Path | None:
        """The trusted side's report, an HTML page; None where the run wrote none."""
        return self._page("private")

    @property
    def public_report(self) -> Path | None:
        """The report that may be published; None where the run wrote none."""
        return self._page("public")

    @property
    def model_folder(self) -> Path | None:
        """The folder of the trained model; None without one. One without any bound lies in the private root."""
        for _, _, key in [row for row in self._artifacts if row[0] == "train"]:
            for root in ("public", "private"):
                folder = self._roots.object_dir(root, "train", key) / "model"
                if folder.is_dir():
                    return folder
        return None

    def open_model(self, *, device: str = "auto") -> TrainedModel:
        """The trained model, to score records and to write texts (`reticent.open_trained`).

        Raises:
            ConfigError: the run trained none, or a classifier.
        """
        from pipelines.training.trained import open_trained

        folder = self.model_folder
        if folder is None:
            raise ConfigError("the run has no model: it trained none, or `reticent gc` has removed it")
        return open_trained(folder, device=device, task=self.figures("train").get("task"))

    def _made_by(self, stage: str) -> list[tuple[str, str]]:
        """The artifacts that hold what a stage makes, each with the stage that made it."""
        found = [(stage, key) for made_by, _, key in self._artifacts if made_by == stage]
        is_older = stage == _EVALUATES and not found  # a training evaluated its model itself
        return self._made_by("train") if is_older else found

    def _key(self, shown: str, partition: str | None) -> tuple[str, str]:
        names = [stage.name for stage in GRAPH.values() if shown in (stage.shown_name, stage.name)]
        rows = [(stage, found, key) for stage, found, key in self._artifacts if stage in names]
        for stage, found, key in rows:
            if found == partition:
                return stage, key
        if rows:
            raise ConfigError(f"{shown} works by partition: name one of Run.partitions")
        known = dict.fromkeys(GRAPH[stage].shown_name for stage, _, _ in self._artifacts)
        raise ConfigError(f"the run has no output of {shown}; it has those of {', '.join(known)}")

    def _check_there(self, *paths: Path) -> None:
        if not all(path.exists() for path in paths):
            raise StoreError("files of this run are gone: `reticent gc` removed them, or they are in quarantine")

    def _claim_document(self) -> Mapping[str, Any]:
        for stage, _, key in self._artifacts:
            if stage == "guarantee":
                path = self._roots.object_dir("private", stage, key) / "claims.json"
                self._check_there(path)
                found: Mapping[str, Any] = read_json(path) or {}
                return found
        return {}

    def _claims(self, side: Literal["private", "public"]) -> tuple[Claim, ...]:
        document = self._claim_document()
        listed = (document if side == "private" else document.get("public", {})).get("claims", [])
        names = {field.name for field in fields(Claim)}
        found: list[Claim] = []
        for row in listed:
            values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in row.items() if n in names}
            found.append(Claim(**values))
        return tuple(found)

    def _page(self, side: Literal["private", "public"]) -> Path | None:
        for stage, _, key in self._artifacts:
            page = self._roots.object_dir(side, stage, key) / "report.html"
            if stage == "report" and page.is_file():
                return page
        return None


def open_store(path: str | Path, *, key_file: str | Path | None = None) -> Store:
    """A store, to be read. Tables of an encrypted one are decrypted as they are read.

    Args:
        path: a settings file, a folder that holds ``reticent.toml``, or a store's folder with its two roots. The
            environment overrides no setting here.
        key_file: the file with the key of an encrypted store; None for what the settings name.

    Raises:
        InputError: there is none of these.
        ConfigError: the settings are wrong; or the store is encrypted, and the key is missing or not its own.
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
    """A finished run, to be read.

    Args:
        path: as for `open_store`.
        run: its id, the beginning of one, ``latest``, or ``previous``.
        key_file: as for `open_store`.

    Raises:
        InputError, ConfigError, PrivacyGateError: as `open_store` and `Store.run`.
    """
    return open_store(path, key_file=key_file).run(run)


open = open_run
"""`open_run` by a shorter name: ``reticent.open("reticent.toml").table("sentences")`` is a lazy frame of polars."""
