"""A small graph with real stages in real files, so that the store can be tested by editing code, settings and input.

``letters`` (partitioned) keeps the first ``width`` characters of its input; ``upper`` (partitioned, two roots) works
on its own partition through a helper module; ``count`` and ``join`` read everything.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipelines import graph
from pipelines.context import Partition, Piece, Runtime
from pipelines.stage import Input, Stage, Step, Table
from pipelines.store.building.execute import execute
from pipelines.store.objects.manifest import Manifest, measure
from pipelines.store.objects.publish import prepare_build, publish
from pipelines.store.objects.session import RunSpec, Session, make_session
from pipelines.store.place.outcome import Outcome, skipped_outcomes
from pipelines.store.place.roots import Roots, private_umask
from pipelines.walks import walk

STAGES = {
    "letters": """
from pipelines.config import StageConfig

class Config(StageConfig):
    width: int = 8
    note: str = ""
    UNKEYED = frozenset({"note"})

def run(ctx):
    text = "".join(open(p.path).read() for p in ctx.outside.pieces)
    (ctx.out.folder / "letters.txt").write_text(text[: ctx.configs["letters"].width])
    (ctx.out.folder / "other.txt").write_text(str(len(text)))
    return {"size": len(text)}
""",
    "upper": """
from pipelines.config import StageConfig
from toyproject.helper import transform

class Config(StageConfig):
    suffix: str = ""

def run(ctx):
    text = transform(ctx.input("letters").blob("letters.txt").read_text()) + ctx.configs["upper"].suffix
    (ctx.out.folder / "upper.txt").write_text(text)
    (ctx.out.public_folder / "public.txt").write_text(text[::-1])
    return {}
""",
    "count": """
from pipelines.config import StageConfig

class Config(StageConfig):
    modulus: int = 3

def run(ctx):
    total = sum(len(a.blob("letters.txt").read_text()) for a in ctx.inputs["letters"])
    (ctx.out.folder / "count.txt").write_text(str(total % ctx.configs["count"].modulus))
    return {}
""",
    "join": """
from pipelines.config import StageConfig

class Config(StageConfig):
    separator: str = "|"
    counted: bool = True

    def unread_inputs(self, stage):
        return frozenset() if self.counted else frozenset({"count"})

def run(ctx):
    parts = [a.public.blob("public.txt").read_text() for a in ctx.inputs["upper"]]
    if "count" in ctx.inputs:
        parts.append(ctx.input("count").blob("count.txt").read_text())
    (ctx.out.folder / "join.txt").write_text(ctx.configs["join"].separator.join(parts))
    return {}
""",
    "helper": """
VERSION = 0

def transform(text):
    return text.upper() + ("" if VERSION < 2 else "!")
""",
}


def _stage(name: str, *inputs: Input, **more: Any) -> Stage:
    return Stage(
        name=name,
        title=f"The toy stage {name}.",
        table=name,
        module=f"toyproject.{name}",
        configs={name: f"toyproject.{name}:Config"},
        inputs=inputs,
        **more,
    )


TOY_GRAPH = (
    _stage("letters", Input(graph.SOURCE, partitions="same"), partitioned=True),
    _stage(
        "upper",
        Input("letters", ("letters.txt",), "same"),
        partitioned=True,
        roots=("private", "public"),
        tables=(Table("upper", "upper.txt"), Table("shown", "public.txt", "public")),
    ),
    _stage("count", Input("letters", ("letters.txt",), "all")),
    _stage("join", Input("upper", ("public.txt",), "all"), Input("count")),
)


class Toy:
    """A project folder: code in ``toyproject/``, input files, and one store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = folder / "toyproject"
        self.input = folder / "input"
        self.settings: dict[str, dict[str, Any]] = {}
        self.runtime = Runtime()
        self.run_number = 0
        self.seed = 0
        self.code.mkdir(parents=True)
        self.input.mkdir()
        (self.code / "__init__.py").write_text("")
        for name, source in STAGES.items():
            (self.code / f"{name}.py").write_text(source)

    def write(self, name: str, text: str) -> None:
        (self.input / name).write_text(text)

    def edit(self, module: str, old: str, new: str) -> None:
        path = self.code / f"{module}.py"
        source = path.read_text()
        assert old in source
        path.write_text(source.replace(old, new))

    def spec(self, **changes: Any) -> RunSpec:
        partitions = []
        for path in sorted(self.input.iterdir()):
            data = path.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            piece = Piece(
                path=str(path),
                name=path.name,
                format="txt",
                start_byte=0,
                end_byte=len(data),
                first_row=1,
                digest=digest,
            )
            partitions.append(Partition(f"p-{path.stem}", (piece,)))
        self.run_number += 1
        values: dict[str, Any] = {
            "run_id": f"run-{self.run_number:04d}",
            "private_root": str(self.folder / "private"),
            "public_root": str(self.folder / "public"),
            "secret_file": None,
            "config_dir": str(self.folder),
            "settings": self.settings,
            "seed": self.seed,
            "runtime": self.runtime,
            "partitions": tuple(partitions),
            "selected": tuple(graph.GRAPH),
        }
        return RunSpec(**{**values, **changes})

    def session(self, **changes: Any) -> Session:
        """A new run, with the code read from the files again."""
        _forget_code()
        return make_session(self.spec(**changes))


