"""Finds forgotten documents of a file by pseudonyms of their own ids."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.context import Piece, pseudonym

if TYPE_CHECKING:
    from pipelines.corpus.items import Document


def forgotten_name(secret: bytes, file: str, source_id: str) -> str:
    """Returns the store's name of a forgotten document, from which neither file nor id can be guessed."""
    return pseudonym(secret, "forgotten document", file, source_id)


def is_forgotten(secret: bytes, piece: Piece, document: Document) -> bool:
    """Checks if a document was forgotten (`reticent forget`), although its file still has it."""
    if not piece.forgotten or document.source_id is None:
        return False
    files = (document.name, place_of(piece.path))
    return any(forgotten_name(secret, file, document.source_id) in piece.forgotten for file in files)


@lru_cache(maxsize=1)
def place_of(path: str | Path) -> str:
    """Returns where a file lies, without links. Unlike its name in the corpus, this does not follow from settings."""
    return str(Path(path).resolve())
