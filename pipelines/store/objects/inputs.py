"""Divides the input files of the settings into partitions. Reads only files whose identity on disk changed."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.context import Partition, Progress, silent
from pipelines.corpus import scan
from pipelines.corpus.formats import NameFolds, draws_folds, index_settings
from pipelines.corpus.listing import EMPTY, FORGOTTEN, InputFile, list_files
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.side_files import side_digest
from pipelines.errors import InputError
from pipelines.files import canonical_json
from pipelines.store.objects.code import CodeDigests
from pipelines.store.objects.forgotten import NOTHING, Forgotten
from pipelines.store.place.statcache import StatCache


@dataclass(frozen=True, kw_only=True)
class CorpusRequest:
    """The settings that decide which bytes form which partition (see ``CorpusConfig``)."""

    inputs: Sequence[str]
    base_dir: Path
    format: str
    options: ReadOptions
    partition_documents: int
    name_folds: NameFolds = "auto"


@dataclass(frozen=True)
class CorpusState:
    """The corpus as far as it is known.

    Attributes:
        partitions: partitions of the corpus; None while some file has not been read.
        num_files: number of files that belong to the corpus.
        num_unread: number of these files that have not been read yet.
        left_out: number of files that are left out, by suffix or by reason (`pipelines.corpus.listing.FileList`).
    """

    partitions: tuple[Partition, ...] | None
    num_files: int
    num_unread: int
    left_out: Mapping[str, int] = field(default_factory=dict)


def corpus_state(
    request: CorpusRequest,
    secret: bytes,
    cache: StatCache,
    *,
    read: bool,
    progress: Progress = silent,
    forgotten: Forgotten = NOTHING,
) -> CorpusState:
    """Lists the input files and cuts them into partitions.

    Args:
        forgotten: files and documents to leave out even if they still exist.
        read: true to read and digest files that the cache does not know; otherwise they are only counted.

    Raises:
        InputError: a file or folder is missing or of the wrong kind, no file was found, or every file was forgotten.
    """
    code = hashlib.sha256(canonical_json(CodeDigests(cache).of([scan.__name__]))).hexdigest()[:16]
    files = list_files(request.inputs, request.base_dir, request.format, request.options.sources)
    if forgotten.files:
        kept = [file for file in files if not forgotten.holds_file(secret, file.name, file.path)]
        if len(kept) < len(files):
            files.left_out[FORGOTTEN] += len(files) - len(kept)
        if not kept:
            raise InputError("every input file was forgotten (`reticent forget`), so there is no text to read")
        files[:] = kept
    indexed = []
    unread = 0
    for done, file in enumerate(files):
        settings = index_settings(file.format, file.name, request.options)
        tag = f"corpus:{code}:{file.format}:{settings}:{request.partition_documents}"
        if side := side_digest(file.path, file.name, file.format):
            tag += f":{side}"
        if not read:
            value = cache.peek(file.path, tag)
            if value is None:
                unread += 1
                continue
        else:
            progress(done, len(files), "reading input")
            value = cache.get(file.path, tag, functools.partial(_index, request=request, file=file))
        indexed.append((file.name, file.path, file.format, scan.FileIndex.from_json(value)))
    if empty := sum(not index.pieces for *_, index in indexed):
        files.left_out[EMPTY] += empty
    left_out = dict(sorted(files.left_out.items()))
    num_files = len(files) - empty
    if unread:
        return CorpusState(None, num_files, unread, left_out)
    cache.save()
    draws = draws_folds([(name, form) for name, _, form, index in indexed if index.pieces], request.name_folds)
    partitions = scan.group(indexed, partition_documents=request.partition_documents, secret=secret, draws=draws)
    plans = tuple(Partition(p.name, tuple(forgotten.marked(secret, p.pieces))) for p in partitions)
    return CorpusState(plans, num_files, 0, left_out)


def _index(path: Path, *, request: CorpusRequest, file: InputFile) -> dict[str, Any]:
    return scan.index_file(
        path, file.name, file.format, request.options, request.partition_documents, given=file.given
    ).to_json()
