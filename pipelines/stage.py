"""The declaration of a stage: its inputs, settings and tables. `pipelines.graph` declares all stages."""

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
"""The pseudo-stage of the input files of a partition."""

REVIEWS = "reviews"
"""The pseudo-stage of the decisions of reviewers so far (`pipelines.miss_rate.review_log`)."""

RELEASES = "releases"
"""The pseudo-stage of the store's releases that may share a record (`reticent ledger`)."""

OVERLAY = "overlay"
"""The pseudo-stage of rows that a child run trains on, or leaves out."""

LEFT_OUT = "left_out"
"""The pseudo-stage of unread files next to the corpus, by suffix."""

PARTITION = "partition"
"""The input that holds the name of a partition of the stage's own (`Stage.own_partitions`)."""

OUTSIDE = frozenset({SOURCE, REVIEWS, RELEASES, OVERLAY, LEFT_OUT})
"""The inputs that no stage made."""

Keyed = tuple[str | None, str]
"""A partition, or None for the whole corpus, and the key of its artifact."""

PartitionNames = Callable[[str], Sequence[str | None]]
"""Returns the partitions of a stage in corpus order; a single None for a whole-corpus stage."""


@dataclass(frozen=True)
class Input:
    """An edge of the graph.

    Attributes:
        stage: name of the stage to read.
        files: data files whose digests count (``{partition}`` is filled in); all of them when empty. Naming the
            files stops the wave early when only another file of the same artifact changed.
        partitions: partitions to read: ``same`` is the reader's own partition, ``all`` every partition in corpus order,
            ``whole`` the single artifact of a whole-corpus stage.
        optional: true if the reader works without the input (`Stage.optional`).
        in_key: false for the release that a model of the audit stands for (`Stage.stands_for`). The model reads nothing
            of the release, so another release by the same recipe needs no other model.
    """

    stage: str
    files: tuple[str, ...] = ()
    partitions: Literal["same", "all", "whole"] = "whole"
    optional: bool = False
    in_key: bool = True


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
    """A stage of the pipeline.

    Attributes:
        name: unique name; also the folder below ``objects/``.
        title: description in one line.
        table: TOML table that configures the stage, and the name shown to users.
        step: name of the step, if several stages have the same shown name (dedup has four steps); None otherwise.
        module: module that holds ``run(ctx)``.
        configs: tables whose settings the stage reads, each with the class that validates it, ``module:Class``.
        fields: settings of a table that this step uses, by table; all settings of a table that is absent.
        inputs: edges of the graph that lead to the stage.
        partitioned: true if the stage makes an artifact per partition.
        own_partitions: true if the partitions come from the stage's settings (`StageConfig.partition_names`), and not
            from the corpus. The names enter the stage's keys.
        roots: roots that the stage writes to. The public root is published after the private one.
        packages: distributions whose version enters the key.
        tables: Parquet tables that the stage offers to users.
        runs: tables, besides the stage's own, whose settings select code that the stage runs.
        is_release: true if the stage publishes what was trained on private records, which the privacy ledger accounts
            for.
        publishes_rows: true if the stage publishes rows of the corpus, which the privacy ledger notes.
        is_post_processed: true if the published files are computed from a release and public settings alone. The store
            does not search them before it publishes them: otherwise the private text could decide if they are
            published, which would tell of that text.
        optional: true if runs leave the stage out unless their settings ask for it (`StageConfig.wants`). Its readers
            use the output of an earlier run.
        has_recipe: true if a declared version represents code, Python and packages in the stage's key
            (`StageConfig.recipe`), because the stage trains a model, which no upgrade may train again.
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

    @property
    def stands_for(self) -> str | None:
        """The stage of the release that this stage's model stands for in an audit; None for other stages."""
        return next((edge.stage for edge in self.inputs if not edge.in_key), None)

    def reads(self, name: str) -> bool:
        """Checks that the stage has this stage, or pseudo-stage, among its inputs."""
        return any(edge.stage == name for edge in self.inputs)

    def edges_read(self, configs: Mapping[str, StageConfig]) -> tuple[Input, ...]:
        """Returns the inputs that a run with these settings reads, with `SOURCE`."""
        own = configs.get(self.table) if self.table in self.configs else None
        if own is None:
            return self.inputs
        unread = own.unread_inputs(self.name)
        given = (configs[table] for table in self.configs if table in configs)
        files = {name: found for config in given for name, found in config.files_read(self.name).items()}
        read = (edge for edge in self.inputs if edge.stage not in unread)
        return tuple(replace(edge, files=files.get(edge.stage, edge.files)) for edge in read)

    def run(self) -> RunFunction:
        """Imports the stage's module and returns its ``run``."""
        function: RunFunction = importlib.import_module(self.module).run
        return function
