"""The documents of each release, as names of their texts in files beside the ledger.

A release's file holds the names (`pipelines.corpus.same_text`) that no earlier entry has, sorted, eight bytes each. So
the files grow with the number of different documents, and not with the number of releases. The ledger's line holds the
digest of the file, and the earlier releases that share a document with this one. If two texts have the same name by
chance, too much is composed, and never too little.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pipelines.accounting.ledger import DocumentSet, Release
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

_FOLDER: Final = "ledger/documents"
_SPLIT: Final = "split"
_NUMBERS: Final = "<u8"


def split_keys(session: Session) -> tuple[str, ...]:
    """Computes the keys of the run's sentences in all partitions, stored or not."""
    partitions = session.partition_names(_SPLIT) if _SPLIT in GRAPH else ()
    return tuple(make_key(session, ingredients_of(session, _SPLIT, partition, {})) for partition in partitions)


def split_keys_of(roots: Roots, key: str) -> tuple[str, ...] | None:
    """Returns the keys of the sentences that an artifact was made from; None if that is no longer known."""
    sentences: set[str] = set()
    pending = [(stage, key) for stage in GRAPH if roots.manifest_path(stage, key).exists()]
    seen = set(pending)
    while pending:
        stage, key = pending.pop()
        if stage == _SPLIT:
            sentences.add(key)
            continue
        manifest = manifests.load(roots, stage, key)
        if manifest is None or "inputs" not in manifest.lineage:
            return None
        read = {(name, k) for name, pairs in manifest.lineage["inputs"].items() for _, k in pairs} - seen
        pending += read
        seen |= read
    loaded = [manifests.load(roots, _SPLIT, k) for k in sentences]
    is_whole = all(manifest and not manifests.damage(roots, manifest, full=True) for manifest in loaded)
    return tuple(sorted(sentences)) if sentences and is_whole else None


def corpus_of(roots: Roots, keys: Sequence[str]) -> str | None:
    """Identifies the sentences of all documents by their contents; None if some are not stored."""
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
    """Compares the documents of a release with those of earlier ones. The caller holds the ledger's lock.

    Returns:
        The documents for its line, None if they are not known; the ids of ``known`` releases that may share a document
        with it, including all whose documents are not known; and the bytes for `write_documents`.

    Raises:
        LedgerError: the file of an earlier release was changed.
    """
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
    """Writes the names of a release's documents, before its line is entered. The caller holds the ledger's lock."""
    if data:
        path = _path(roots, release_id)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomic(path, data)


def with_data(
    roots: Roots, release: Release, tokens: frozenset[str], keys: Sequence[str], known: Sequence[Release]
) -> tuple[Release, bytes]:
    """Adds to a release its overlaps, and its files and documents that no earlier entry names.

    Args:
        roots: the store; the caller holds the ledger's lock.
        release: release without these facts.
        tokens: pseudonyms of its files (`data_tokens`).
        keys: keys of the sentences that it reads (`split_keys`).
        known: earlier releases.

    Returns:
        The release, and the bytes for `write_documents`.
    """
    shared = tuple(r.release_id for r in known if r.tokens and tokens & r.tokens)
    documents, sharing, data = compare_documents(roots, keys, known)
    new = None if documents is None else tokens.difference(*(r.tokens for r in known if r.tokens))
    overlaps = tuple(dict.fromkeys((*shared, *sharing)))
    return replace(release, tokens=new, documents=documents, overlaps=overlaps), data


def sharing_documents(roots: Roots, keys: Sequence[str], known: Sequence[Release]) -> frozenset[str]:
    """Finds releases with known documents that share one with a run. If the run's are not known, all of them count.

    Raises:
        LedgerError: the file of a release was changed.
    """
    documented = [r for r in known if r.documents is not None]
    corpus = corpus_of(roots, keys)
    if corpus is None or not documented:
        return frozenset(r.release_id for r in documented)
    same = frozenset(r.release_id for r in documented if r.documents is not None and r.documents.corpus == corpus)
    # A release that shares a document with one of the same corpus is linked to it by its line, or by a chain.
    return same or frozenset(_new_names(roots, _names_of(roots, keys), documented)[1])


def check_documents(roots: Roots, releases: Sequence[Release]) -> None:
    """Compares the files of documents with their digests in the ledger.

    Raises:
        LedgerError: a file is missing or was changed.
    """
    for release in releases:
        _read(roots, release)


def _names_of(roots: Roots, keys: Sequence[str]) -> np.ndarray[Any, Any]:
    """Returns the names of all documents, each once. Takes eight bytes of memory for each document."""
    import numpy as np  # with pyarrow, slow to load: a run with nothing to do needs neither

    from pipelines.corpus.tables import SENTENCES as TABLE

    names = array("Q")
    for key in keys:
        names.extend(document_names(roots.secret, roots.private_files(_SPLIT, key).table(TABLE)))
    return np.unique(np.frombuffer(names, dtype=np.uint64)) if names else np.zeros(0, dtype=np.uint64)


def _new_names(
    roots: Roots, names: np.ndarray[Any, Any], known: Sequence[Release]
) -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    """Returns the names that no release has, and the releases of the others. Loads one release's names at a time."""
    import numpy as np

    shared = []
    for release in known:
        data = _read(roots, release)
        if data:
            has = np.isin(names, np.frombuffer(data, dtype=_NUMBERS), assume_unique=True)
            names = names[~has]
            if has.any():
                shared.append(release.release_id)
    return names, tuple(shared)


def _path(roots: Roots, release_id: str) -> Path:
    return roots.private / _FOLDER / f"{release_id}.bin"


def _read(roots: Roots, release: Release) -> bytes:
    """Reads the names of the documents that no entry before this release has."""
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
