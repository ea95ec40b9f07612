"""``reticent init``: a commented settings file that runs as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from pipelines.errors import ConfigError, InputError

_LARGE_TXT_BYTES = 1_000_000


def write_starter(folder: Path, inputs: Sequence[str], *, dialogues: int, seed: int) -> Path:
    """Writes ``reticent.toml`` and, without own inputs, a built-in corpus beside it.

    Args:
        folder: made if missing; an existing ``reticent.toml`` is never overwritten.
        inputs: the user's own files, folders or patterns, relative to the present folder.

    Raises:
        ConfigError: the settings file is there already, or the folder is a file.
        InputError: an input does not exist.
    """
    path = folder / "reticent.toml"
    if path.exists():
        raise ConfigError(f"{path} is there already; remove it or choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigError(f"{folder} is a file; give a folder") from None
    template = resources.files("flows").joinpath("starter.toml").read_text("utf-8")
    if inputs:
        shown = [_absolute(name) for name in inputs]
        replaced = {
            'inputs = ["corpus"]': f"inputs = {json.dumps(shown, ensure_ascii=False)}",
            'txt_document = "file"': f'txt_document = "{_txt_document(shown)}"',
            "partition_documents = 250": "partition_documents = 1000",
            'policies = ["customersim", "high_entity"]': 'policies = ["high_entity"]',
            "replicates = 1  ": "replicates = 10 ",
            "fraction = 1.0   ": "fraction = 0.0001",
            "JFT's design is 10 replicates of 0.0001. The simulator knows all its secrets, so here": "JFT's design",
            "every sentence is reviewed (a census). Without gold": "of the training sentences. Without gold",
        }
        for old, new in replaced.items():
            if old not in template:
                raise ConfigError(f"the starter template lacks {old!r}")
            template = template.replace(old, new)
    else:
        from pipelines.corpus.customersim import write_customersim

        # One dialogue in ten is worded and formatted as no policy was written for, so that the miss rate shows something.
        unusual = dialogues // 10
        write_customersim(folder / "corpus" / "usual", dialogues - unusual, seed)
        if unusual:
            write_customersim(folder / "corpus" / "unusual", unusual, seed, template_set="B")
    path.write_text(template, "utf-8")
    return path


def _absolute(name: str) -> str:
    path = Path(name).expanduser().absolute()
    if not any(c in name for c in "*?[") and not path.exists():
        raise InputError(f"there is no file or folder {name}")
    return str(path)


def _txt_document(inputs: Sequence[str]) -> str:
    """Large text files are read as paragraphs: one document each would be over-long."""
    for name in inputs:
        path = Path(name)
        files = path.rglob("*.txt") if path.is_dir() else [path] if path.suffix.lower() != ".jsonl" else []
        if any(f.is_file() and f.stat().st_size > _LARGE_TXT_BYTES for f in files):
            return "paragraph"
    return "file"
