"""What a stage is handed when it runs: its settings, its inputs, where it writes, and what the run lends it.

A stage is ``run(ctx) -> Mapping[str, JSON]``: it reads only ``ctx.inputs`` and ``ctx.outside``, writes only to
``ctx.out`` and ``ctx.out.public``, and returns a few counts for people to look at.
Those counts never reach another stage: whatever a later stage needs is a data file, so that the output digest
covers it (design, section 3).
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
    """Reports progress; ``total`` is None while it is unknown, ``message`` never holds private text."""

    def __call__(self, done: int, total: int | None, message: str = "") -> None:
        """Called with how much is done."""


def silent(done: int, total: int | None, message: str = "") -> None:
    """A `Progress` that says nothing."""


def unsearched(folder: Folder) -> None:
    """An `Environment.search` that lets everything pass."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a release costs together with the earlier ones that may share records.

    Attributes:
        num_earlier: how many earlier ones there are.
        epsilon: of all together, unamplified, under replace-one; infinite where one of them added no noise.
        delta: that epsilon is stated at.
    """

    num_earlier: int = 0
    epsilon: float = 0.0
    delta: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Releases:
    """What the store knows of releases on the files of a run.

    Attributes:
        published: those that were published and may share a record with the run's, oldest first
            (`pipelines.accounting.ledger.Release`).
        redactions: identify how the run redacts (see `ReleaseFacts.redactions`).
        adopted: keys of models that were adopted under another key, with the key that they were trained under.
        is_current: whether the run's model read the text as it is redacted and divided now.
        recipe: declared versions of what the run's model was made by; empty for one from before there were any.
        is_copied: whether a copy of the store may have released more.
    """

    published: tuple[Any, ...] = ()
    redactions: frozenset[str] = frozenset()
    adopted: Mapping[str, str] = field(default_factory=dict)
    is_current: bool = True
    recipe: Mapping[str, int] = field(default_factory=dict)
    is_copied: bool = False

    def trained_as(self, key: str) -> str:
        """The key that a model was trained under, however often it was adopted since."""
        while key in self.adopted:
            key = self.adopted[key]
        return key


class ReleaseLedger(Protocol):
    """Where a stage that publishes something trained on private records accounts for it (see `reticent ledger`)."""

    def reserve(
        self,
        event: Mapping[str, Any],
        delta: float,
        *,
        facts: Mapping[str, Any] | None = None,
        is_public: bool = True,
        insecure_test_seed: bool = False,
    ) -> Spent:
        """Called before any private record is used; refuses a release that would exceed the budget."""

    def commit(self) -> None:
        """Called when the release is ready, before it is published."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Settings that can change speed and memory only; they never enter an artifact's key."""

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
        path: where the file is now.
        name: its path relative to the input folder, with ``/``: the identity that doc ids derive from.
        format: a name of `pipelines.corpus.formats.FORMATS`.
        start_byte, end_byte: the half-open range of decompressed bytes; of rows, from 0, in Parquet and Arrow files.
        first_row: 1-based number of the first row (line, paragraph, record, …; 1 for a whole file) in the file.
        digest: SHA-256 of the bytes (and of a table's header), hexadecimal; ``damaged`` where they cannot be read.
        draws_fold: the fold that the file's name says does not count (`pipelines.corpus.formats.draws_folds`).
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


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What stages read that no stage made (`pipelines.stage.OUTSIDE`).

    Attributes:
        pieces: the input bytes of this partition; only for a stage that reads input files.
        reviews: the log of reviews (`pipelines.miss_rate.review_log`) and how many of its bytes belong to this run;
            None where nobody has reviewed.
        releases: what is known of releases on the same files; only for a stage that reads them.
        overlay: rows to train on beside the corpus, and rows to leave out (`pipelines.training.data.overlay`); only for
            a stage that reads them, in a child run that has some.
        left_out: how many files beside the corpus are not read, by suffix or by why; only for a stage that reads it.
    """

    pieces: tuple[Piece, ...] = ()
    reviews: tuple[Path, int] | None = None
    releases: Releases | None = None
    overlay: Source | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What the run lends to a stage. Output depends on none of it, but that pseudonyms depend on the secret.

    Attributes:
        progress: told how much is done.
        secret: the store's, for `pseudonym` and `derived_key` only.
        ledger: where releases are accounted for; only for a stage that the graph declares as one.
        processes: how many processes this execution may keep busy; more than 1 where there are fewer partitions than
            workers.
        search: searches files that will be public as the store does before it publishes
            (`pipelines.store.objects.public_search`). So a stage can stop before it does the long part of its work.
        meeting: private; where machines that train together find each other. None where there are none.
    """

    progress: Progress = silent
    secret: bytes = field(default=b"", repr=False)
    ledger: ReleaseLedger | None = None
    processes: int = 1
    search: Callable[[Folder], None] = unsearched
    meeting: Path | None = None


@dataclass(frozen=True, kw_only=True)
class StageContext:
    """Everything that one execution of one stage may use.

    Attributes:
        stage: the stage's name in the graph.
        partition: the partition's name, or None for a whole-corpus stage.
        configs: the validated settings tables that this stage reads, by table name.
        seed: the stage's own seed, derived from ``run.seed`` and the stage's name; public.
        runtime: settings that can change speed and memory only.
        inputs: per input stage, its artifacts in corpus order (one for a same-partition input).
        outside: inputs that no stage made.
        out: where it writes.
        run: what the run lends.
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
        """The only artifact of an input stage.

        Raises:
            LookupError: the input has no artifact, or several.
        """
        artifacts = self.inputs[stage]
        if len(artifacts) != 1:
            raise LookupError(f"input {stage} has {len(artifacts)} artifacts, not one")
        return artifacts[0]


def pseudonym(secret: bytes, *parts: str) -> str:
    """HMAC-SHA256 of ``parts`` under the store's secret, 32 hexadecimal characters.

    A plain digest of a short private text (a name, a file name) can be guessed; this cannot without the secret.
    """
    message = b"".join(len(p.encode()).to_bytes(8, "big") + p.encode() for p in parts)
    return hmac.new(secret, message, hashlib.sha256).hexdigest()[:32]


def derived_key(secret: bytes, purpose: str) -> bytes:
    """A key of 32 bytes for one purpose, from the store's secret, which it does not give away (HMAC-SHA256).

    Raises:
        ValueError: there is no secret, so anybody could make the key.
    """
    if not secret:
        raise ValueError("a key needs the store's secret")
    return hmac.digest(secret, f"reticent/{purpose}".encode(), "sha256")


RunFunction = Callable[[StageContext], Mapping[str, Any]]
