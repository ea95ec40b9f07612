"""The context of a running stage: its settings, its inputs, its output folders, and services of the run.

A stage is ``run(ctx) -> Mapping[str, JSON]``. It reads only ``ctx.inputs`` and ``ctx.outside``, writes only to
``ctx.out`` and ``ctx.out.public``, and returns a few counts for people. Those counts never reach another stage. A later
stage reads data files only, so that the output digest covers all that it needs (design, section 3).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pipelines.artifacts import Artifact, Folder, Output, Source

Purpose = Literal["release", "audit", "comparison"]
"""The purpose of a run. All but a release are child runs, which publish nothing."""


class Progress(Protocol):
    """A callback for progress. ``total`` is None while it is unknown, and ``message`` never holds private text."""

    def __call__(self, done: int, total: int | None, message: str = "") -> None:
        """Reports the progress so far."""


def silent(done: int, total: int | None, message: str = "") -> None:
    """Ignores progress (a `Progress`)."""


def unsearched(folder: Folder) -> None:
    """Accepts every folder (an `Environment.search`)."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """The joint cost of a release and the earlier releases that may share records with it.

    Attributes:
        num_earlier: number of earlier releases.
        epsilon: composed epsilon of all, unamplified, under replace-one; infinite if one of them added no noise.
        delta: delta at which epsilon is stated.
    """

    num_earlier: int = 0
    epsilon: float = 0.0
    delta: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Releases:
    """The releases on the files of a run, as the store knows them.

    Attributes:
        published: published releases that may share a record with the run's, oldest first
            (`pipelines.accounting.ledger.Release`).
        of_people: published releases that share no record with the run's, but perhaps people, oldest first; none if
            nobody knows whose documents the run reads.
        redactions: ids of the run's redaction (see `ReleaseFacts.redactions`).
        adopted: keys of models that were adopted under another key, each with the key under which it was trained.
        is_current: true if the run's model read the text as it is redacted and divided now.
        recipe: declared versions of the code that made the run's model; empty for a model from before there were any.
        is_copied: true if a copy of the store may have released more.
    """

    published: tuple[Any, ...] = ()
    of_people: tuple[Any, ...] = ()
    redactions: frozenset[str] = frozenset()
    adopted: Mapping[str, str] = field(default_factory=dict)
    is_current: bool = True
    recipe: Mapping[str, int] = field(default_factory=dict)
    is_copied: bool = False

    def trained_as(self, key: str) -> str:
        """Returns the key under which a model was trained, however often it was adopted since."""
        while key in self.adopted:
            key = self.adopted[key]
        return key


class ReleaseLedger(Protocol):
    """The ledger for a stage that publishes a model trained on private records (see `reticent ledger`)."""

    def reserve(
        self,
        event: Mapping[str, Any],
        delta: float,
        *,
        facts: Mapping[str, Any] | None = None,
        is_public: bool = True,
        insecure_test_seed: bool = False,
    ) -> Spent:
        """Enters a release before any private record is used. Refuses a release that would exceed the budget."""

    def commit(self) -> None:
        """Marks the release as published, before it is published."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Settings that can only change speed and memory. They never enter an artifact's key."""

    workers: int = 1
    executor: str = "local"
    executor_address: str | None = None
    executor_wait_seconds: float = 120
    partition_timeout_seconds: float = 21_600
    device: str = "auto"
    dtype: str = "auto"
    num_processes: int = 1
    num_machines: int = 1
    private_interface: str | None = None
    private_network: bool = False
    microbatch_size: int = 16
    verify: str = "full"


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A run of whole documents in one input file.

    Attributes:
        path: present path of the file.
        name: path relative to the input folder, with ``/``: the identity from which doc ids derive.
        format: name of a format in `pipelines.corpus.formats.FORMATS`.
        start_byte, end_byte: half-open range of decompressed bytes; of rows, from 0, in Parquet and Arrow files.
        first_row: 1-based number of the first row (line, paragraph, record, …; 1 for a whole file) in the file.
        digest: SHA-256 of the bytes (and of a table's header), hexadecimal; ``damaged`` if they cannot be read.
        draws_fold: true if the fold in the file's name does not count (`pipelines.corpus.formats.draws_folds`).
        forgotten: pseudonyms of documents of the file that are left out (`pipelines.corpus.forgotten.is_forgotten`).
    """

    path: str
    name: str
    format: str
    start_byte: int
    end_byte: int
    first_row: int
    digest: str
    draws_fold: bool = False
    forgotten: tuple[str, ...] = ()


@dataclass(frozen=True)
class Partition:
    """A named run of documents: part of one large file, or several small files.

    Attributes:
        name: pseudonym of 16 hexadecimal characters, which reveals no file name and survives insertion of other files
        pieces: pieces of files, in document order
    """

    name: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Inputs of stages that no stage made (`pipelines.stage.OUTSIDE`).

    Attributes:
        pieces: input pieces of this partition; only for a stage that reads input files.
        reviews: log of reviews (`pipelines.miss_rate.review_log`) and the number of its bytes that belong to this run;
            None if nobody has reviewed.
        releases: earlier releases on the same files; only for a stage that reads them.
        overlay: rows to train on in addition to the corpus, and rows to leave out (`pipelines.training.data.overlay`);
            only for a stage that reads them, in a child run that has some.
        left_out: number of files that are not read, by suffix or by reason; only for a stage that reads it.
    """

    pieces: tuple[Piece, ...] = ()
    reviews: tuple[Path, int] | None = None
    releases: Releases | None = None
    overlay: Source | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Services of the run for a stage. Output does not depend on them, except that pseudonyms depend on the secret.

    Attributes:
        progress: callback for progress.
        secret: secret of the store, only for `pseudonym` and `derived_key`.
        ledger: ledger of releases; only for a stage that the graph declares as a release.
        processes: number of processes that this execution may keep busy; more than 1 if there are fewer partitions than
            workers.
        search: function that searches public files like the store before it publishes
            (`pipelines.store.objects.public_search`). So a stage can stop before the long part of its work.
        rendezvous: private folder through which machines that train together find each other; None if there is none.
    """

    progress: Progress = silent
    secret: bytes = field(default=b"", repr=False)
    ledger: ReleaseLedger | None = None
    processes: int = 1
    search: Callable[[Folder], None] = unsearched
    rendezvous: Path | None = None


@dataclass(frozen=True, kw_only=True)
class StageContext:
    """Everything that one execution of one stage may use.

    Attributes:
        stage: name of the stage in the graph.
        partition: name of the partition; None for a whole-corpus stage.
        configs: validated settings tables that this stage reads, by table name.
        seed: public seed of the stage, derived from ``run.seed`` and the stage's name.
        runtime: settings that can only change speed and memory.
        inputs: artifacts of each input stage in corpus order (one for a same-partition input).
        outside: inputs that no stage made.
        out: output folders.
        run: services of the run.
    """

    stage: str
    partition: str | None
    configs: Mapping[str, Any]
    inputs: Mapping[str, tuple[Artifact, ...]]
    out: Output
    seed: int = 0
    runtime: Runtime = field(default_factory=Runtime)
    outside: Outside = field(default_factory=Outside)
    run: Environment = field(default_factory=Environment)

    def input(self, stage: str) -> Artifact:
        """Returns the only artifact of an input stage.

        Raises:
            LookupError: the input has no artifact, or several.
        """
        artifacts = self.inputs[stage]
        if len(artifacts) != 1:
            raise LookupError(f"input {stage} has {len(artifacts)} artifacts, not one")
        return artifacts[0]


def pseudonym(secret: bytes, *parts: str) -> str:
    """Returns the HMAC-SHA256 of ``parts`` under the store's secret, in 32 hexadecimal characters.

    A plain digest of a short private text (a name, a file name) can be guessed. This one cannot, without the secret.
    """
    message = b"".join(len(p.encode()).to_bytes(8, "big") + p.encode() for p in parts)
    return hmac.new(secret, message, hashlib.sha256).hexdigest()[:32]


def derived_key(secret: bytes, purpose: str) -> bytes:
    """Derives a key of 32 bytes for one purpose from the store's secret (HMAC-SHA256), which it does not reveal.

    Raises:
        ValueError: there is no secret, so anybody could derive the key.
    """
    if not secret:
        raise ValueError("a key needs the store's secret")
    return hmac.digest(secret, f"reticent/{purpose}".encode(), "sha256")


RunFunction = Callable[[StageContext], Mapping[str, Any]]
