"""Pretrained models: the kinds of their names, their files, and the hub's local cache."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

_COUNT_FROM_PADDING: Final = frozenset(
    {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "roberta-prelayernorm", "longformer"}
)


def is_hub_name(name: str) -> bool:
    """Returns True if a name can be a model's on the hub (``owner/name``, or ``name``)."""
    return _HUB_NAME.fullmatch(name) is not None


def hub_commit(name: str, revision: str | None) -> str | None:
    """Returns the commit of a hub model in the local Hugging Face cache; None if the cache lacks that revision."""
    folder = hub_folder(name, revision)
    return folder.name if folder is not None else None


def hub_folder(name: str, revision: str | None) -> Path | None:
    """Returns the folder with a hub model's files at a commit, in the local cache. None if it lacks that revision."""
    from huggingface_hub import try_to_load_from_cache

    for file in ("config.json", "gliner_config.json"):
        path = try_to_load_from_cache(name, file, revision=revision)
        if isinstance(path, str):
            return Path(path).parent
    return None


def folder_files(folder: Path) -> list[Path]:
    """Returns the files of a model's folder that count by content; ``config.json`` if there are none."""
    paths = folder.iterdir() if folder.is_dir() else ()  # top level only, without a clone's .git or a cache
    files = sorted(path for path in paths if path.is_file() and not path.name.startswith(".") and path.suffix != ".md")
    return files or [folder / "config.json"]


def first_position(config: Any) -> int:
    """Returns the position id of the first token: 0, but padding id + 1 in the RoBERTa family."""
    return int(config.pad_token_id) + 1 if config.model_type in _COUNT_FROM_PADDING else 0