def drive(session: Session) -> list[Outcome]:
    """Runs the whole graph in order, as the flows do, without an orchestrator."""
    outcomes: list[Outcome] = []

    def build(stage: Stage, steps: tuple[Step, ...]) -> list[str | None]:
        built = skipped_outcomes(stage, steps) or [execute(session, stage.name, s.partition, s.inputs) for s in steps]
        outcomes.extend(built)
        return [outcome.key for outcome in built]

    walk(session.partition_names, build)
    session.outcomes.extend(outcomes)
    return outcomes


def states(outcomes: list[Outcome]) -> dict[str, str]:
    """``stage/partition`` to state."""
    return {f"{o.stage}/{o.partition}" if o.partition else o.stage: o.state for o in outcomes}


def ran(outcomes: list[Outcome]) -> set[str]:
    """What was built."""
    return {name for name, state in states(outcomes).items() if state == "completed"}


def _forget_code() -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "toyproject"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def use_toy_graph(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Toy:
    """Replaces the real graph by the toy's for one test."""
    _forget_code()  # of an earlier test, whose folder is gone: code that is not found has another key each time
    for name in reversed(list(graph.GRAPH)):  # undone in the opposite order: the graph's order matters
        monkeypatch.delitem(graph.GRAPH, name)  # type: ignore[arg-type]
    for stage in TOY_GRAPH:
        monkeypatch.setitem(graph.GRAPH, stage.name, stage)  # type: ignore[arg-type]
    monkeypatch.syspath_prepend(str(folder))
    return Toy(folder)


def objects(toy: Toy) -> Mapping[str, bytes]:
    """Every published data file by path below the roots, for comparing bytes."""
    found = {}
    for root in ("private", "public"):
        base = toy.folder / root / "objects"
        for path in sorted(base.rglob("*")):
            if path.is_file() and path.name != "manifest.json":
                found[f"{root}/{path.relative_to(base)}"] = path.read_bytes()
    return found


def joint_manifests(toy: Toy) -> list[dict[str, Any]]:
    """Every joint manifest."""
    return [json.loads(p.read_bytes()) for p in sorted((toy.folder / "private/manifests").rglob("*.json"))]


@contextmanager
def publishing(
    roots: Roots, stage: str, key: str, lineage: Mapping[str, Any] | None = None
) -> Iterator[Mapping[str, Path]]:
    """Folders to fill, by root, which are then published as the store does it."""
    with private_umask():
        folders = prepare_build(roots, stage, key)
        yield folders
        files = {path: entry for root, folder in folders.items() for path, entry in measure(folder, root).items()}
        publish(roots, Manifest(stage, key, files, {}, dict(lineage or {"ingredients": {}, "inputs": {}}), 1.0))
