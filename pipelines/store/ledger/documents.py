"""Which documents each release read: names of their texts, in files beside the ledger.

A release's file holds the names (`pipelines.corpus.same_text`) that no earlier entry has, sorted, eight bytes each. So
the files grow with the number of different documents and not with the number of releases. The ledger's line holds the
digest of the file, and the earlier releases that share a document with this one. A name may stand for two texts by
chance: then too much is composed, never too little.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pipelines.corpus.same_text import NAME_BYTES, document_names
from pipelines.errors import DamagedFileError
from pipelines.files import canonical_json, read_file, write_atomic
from pipelines.graph import GRAPH
from pipelines.graph_names import SENTENCES
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.ingredients import ingredients_of
from pipelines.store.objects.keys import make_key
from pipelines.store.objects.session import Session
from pipelines.store.place.ledger_file import WAY_OUT, LedgerError
from pipelines.store.place.roots import Roots

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from pipelines.accounting.ledger import DocumentSet, Release

_FOLDER: Final = "ledger/documents"
_SPLIT: Final = "split"
_NUMBERS: Final = "<u8"


def split_keys(session: Session) -> tuple[str, ...]:
    """The keys of the run's sentences, of all partitions, whether or not they are there."""
    partitions = session.partition_names(_SPLIT) if _SPLIT in GRAPH else ()
    return tuple(make_key(session, ingredients_of(session, _SPLIT, partition, {})) for partition in partitions)


def split_keys_of(roots: Roots, key: str) -> tuple[str, ...] | None:
    """The keys of the sentences that an artifact was made of; None where that is not known any more."""
    found: set[str] = set()
    pending = [(stage, key) for stage in GRAPH if roots.manifest_path(stage, key).exists()]
    seen = set(pending)
    while pending:
        stage, key = pending.pop()
        if stage == _SPLIT:
            found.add(key)
            continue
        manifest = manifests.load(roots, stage, key)
        if manifest is None or "inputs" not in manifest.lineage:
            return None
        read = {(name, k) for name, pairs in manifest.lineage["inputs"].items() for _, k in pairs} - seen
        pending += read
        seen |= read
    whole = all((m := manifests.load(roots, _SPLIT, k)) and not manifests.damage(roots, m, full=True) for k in found)
    return tuple(sorted(found)) if found and whole else None


def corpus_of(roots: Roots, keys: Sequence[str]) -> str | None:
    """Identifies the sentences of all documents by their contents; None where some are not there."""
    digests = []
    for key in keys:
        manifest = manifests.load(roots, _SPLIT, key)
        if manifest is None:
            return None
        digests.append(manifest.output_digest((SENTENCES,)))
    return hashlib.sha256(canonical_json(sorted(digests))).hexdigest()[:32] if digests else None


def compare_documents(
    roots: Roots, keys: Sequence[str] | None, known: Sequence[Release]
) -> tuple[DocumentSet | None, tuple[str, ...], bytes]:
    """Compares the documents of a release with those of earlier ones. The caller holds the ledger.

    Args:
        roots: the store.
        keys: of the sentences that it reads; None where that is not known.
        known: the releases that are entered before it.

    Returns:
        What its line says of the documents, None where they are not known; those of ``known`` that it may share a
        document with, each one of which the documents are not known included; and what `write_documents` takes.

    Raises:
        LedgerError: the file of an earlier release is not as it was written.
    """
    from pipelines.accounting.ledger import DocumentSet

    unknown = tuple(r.release_id for r in known if r.documents is None and r.state != "abandoned")
    corpus = None if keys is None else corpus_of(roots, keys)
    if keys is None or corpus is None:
        return None, unknown, b""
    if same := [r.release_id for r in known if r.documents is not None and r.documents.corpus == corpus]:
        return DocumentSet(corpus=corpus), (same[0], *unknown), b""
    names, shared = _new_names(roots, _names_of(roots, keys), known)
    data = names.astype(_NUMBERS).tobytes()
    digest = hashlib.sha256(data).hexdigest() if data else None
    return DocumentSet(corpus=corpus, num_new=len(names), digest=digest), (*shared, *unknown), data


