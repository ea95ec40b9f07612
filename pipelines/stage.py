"""What a stage of the pipeline is: a box with inputs, settings and tables. `pipelines.graph` declares them all."""

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
"""The pseudo-stage that stands for the input files of a partition."""

REVIEWS = "reviews"
"""The pseudo-stage that stands for what reviewers decided so far (`pipelines.miss_rate.review_log`)."""

RELEASES = "releases"
"""The pseudo-stage that stands for the releases of the store that may share a record (`reticent ledger`)."""

OVERLAY = "overlay"
"""The pseudo-stage that stands for rows that a child run trains on, or leaves out."""

LEFT_OUT = "left_out"
"""The pseudo-stage that stands for the files beside the corpus that are not read, by suffix."""

PARTITION = "partition"
"""Stands among the inputs for the name of a partition that is no part of the corpus (`Stage.own_partitions`)."""

OUTSIDE = frozenset({SOURCE, REVIEWS, RELEASES, OVERLAY, LEFT_OUT})
"""What stages read that no stage made."""

Keyed = tuple[str | None, str]
"""A partition, or None for the whole corpus, and the key of its artifact."""

PartitionNames = Callable[[str], Sequence[str | None]]
"""Returns the partitions of a stage in corpus order; a single None for a whole-corpus stage."""


@dataclass(frozen=True)
class Input:
    """An edge of the graph.

    Attributes:
        stage: the stage that is read.
        files: the data files whose digests count (``{partition}`` is filled in); all of them when empty. Naming the
            files stops the wave early when only another file of the same artifact changed.
        partitions: ``same`` reads the reader's own partition, ``all`` every partition in corpus order, ``whole`` the
            single artifact of a whole-corpus stage.
        optional: whether the reader does without it where it is not there (`Stage.optional`).
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
    """A Parquet table of a stage that users read: its name in ``outputs`` and ``latest/``, and its root."""

    name: str
    file: str
    root: Root = "private"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One box of the picture in the design, section 1.

    Attributes:
        name: unique; also the folder below ``objects/``.
        title: what it does, in a line.
        table: the TOML table that configures it and the name shown to users.
        step: tells steps of the same shown stage apart (dedup has three); None otherwise.
        module: holds ``run(ctx)``, and the Config class of each table that it owns.
        configs: the tables whose settings it reads, each with the class that validates it, ``module:Class``.
        fields: narrows a table to the settings that this step uses; absent means all.
        own_partitions: whether it is partitioned in a way of its own, as its settings say
            (`StageConfig.partition_names`), and not as the corpus is. The names enter its keys.
        roots: where it writes. The public root is published after the private one.
        packages: distributions whose version enters the key.
        tables: the Parquet tables that it offers to users.
        runs: tables, besides its own, whose settings select code that it runs.
        is_release: whether it publishes what was trained on private records, which the privacy ledger accounts for.
        publishes_rows: whether it publishes rows of the corpus, which the privacy ledger notes.
        is_post_processed: whether what it publishes is computed from a release and public settings alone. It is not
            searched before it is published: the private text could then decide whether it is, which would tell of it.
        optional: whether runs leave it out unless their settings ask for it (`StageConfig.wants`); what reads it
            finds it where an earlier run made it.
        has_recipe: whether a declared version stands in its key for code, Python and packages (`StageConfig.recipe`),
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
        """The stage's name for users, ``dedup.keys`` for a step."""
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
        """Whether it has this stage, or pseudo-stage, among its inputs."""
        return any(edge.stage == name for edge in self.inputs)

    def edges_read(self, configs: Mapping[str, StageConfig]) -> tuple[Input, ...]:
        """The inputs that a run with these settings reads, `SOURCE` included.

        Args:
            configs: the validated settings by table name.
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
