"""Contexts and artifacts as the store hands them to a stage, for tests that run a stage alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pipelines.artifacts import Artifact, Output
from pipelines.context import Environment, Outside, StageContext

Part = TypeVar("Part", Outside, Output, Environment)
Given = Path | Artifact | Sequence[Artifact]


def artifact(stage: str, folder: Path, partition: str | None = None, *, key: str = "k") -> Artifact:
    """What a stage wrote into a folder, the public files beside the private ones."""
    return Artifact(stage=stage, partition=partition, key=key, folder=folder, public_folder=folder)


def stage_context(
    stage: str,
    out: Path,
    configs: Mapping[str, Any],
    inputs: Mapping[str, Given] | None = None,
    *,
    partition: str | None = None,
    scratch: Path | None = None,
    **more: Any,
) -> StageContext:
    """The context of one execution; makes its folders.

    Args:
        stage: name in the graph.
        out: where the private files go; ``public_folder`` among ``more`` says where the public ones do.
        configs: settings by table.
        inputs: by stage its artifacts, or the folder of the only one, which is then of the same partition.
        partition: None for a whole-corpus stage.
        scratch: a folder beside ``out`` where not given.
        **more: further fields of the context, and of its parts; failures go to scratch where nothing else is said.
    """
    scratch = scratch or out.with_name(f"{out.name}.scratch")
    for folder in (out, scratch, *filter(None, [more.get("public_folder")])):
        folder.mkdir(parents=True, exist_ok=True)
    return StageContext(
        stage=stage,
        partition=partition,
        configs=configs,
        inputs={name: _artifacts(name, given, partition) for name, given in (inputs or {}).items()},
        outside=_part(Outside, more),
        out=_part(Output, {"folder": out, "scratch_folder": scratch, "failures_folder": scratch} | more),
        run=_part(Environment, more),
        **{name: value for name, value in more.items() if name in ("seed", "runtime")},
    )


def _part(kind: type[Part], given: Mapping[str, Any]) -> Part:
    return kind(**{name: value for name, value in given.items() if name in kind.__dataclass_fields__})


def _artifacts(stage: str, given: Given, partition: str | None) -> tuple[Artifact, ...]:
    if isinstance(given, Path):
        return (artifact(stage, given, partition),)
    return (given,) if isinstance(given, Artifact) else tuple(given)
