"""The declaration of a stage, with its inputs, settings and tables. `pipelines.graph` declares all stages."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pipelines.config import StageConfig
from pipelines.context import RunFunction

Root = Literal["private", "public"]
ROOTS: Final[tuple[Root, ...]] = ("private", "public")

SOURCE = "input"
"""The pseudo-stage for the input files of a partition."""

REVIEWS = "reviews"
"""The pseudo-stage for the reviewers' decisions so far (`pipelines.miss_rate.review_log`)."""

RELEASES = "releases"
"""The pseudo-stage for the releases of the store that may share a record (`reticent ledger`)."""

OVERLAY = "overlay"
"""The pseudo-stage for rows that a child run adds to training, or leaves out."""

LEFT_OUT = "left_out"
"""The pseudo-stage for the files beside the corpus that are not read, by suffix."""

PARTITION = "partition"
"""The input that stands for the name of a partition that is not part of the corpus (`Stage.own_partitions`)."""

OUTSIDE = frozenset({SOURCE, REVIEWS, RELEASES, OVERLAY, LEFT_OUT})
"""The inputs of stages that no stage made."""

Keyed = tuple[str | None, str]
"""A partition, or None for the whole corpus, and the key of its artifact."""

PartitionNames = Callable[[str], Sequence[str | None]]
"""Returns the partitions of a stage in corpus order; a single None for a whole-corpus stage."""


@dataclass(frozen=True)
class Input:
    """An edge of the graph.

    Attributes:
        stage: stage that is read.
        files: data files whose digests count (``{partition}`` is filled in); empty for all. With named files, the
            reader does not run again if only another file of the same artifact changed.
        partitions: ``same`` reads the reader's own partition, ``all`` every partition in corpus order, ``whole`` the
            single artifact of a whole-corpus stage.
        optional: true if the reader can do without it (`Stage.optional`).
    """

    stage: str
    files: tuple[str, ...] = ()
    partitions: Literal["same", "all", "whole"] = "whole"
    optional: bool = False


@dataclass(frozen=True)
class Step:
    """The work of a stage on one partition, or on the whole corpus.

    Attributes:
        partition: name of the partition; None for the whole corpus.
        inputs: artifacts that the step reads, by stage.
        missing: name of the first stage whose artifacts the step needs and that lacks one of them; None if none does.
    """

    partition: str | None
    inputs: Mapping[str, tuple[Keyed, ...]]
    missing: str | None


@dataclass(frozen=True)
class Table:
    """A Parquet table of a stage for users: its name in ``outputs`` and ``latest/``, its file, and its root."""

    name: str
    file: str
    root: Root = "private"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of the pipeline, one box of the picture in the design, section 1.

    Attributes:
        name: unique name, also of its folder below ``objects/``.
        title: description in one line.
        table: TOML table that configures the stage, and the name shown to users.
        step: name of a step, if several stages have the same table (dedup has three); None otherwise.
        module: module with ``run(ctx)``, and with the Config class of each table that the stage owns.
        configs: tables whose settings the stage reads, each with the class that validates it, ``module:Class``.
        fields: settings of a table that the stage uses, by table; a missing table means all its settings.
        inputs: edges to the stages and pseudo-stages that it reads.
        partitioned: true if it runs once for each partition, and not once for the whole corpus.
        own_partitions: true if its settings say how it is partitioned (`StageConfig.partition_names`), and not the
            corpus. The names enter its keys.
        roots: roots into which it writes. The public root is published after the private one.
        packages: distributions whose version enters the key.
        tables: Parquet tables that it offers to users.
        runs: tables, besides its own, whose settings select code that it runs.
        is_release: true if it publishes a model trained on private records, which the privacy ledger accounts for.
        publishes_rows: true if it publishes rows of the corpus, which the privacy ledger notes.
        is_post_processed: true if its published files are computed only from a release and public settings. They are
            not searched before publishing, because the private text could then decide if they are published, which
            would reveal something about it.
        optional: true if runs leave it out unless their settings ask for it (`StageConfig.wants`). Its readers use the
            artifact of an earlier run if there is one.
        has_recipe: true if declared versions stand in its key for code, Python and packages (`StageConfig.recipe`),
            because making it anew is a release, or makes one.
    """

    name: str
    title: str
    table: str
    step: str | None = None
    module: str
    configs: Mapping[str, str]
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    partitioned: bool = False
    own_partitions: bool = False
    roots: tuple[Root, ...] = ("private",)
    packages: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    runs: tuple[str, ...] = ()
    is_release: bool = False
    publishes_rows: bool = False
    is_post_processed: bool = False
    has_recipe: bool = False
    optional: bool = False

    @property
    def shown_name(self) -> str:
        """The stage's name for users, such as ``dedup.keys`` for a step."""
        return f"{self.table}.{self.step}" if self.step else self.table

    def steps(
        self,
        partition_names: PartitionNames,
        known: Mapping[str, Iterable[Keyed]],
        edges: Iterable[Input] | None = None,
    ) -> Iterator[Step]:
        """Yields the stage's work, partition by partition in corpus order.

        Args:
            partition_names: function that returns the partitions of a stage.
            known: artifacts of the stages before this one, in corpus order.
            edges: edges to read in place of `inputs`.
        """
        edges = [edge for edge in (self.inputs if edges is None else edges) if edge.stage not in OUTSIDE]
        own = {e.stage: dict(known.get(e.stage, ())) for e in edges if e.partitions == "same"}
        of_all = {e.stage: tuple(known.get(e.stage, ())) for e in edges if e.partitions != "same"}
        complete = {name: keys for name, keys in of_all.items() if len(keys) == len(partition_names(name))}
        for p in partition_names(self.name):
            inputs = {name: ((p, keys[p]),) for name, keys in own.items() if p in keys} | complete
            yield Step(p, inputs, next((e.stage for e in edges if not e.optional and e.stage not in inputs), None))

    def reads(self, name: str) -> bool:
        """Returns True if this stage, or pseudo-stage, is among its inputs."""
        return any(edge.stage == name for edge in self.inputs)

    def edges_read(self, configs: Mapping[str, StageConfig]) -> tuple[Input, ...]:
        """Returns the inputs that a run with these settings reads, `SOURCE` included.

        Args:
            configs: validated settings by table name.
        """
        own = configs.get(self.table) if self.table in self.configs else None
        if own is None:
            return self.inputs
        unread, files = own.unread_inputs(self.name), own.files_read(self.name)
        read = (edge for edge in self.inputs if edge.stage not in unread)
        return tuple(replace(edge, files=files.get(edge.stage, edge.files)) for edge in read)

    def run(self) -> RunFunction:
        """Imports the stage and returns its ``run``."""
        function: RunFunction = importlib.import_module(self.module).run
        return function
