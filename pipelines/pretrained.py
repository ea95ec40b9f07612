"""Pretrained models: which kind of place a name stands for, the files there, and the hub's local cache."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

_COUNT_FROM_PADDING: Final = frozenset(
    {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "roberta-prelayernorm", "longformer"}
)


def is_hub_name(name: str) -> bool:
    """Whether a name can be that of a model on the hub (``owner/name``, or ``name``)."""
    return _HUB_NAME.fullmatch(name) is not None


def hub_commit(name: str, revision: str | None) -> str | None:
    """The commit of a hub model in the local Hugging Face cache; None where the cache has none of that revision.

    Args:
        name: the model's name.
        revision: a branch, a tag or a commit; None for ``main``.
    """
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(found).parent.name if isinstance(found, str) else None


def folder_files(folder: Path) -> list[Path]:
    """The files of a model's folder that count by content; where it is missing, the one file that it should have."""
    files = folder.iterdir() if folder.is_dir() else ()  # what is loaded lies at the top; not a clone's .git, a cache
    found = sorted(path for path in files if path.is_file() and not path.name.startswith(".") and path.suffix != ".md")
    return found or [folder / "config.json"]


def first_position(config: Any) -> int:
    """The position id of the first token: 0, but padding id + 1 in the RoBERTa family."""
    return int(config.pad_token_id) + 1 if config.model_type in _COUNT_FROM_PADDING else 0
