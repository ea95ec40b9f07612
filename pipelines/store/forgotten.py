"""Which documents the store has forgotten: a sealed list in the private root, by pseudonym.

What it names is left out of every later run, though it may still lie among the input files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pipelines.context import Piece, pseudonym
from pipelines.corpus.forgotten import forgotten_name
from pipelines.store import versions
from pipelines.store.roots import Roots
from pipelines.store.seals import read_sealed, write_sealed


class Subject(NamedTuple):
    """What is to be forgotten: a file of the corpus, by its name in it, or one document of it, by its own id."""

    file: str
    source_id: str | None = None


@dataclass(frozen=True)
class Forgotten:
    """The list.

    Attributes:
        files: `file_name` of whole files.
        documents: `file_name` to the names (`pipelines.corpus.forgotten.forgotten_name`) of documents of that file,
            each with the keys of what was split of it: models were trained on that.
    """

    files: frozenset[str] = frozenset()
    documents: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def holds(self, secret: bytes, subject: Subject) -> bool:
        """Whether a subject is on it."""
        name = file_name(secret, subject.file)
        if subject.source_id is None:
            return name in self.files
        return forgotten_name(secret, subject.file, subject.source_id) in self.documents.get(name, {})

    def keys_of(self, secret: bytes, subject: Subject) -> tuple[str, ...]:
        """Keys of what was split of a document, as far as it is on the list by itself."""
        if subject.source_id is None:
            return ()
        known = self.documents.get(file_name(secret, subject.file), {})
        return known.get(forgotten_name(secret, subject.file, subject.source_id), ())

    def marked(self, secret: bytes, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Pieces of files, with what is to be left out of them."""
        for piece in pieces:
            names = self.documents.get(file_name(secret, piece.name)) if self.documents else None
            yield replace(piece, forgotten=tuple(sorted(names))) if names else piece


NOTHING = Forgotten()


def file_name(secret: bytes, name: str) -> str:
    """What the store calls a file by: the name cannot be guessed from it."""
    return pseudonym(secret, "file", name)


def forgotten_path(roots: Roots) -> Path:
    """Where the list is."""
    return roots.private / "forgotten.json"


def read_forgotten(roots: Roots) -> Forgotten:
    """The list as it is; empty where nothing was forgotten.

    Raises:
        SealError: it is not as it was written, so that a run might read again what was forgotten.
    """
    document = read_sealed(forgotten_path(roots), "forgotten", roots.secret)
    if document is None:
        return NOTHING
    documents = {f: {name: tuple(keys) for name, keys in n.items()} for f, n in document["documents"].items()}
    return Forgotten(frozenset(document["files"]), documents)


def add_forgotten(roots: Roots, subjects: Iterable[Subject], split: Iterable[str]) -> None:
    """Puts subjects on the list. The caller holds the store alone.

    Args:
        split: keys of what was split of them.
    """
    known = read_forgotten(roots)
    files, documents = set(known.files), {file: dict(names) for file, names in known.documents.items()}
    for subject in subjects:
        name = file_name(roots.secret, subject.file)
        if subject.source_id is None:
            files.add(name)
        else:
            keys = {*split, *known.keys_of(roots.secret, subject)}
            one = forgotten_name(roots.secret, subject.file, subject.source_id)
            documents.setdefault(name, {})[one] = tuple(sorted(keys))
    document = {
        "schema_version": versions.FORGOTTEN,
        "files": sorted(files),
        "documents": documents,
    }
    write_sealed(forgotten_path(roots), document, "forgotten", roots.secret)
