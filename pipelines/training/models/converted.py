"""Converts a model in a GGUF file to the files that transformers writes: converted once, read many times.

Transformers reads a GGUF file three times, entry by entry of its vocabulary. For a small model this takes a quarter of
a minute of CPU time, in every phase and every process of a training. A converted model is named by the bytes that it
was made from and by the packages that made it, and checked before each use. It holds no text of yours, and you may
delete it at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from safetensors import SafetensorError

from pipelines.errors import ConfigError
from pipelines.files import hold_lock
from pipelines.quiet import quiet_transformers
from pipelines.training.models.sources import ModelSource, shown

_CHECKSUMS: Final = "checksums.json"
_MAKERS: Final = ("transformers", "gguf", "tokenizers", "torch")


def read_model(source: ModelSource, read: Any, **options: Any) -> Any:
    """Reads a config, a tokenizer or a network.

    Args:
        source: place of the model.
        read: ``from_pretrained`` function of ``transformers``.
        options: further arguments of that function.

    Raises:
        ConfigError: files are missing or damaged, or of an unknown kind.
    """
    options["local_files_only"] = True
    if source.gguf_file is not None:
        options["gguf_file"] = source.gguf_file
    if source.commit is not None:
        options["revision"] = source.commit
    # Reading a GGUF file draws a progress bar that no setting of the library turns off.
    quiet = contextlib.redirect_stderr(io.StringIO()) if source.gguf_file is not None else contextlib.nullcontext()
    try:
        with quiet, quiet_transformers():
            return read(source.location, **options)
    except (OSError, ValueError, ImportError, KeyError, SafetensorError) as error:
        raise ConfigError(
            f"model: {shown(source.name)} cannot be read ({type(error).__name__}): files are missing or damaged, or it "
            f"is of a kind that this transformers ({transformers.__version__}) does not know"
        ) from error


def without_quantisation(model: Any) -> None:
    """Removes the record of how weights were stored.

    The weights were expanded on reading, and a config that still calls them quantised could not be saved and loaded.
    """
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(model.config, name):
            delattr(model.config, name)
    model.hf_quantizer = None
    model.is_quantized = False


def converted(source: ModelSource, cache: Path) -> ModelSource:
    """Returns the same model in files that load fast, or ``source`` itself if it is no GGUF file.

    Args:
        source: place of a causal language model.
        cache: folder for converted models, which several processes may use.

    Raises:
        ConfigError: the file cannot be read.
    """
    if source.gguf_file is None:
        return source
    cache.mkdir(parents=True, exist_ok=True)
    made_of = [_sha256(Path(source.location) / source.gguf_file), *map(importlib.metadata.version, _MAKERS)]
    folder = cache / hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:32]
    with hold_lock(cache / "lock"):
        if not _is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
            temporary = Path(tempfile.mkdtemp(dir=cache, prefix="unfinished-"))
            _convert(source, temporary)
            (temporary / _CHECKSUMS).write_text(json.dumps(_checksums(temporary)), encoding="utf-8")
            temporary.rename(folder)
        os.utime(folder)  # when it was last used
    return replace(source, location=str(folder), gguf_file=None)


def _convert(source: ModelSource, folder: Path) -> None:
    model = read_model(source, transformers.AutoModelForCausalLM.from_pretrained, dtype=torch.float32)
    without_quantisation(model)
    with quiet_transformers():
        model.save_pretrained(folder)
        read_model(source, transformers.AutoTokenizer.from_pretrained).save_pretrained(folder)


def _is_whole(folder: Path) -> bool:
    try:
        known = json.loads((folder / _CHECKSUMS).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool(known) and known == _checksums(folder)


def _checksums(folder: Path) -> dict[str, str]:
    return {path.name: _sha256(path) for path in sorted(folder.iterdir()) if path.name != _CHECKSUMS}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
