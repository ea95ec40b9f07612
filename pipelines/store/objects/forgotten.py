"""Which documents the store has forgotten: a sealed list in the private root, by pseudonym.

What it names is left out of every later run, though it may still lie among the input files. The ledger holds the
list's digest, so that a removed list or an older one is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pipelines.context import Piece, pseudonym
from pipelines.corpus.forgotten import forgotten_name, place_of
from pipelines.files import canonical_json
from pipelines.store.objects.ledger_lines import append, ledger_dir, locked, read_documents
from pipelines.store.place import versions
from pipelines.store.place.ledger_file import FILE, FORGOT, LedgerError
from pipelines.store.place.roots import Roots
from pipelines.store.place.seals import read_sealed, write_sealed


class Subject(NamedTuple):
    """A file of the corpus to forget, by its name in the corpus, or one of its documents, by the document's own id."""

    file: str
    source_id: str | None = None


@dataclass(frozen=True)
class Forgotten:
    """The list of forgotten files and documents: files by their names in the corpus and by their places.

    Attributes:
        files: `file_name` of whole files.
        documents: `file_name` to the names (`pipelines.corpus.forgotten.forgotten_name`) of documents of that file,
            each with the keys of its split sentences, on which models were trained.
    """

    files: frozenset[str] = frozenset()
    documents: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def holds(self, secret: bytes, subject: Subject) -> bool:
        """Returns True if the list holds a subject."""
        name = file_name(secret, subject.file)
        if subject.source_id is None:
            return name in self.files
        return forgotten_name(secret, subject.file, subject.source_id) in self.documents.get(name, {})

    def holds_file(self, secret: bytes, name: str, path: Path) -> bool:
        """Returns whether a file is on it as a whole, by its name or its place."""
        return file_name(secret, name) in self.files or file_name(secret, place_of(path)) in self.files

    def keys_of(self, secret: bytes, subject: Subject) -> tuple[str, ...]:
        """Returns the keys of a document's split sentences; none unless the list names the document itself."""
        if subject.source_id is None:
            return ()
        known = self.documents.get(file_name(secret, subject.file), {})
        return known.get(forgotten_name(secret, subject.file, subject.source_id), ())

    def marked(self, secret: bytes, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Yields pieces of files, each with the names of the documents to leave out of it."""
        for piece in pieces:
            names: set[str] = set()
            if self.documents:
                names.update(self.documents.get(file_name(secret, piece.name), ()))
                placed = self.documents.get(file_name(secret, place_of(piece.path)), ())
                # As many are the same ones: then the place, which enters keys, is not needed.
                names.update(placed if len(placed) > len(names) else ())
            yield replace(piece, forgotten=tuple(sorted(names))) if names else piece


NOTHING = Forgotten()
NO_PATHS: Mapping[str, Path] = MappingProxyType({})


def file_name(secret: bytes, name: str) -> str:
    """Returns the store's pseudonym of a file, from which the name cannot be guessed."""
    return pseudonym(secret, "file", name)


def forgotten_path(roots: Roots) -> Path:
    """Returns the path of the list."""
    return roots.private / "forgotten.json"


def read_forgotten(roots: Roots) -> Forgotten:
    """Reads the list; empty if nothing was forgotten.

    Raises:
        SealError: the list was changed, so a run might read forgotten text again.
        LedgerError: the list is not the one that the ledger knows, or the ledger was changed or damaged.
    """
    document = _checked(roots, read_documents(roots, ledger_dir(roots) / FILE))
    return NOTHING if document is None else _list_of(document)


def digest_now(roots: Roots) -> str | None:
    """Computes the digest of the stored list; None if there is no list.

    Raises:
        SealError: the list was changed.
    """
    return _digest(read_sealed(forgotten_path(roots), "forgotten", roots.secret))


def _digest(document: Mapping[str, Any] | None) -> str | None:
    if document is None:
        return None
    content = {name: document[name] for name in ("files", "documents")}
    return hashlib.sha256(canonical_json(content)).hexdigest()


def _checked(roots: Roots, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Reads the list's document. It must be the one that the ledger names last, or the next one."""
    path = forgotten_path(roots)
    document: dict[str, Any] | None = read_sealed(path, "forgotten", roots.secret)
    known = next((line["digest"] for line in reversed(lines) if line["type"] == FORGOT), None)
    is_one_newer = document is not None and document.get("previous") == known  # a kill came before its line
    if _digest(document) != known and not is_one_newer:
        raise LedgerError(
            f"{path}, the list of what was forgotten, {'was removed' if document is None else 'is an older one'}: "
            "runs would read forgotten documents again. Restore the newest copy of the file from a backup. If there is "
            "none, `reticent ledger --acknowledge-damage REASON` goes on with what is there; then `reticent forget` "
            "again every document that has to stay out"
        )
    return document


def _list_of(document: Mapping[str, Any]) -> Forgotten:
    documents = {f: {name: tuple(keys) for name, keys in n.items()} for f, n in document["documents"].items()}
    return Forgotten(frozenset(document["files"]), documents)


def add_forgotten(
    roots: Roots, subjects: Collection[Subject], split: Collection[str], paths: Mapping[str, Path] = NO_PATHS
) -> None:
    """Adds subjects to the list, and the list's digest to the ledger. The caller holds the exclusive store lock.

    Args:
        split: keys of the subjects' split sentences.
        paths: places of the files that still exist, by their names in the corpus.
    """
    placed = [Subject(place_of(paths[s.file]), s.source_id) for s in subjects if s.file in paths]
    with locked(roots) as path:
        before = _checked(roots, read_documents(roots, path))
        document = _with(roots, before, [*subjects, *placed], split)
        write_sealed(forgotten_path(roots), document, "forgotten", roots.secret)
        append(roots, path, [{"type": FORGOT, "digest": _digest(document)}])


def enter_list(roots: Roots) -> None:
    """Enters the digest of a list that an earlier version wrote, or whose line a kill prevented.

    Raises:
        LedgerError: see `read_forgotten`.
    """
    if not forgotten_path(roots).exists():
        return
    with locked(roots) as path:
        lines = read_documents(roots, path)
        digest = _digest(_checked(roots, lines))
        if not any(line["type"] == FORGOT and line["digest"] == digest for line in lines):
            append(roots, path, [{"type": FORGOT, "digest": digest}])


def _with(
    roots: Roots, before: Mapping[str, Any] | None, subjects: Iterable[Subject], split: Iterable[str]
) -> dict[str, Any]:
    known = NOTHING if before is None else _list_of(before)
    files, documents = set(known.files), {file: dict(names) for file, names in known.documents.items()}
    for subject in subjects:
        name = file_name(roots.secret, subject.file)
        if subject.source_id is None:
            files.add(name)
        else:
            keys = {*split, *known.keys_of(roots.secret, subject)}
            one = forgotten_name(roots.secret, subject.file, subject.source_id)
            documents.setdefault(name, {})[one] = tuple(sorted(keys))
    return {
        "schema_version": versions.FORGOTTEN,
        "files": sorted(files),
        "documents": documents,
        "previous": _digest(before),
    }
