"""Contexts and artifacts as the store hands them to a stage, for tests that run a stage alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.context import Artifact, StageContext

Given = Path | Artifact | Sequence[Artifact]


def artifact(stage: str, folder: Path, partition: str | None = None, *, key: str = "k") -> Artifact:
    """What a stage wrote into a folder, the public files beside the private ones."""
    return Artifact(stage=stage, partition=partition, key=key, private_dir=folder, public_dir=folder)


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
        out: where the private files go; ``public_dir`` among ``more`` says where the public ones do.
        configs: settings by table.
        inputs: by stage its artifacts, or the folder of the only one, which is then of the same partition.
        partition: None for a whole-corpus stage.
        scratch: a folder beside ``out`` where not given.
        **more: further fields of the context.
    """
    scratch = scratch or out.with_name(f"{out.name}.scratch")
    for folder in (out, scratch, *filter(None, [more.get("public_dir")])):
        folder.mkdir(parents=True, exist_ok=True)
    return StageContext(
        stage=stage,
        partition=partition,
        configs=configs,
        inputs={name: _artifacts(name, given, partition) for name, given in (inputs or {}).items()},
        private_dir=out,
        scratch_dir=scratch,
        **more,
    )


def _artifacts(stage: str, given: Given, partition: str | None) -> tuple[Artifact, ...]:
    if isinstance(given, Path):
        return (artifact(stage, given, partition),)
    return (given,) if isinstance(given, Artifact) else tuple(given)
