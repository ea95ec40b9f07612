"""Finds forgotten documents of a file by pseudonyms of their own ids."""

from __future__ import annotations

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
    return forgotten_name(secret, document.name, document.source_id) in piece.forgotten
