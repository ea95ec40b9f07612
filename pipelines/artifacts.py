"""Reads and writes the files of artifacts and of scratch folders. No other module does.

Stages name a table by its schema, and any other file by its name. They hold no folders and build no paths. This module
checks schemas and names, and fixes the format of JSON. Below an encrypted private root, `pipelines.files` seals the
files. If a library opens a file itself, ``blob`` gives the path, and `pipelines.memory_files` a copy in memory if the
file is sealed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from pipelines.files import copy_file, encode_json, open_to_read, open_to_write, read_file, read_json, write_atomic

if TYPE_CHECKING:
    from pipelines.tables import Schema, Table, TableWriter


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder whose files are named relative to it."""

    folder: Path

    def blob(self, name: str) -> Path:
        """Returns the path of a file or folder, for a library that opens it itself.

        Raises:
            ValueError: the name is not a relative path below the folder.
        """
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
            raise ValueError(f"no name of a file below a stage's folder: {name!r}")
        return self.folder.joinpath(*parts)


@dataclass(frozen=True, kw_only=True)
class Source(Folder):
    """A folder to read from."""

    def table(self, schema: Schema, name: str | None = None) -> Table:
        """Returns a table, which is opened and checked when it is read.

        Args:
            schema: schema of the table.
            name: name of the file without suffix; by default the schema's name.
        """
        from pipelines.tables import Table  # pyarrow, which a run with nothing to do does not load

        return Table(self.blob(f"{name or schema.name}.parquet"), schema)

    def json(self, name: str) -> Any:
        """Reads a JSON document."""
        return json.loads(read_file(self.blob(name)))

    def lines(self, name: str) -> Iterator[bytes]:
        """Yields the lines of a file that `Target.lines` wrote, without their ends."""
        with open_to_read(self.blob(name)) as file:
            for line in file:
                yield line.removesuffix(b"\n")

    def find_json(self, name: str) -> Any:
        """Reads a JSON document; None if the file is missing or damaged."""
        return read_json(self.blob(name))


@dataclass(frozen=True, kw_only=True)
class Target(Folder):
    """A folder to write into. A file gets its name once it is whole."""

    def table(self, schema: Schema, name: str | None = None) -> TableWriter:
        """Returns a writer, to use as a context manager.

        Args:
            schema: schema of the table.
            name: name of the file without suffix; by default the schema's name.
        """
        from pipelines.tables import TableWriter

        return TableWriter(self._place(f"{name or schema.name}.parquet"), schema)

    def json(self, name: str, value: Any) -> None:
        """Writes a JSON document whose bytes depend only on the value.

        Raises:
            ValueError: a number in it is infinite or not a number.
        """
        self._write(name, encode_json(value, allow_nan=False))

    def text(self, name: str, text: str) -> None:
        """Writes a text as UTF-8."""
        self._write(name, text.encode())

    def lines(self, name: str) -> BinaryIO:
        """Opens a file to write lines to. It has its name from the start."""
        return open_to_write(self._place(name))

    def copy(self, name: str, source: Path) -> None:
        """Copies a file of another artifact unchanged."""
        copy_file(source, self._place(name))

    def below(self, name: str) -> Target:
        """Returns a folder in this one, and makes it if it is missing."""
        folder = self.blob(name)
        folder.mkdir(parents=True, exist_ok=True)
        return Target(folder=folder)

    def fresh(self, name: str) -> Target:
        """Returns an empty folder in this one, without the files of a killed attempt."""
        self.remove(name)
        return self.below(name)

    def remove(self, name: str) -> None:
        """Removes a folder in this one, if it exists."""
        shutil.rmtree(self.blob(name), ignore_errors=True)

    def take_over(self, name: str, source: Source) -> None:
        """Copies a folder with all its files."""
        for path in sorted(source.folder.rglob("*")):
            if path.is_file():
                self.copy(f"{name}/{path.relative_to(source.folder).as_posix()}", path)

    @contextmanager
    def emptied(self, name: str) -> Iterator[Target]:
        """Yields an empty folder in this one, like `fresh`, and removes it at the end."""
        try:
            yield self.fresh(name)
        finally:
            self.remove(name)

    def _write(self, name: str, data: bytes) -> None:
        write_atomic(self._place(name), data, mode=None, is_durable=False)  # the whole folder is flushed when published

    def _place(self, name: str) -> Path:
        path = self.blob(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


@dataclass(frozen=True, kw_only=True)
class Artifact(Source):
    """A published output of a stage that the store has verified: its private files, and the public ones.

    Attributes:
        public_folder: folder of the public files; None if the stage has no public root.
        recipe: declared versions of the computation (`pipelines.stage.Stage.has_recipe`); empty if none were recorded.
    """

    stage: str
    partition: str | None
    key: str
    public_folder: Path | None = None
    recipe: Mapping[str, int] = field(default_factory=dict)

    @property
    def public(self) -> Source:
        """The files below the public root.

        Raises:
            LookupError: the stage publishes nothing in the public root.
        """
        if self.public_folder is None:
            raise LookupError(f"stage {self.stage} has no public output")
        return Source(folder=self.public_folder)


@dataclass(frozen=True, kw_only=True)
class Output(Target):
    """The output folders of one execution of a stage. The object itself is the private folder, empty at the start.

    Attributes:
        public_folder: folder of the public root; None if the stage has no public root.
        scratch_folder: private folder that survives a kill, for the next attempt. Never published.
        failures_folder: private folder for files that people should inspect when the stage refuses to go on. Made when
            needed.
        cache: private folder for files that stages can make again without the corpus. It outlives artifacts, and may be
            emptied when no run is active. None if nothing is kept.
    """

    scratch_folder: Path
    public_folder: Path | None = None
    failures_folder: Path
    cache: Path | None = None

    @property
    def public(self) -> Target:
        """The public root's folder.

        Raises:
            LookupError: the stage was declared without one.
        """
        if self.public_folder is None:
            raise LookupError("the stage declares no public root")
        return Target(folder=self.public_folder)

    @property
    def scratch(self) -> Target:
        """The scratch folder; for checkpoints and spilled data."""
        return Target(folder=self.scratch_folder)

    @property
    def failures(self) -> Target:
        """The folder of failures."""
        return Target(folder=self.failures_folder)

    @property
    def basis(self) -> Path:
        """The files with content that does not depend on the text: formats, settings, a vocabulary from elsewhere.

        A stage writes them before it reads any input. The gate accepts content of public files that is also in them.
        """
        return self.scratch.blob("basis")

    @property
    def marked(self) -> Target:
        """Marked copies of public files, by the same names: what is filled in, and what is ours.

        The gate searches a file without such a copy as filled in throughout (`pipelines.filled_in`).
        """
        return Target(folder=self.scratch.blob("marked"))
