"""``reticent init``: a commented settings file that runs as it is."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from pipelines.corpus.formats import format_of, suffix_of, suffixes
from pipelines.corpus.listing import list_files
from pipelines.errors import ConfigError, InputError

_LARGE_TXT_BYTES = 1_000_000
OWN_POLICIES = ("high_entity", "presidio", "addresses", "identifiers")
"""What masks text of one's own. Not ``propagate``: docs/policies.md, "The default"."""


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
    template = resources.files("flows.commands").joinpath("starter.toml").read_text("utf-8")
    if inputs:
        shown = [_absolute(name) for name in inputs]
        files = _files(shown)
        replaced = {
            'inputs = ["corpus"]': f"inputs = {json.dumps(shown, ensure_ascii=False)}",
            'format = "auto"': f'format = "{_format(files)}"',
            'txt_document = "file"': f'txt_document = "{_txt_document(files)}"',
            "partition_documents = 250": "partition_documents = 1000",
            'policies = ["customersim", "high_entity"]': f"policies = {json.dumps(OWN_POLICIES)}",
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

        # One dialogue in ten is worded as no policy was written for, so that the miss rate shows something.
        unusual = dialogues // 10
        write_customersim(folder / "corpus" / "usual", dialogues - unusual, seed)
        if unusual:
            write_customersim(folder / "corpus" / "unusual", unusual, seed, template_set="B")
    path.write_text(template, "utf-8")
    return path


def _absolute(name: str) -> str:
    return os.path.abspath(Path(name).expanduser())  # noqa: PTH100  (drops .., keeps links)


def _files(inputs: Sequence[str]) -> list[Path]:
    """The files that the inputs stand for, as far as settings depend on them.

    Raises:
        InputError: an input does not exist, or a folder holds no file that would be read.
    """
    found: list[Path] = []
    for name in inputs:
        path = Path(name)
        if path.is_dir():
            inside = [f for f in path.rglob("*") if suffix_of(f.name) in suffixes("auto") and f.is_file()]
            list_files([name], base_dir=path)  # raises, saying what to do, if there is nothing to read
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            matches = [Path(match) for match in glob.glob(name, recursive=True)] if glob.has_magic(name) else []  # noqa: PTH207
            if not matches:
                raise InputError(f"there is no file or folder {name}")
            found += [f for f in matches if f.is_file()]
    return found


def _format(files: Sequence[Path]) -> str:
    """``auto`` unless a file was named whose suffix says nothing: then it is text."""
    return "auto" if all(format_of(f.name, "auto") for f in files) else "txt"


def _txt_document(files: Sequence[Path]) -> str:
    """Large text files are read as paragraphs: one document each would be over-long."""
    texts = [f for f in files if format_of(f.name, "auto") in (None, "txt")]
    large = any(f.stat().st_size > _LARGE_TXT_BYTES for f in texts)
    return "paragraph" if large else "file"