def write_documents(roots: Roots, release_id: str, data: bytes) -> None:
    """Writes the names of a release's documents, before its line is entered. The caller holds the ledger."""
    if data:
        path = _path(roots, release_id)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomic(path, data)


def with_data(
    roots: Roots, release: Release, tokens: frozenset[str], keys: Sequence[str], known: Sequence[Release]
) -> tuple[Release, bytes]:
    """A release with its files and documents, as far as no earlier entry names them, and what it overlaps with.

    Args:
        roots: the store; the caller holds the ledger.
        release: it lacks those.
        tokens: of its files (`data_tokens`).
        keys: of the sentences that it reads (`split_keys`).
        known: the earlier releases.

    Returns:
        The release, and what `write_documents` takes.
    """
    shared = tuple(r.release_id for r in known if r.tokens and tokens & r.tokens)
    documents, sharing, data = compare_documents(roots, keys, known)
    new = None if documents is None else tokens.difference(*(r.tokens for r in known if r.tokens))
    overlaps = tuple(dict.fromkeys((*shared, *sharing)))
    return replace(release, tokens=new, documents=documents, overlaps=overlaps), data


def sharing_documents(roots: Roots, keys: Sequence[str], known: Sequence[Release]) -> frozenset[str]:
    """The releases of which documents are known, and that share one with a run; all where the run's are not known.

    Args:
        roots: the store.
        keys: of the sentences that the run reads.
        known: releases.

    Raises:
        LedgerError: the file of a release is not as it was written.
    """
    told = [r for r in known if r.documents is not None]
    corpus = corpus_of(roots, keys)
    if corpus is None or not told:
        return frozenset(r.release_id for r in told)
    same = frozenset(r.release_id for r in told if r.documents is not None and r.documents.corpus == corpus)
    # What shares a document with a release of the same corpus is linked to that one by its line, or by a chain.
    return same or frozenset(_new_names(roots, _names_of(roots, keys), told)[1])


def check_documents(roots: Roots, releases: Sequence[Release]) -> None:
    """Compares the files of documents with what the ledger's lines say of them.

    Raises:
        LedgerError: one is missing or not as it was written.
    """
    for release in releases:
        _read(roots, release)


def _names_of(roots: Roots, keys: Sequence[str]) -> np.ndarray[Any, Any]:
    """The names of all documents, each once; eight bytes of memory for each document."""
    import numpy as np  # a run with nothing to do need not load it

    found = array("Q")
    for key in keys:
        found.extend(document_names(roots.secret, roots.private_files(_SPLIT, key).table(_sentences())))
    return np.unique(np.frombuffer(found, dtype=np.uint64)) if found else np.zeros(0, dtype=np.uint64)


def _sentences() -> Any:
    from pipelines.corpus.tables import SENTENCES as TABLE  # pyarrow

    return TABLE


def _new_names(
    roots: Roots, names: np.ndarray[Any, Any], known: Sequence[Release]
) -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    """The names that no release has, and the releases that have the others; one release's names in memory at a time."""
    import numpy as np

    shared = []
    for release in known:
        data = _read(roots, release)
        if data:
            has = np.isin(names, np.frombuffer(data, dtype=_NUMBERS), assume_unique=True)
            names = names[~has]
            shared += [release.release_id] * bool(has.any())
    return names, tuple(shared)


def _path(roots: Roots, release_id: str) -> Path:
    return roots.private / _FOLDER / f"{release_id}.bin"


def _read(roots: Roots, release: Release) -> bytes:
    """The names of the documents that no entry before this release has."""
    if release.documents is None or release.documents.digest is None:
        return b""
    path = _path(roots, release.release_id)
    try:
        data = read_file(path)
    except (FileNotFoundError, DamagedFileError):
        data = b""
    if hashlib.sha256(data).hexdigest() != release.documents.digest or len(data) % NAME_BYTES:
        raise LedgerError(
            f"{path}, which says what documents a release read, is missing or not as it was written. {WAY_OUT}"
        )
    return data
