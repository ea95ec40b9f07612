"""Folders in memory, for libraries that open files by path when the files must not lie on the disk in plaintext.

A folder of an encrypted root is replaced by a folder of links to anonymous files in memory (``memfd_create``), which
the kernel frees with the process, whichever way that ends. Any other folder is used as it is.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pipelines.encryption.places import place_of
from pipelines.errors import StageError
from pipelines.files import open_to_read, open_to_write

_COPIED_BYTES: Final = 1 << 20
_FOLDERS: Final = ("", "prefix")
_WRITTEN: Final = (
    "config.json", "generation_config.json", "model.safetensors", "adapter_config.json", "adapter_model.safetensors",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "vocab.json", "vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "README.md",
)  # fmt: skip
"""Files that ``save_pretrained`` of transformers and peft may write, and those that Reticent adds."""


@contextlib.contextmanager
def readable(folder: Path) -> Iterator[Path]:
    """Yields a folder with the same files, to be read while the context lasts.

    Raises:
        OSError: a file cannot be read.
        DamagedFileError: a file differs from what was written.
    """
    if not _is_sealed(folder):
        yield folder
        return
    with _links() as (lent, link):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            descriptor = link(path.relative_to(folder).as_posix())
            with open_to_read(path) as source, os.fdopen(os.dup(descriptor), "wb") as target:
                shutil.copyfileobj(source, target, _COPIED_BYTES)
        yield lent


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[Path]:
    """Yields a folder in which a library saves a model or a tokenizer.

    Its files are in ``folder`` when the context ends.

    Raises:
        StageError: the library wrote a file with an unknown name, which is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not _is_sealed(folder):
        yield folder
        return
    with _links() as (lent, link), _weights_written_in_place(lent):
        made = {f"{inside}/{name}".lstrip("/"): 0 for inside in _FOLDERS for name in _WRITTEN}
        for name in made:
            made[name] = link(name)
        yield lent
        if strange := [path.name for path in lent.rglob("*") if path.is_file() and not path.is_symlink()]:
            raise StageError(
                f"a library wrote {strange[0]}, which an encrypted store has no place in memory for; nothing was kept. "
                "Train this model in a store without encryption, on an encrypted disk (store.require_encrypted_fs)"
            )
        for name, descriptor in made.items():
            if os.fstat(descriptor).st_size and (lent / name).is_symlink():
                (folder / name).parent.mkdir(exist_ok=True)
                os.lseek(descriptor, 0, os.SEEK_SET)
                with os.fdopen(os.dup(descriptor), "rb") as source, open_to_write(folder / name) as target:
                    shutil.copyfileobj(source, target, _COPIED_BYTES)


def _is_sealed(folder: Path) -> bool:
    return place_of(folder / "any") is not None


@contextlib.contextmanager
def _links() -> Iterator[tuple[Path, Any]]:
    """Yields a folder, and a function that links a name in it to a new file in memory and returns its descriptor."""
    lent = Path(tempfile.mkdtemp(prefix="links-"))
    descriptors: list[int] = []

    def link(name: str) -> int:
        descriptors.append(os.memfd_create("reticent"))
        path = lent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(f"/proc/self/fd/{descriptors[-1]}")
        return descriptors[-1]

    try:
        yield lent, link
    finally:
        shutil.rmtree(lent, ignore_errors=True)
        for descriptor in descriptors:
            os.close(descriptor)


@contextlib.contextmanager
def _weights_written_in_place(lent: Path) -> Iterator[None]:
    """Makes safetensors write through a link, which it would otherwise replace by a file on the disk."""
    library: Any = importlib.import_module("safetensors.torch")
    original = library.serialize_file

    def serialize_file(tensors: Any, filename: Any, metadata: Any = None) -> None:
        if lent in Path(filename).parents:
            Path(filename).write_bytes(library.serialize(tensors, metadata=metadata))
        else:
            original(tensors, filename, metadata=metadata)

    library.serialize_file = serialize_file
    try:
        yield
    finally:
        library.serialize_file = original
