"""Divides rows into public and private (Confidentially Redacted Training, Algorithm 1, lines 3 and 4; A.5 item 5)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

from pipelines.artifacts import Source, Target
from pipelines.errors import PrivacyGateError
from pipelines.mask import MASK
from pipelines.tables import ROW, schema

ROWS_PER_BUCKET: Final = 100_000
MAX_BUCKETS: Final = 128

_METADATA = "speaker: string?, domain: string?, label: string?"
SHARD: Final = schema(
    "shard", f"{ROW}, redacted_text: string, num_tokens: uint32, num_masked_tokens: uint32, {_METADATA}"
)
"""The schema of public and private shards. They have no offsets and hold the training fold only."""

PUBLISHED: Final = schema(
    "published", f"row_id: string, redacted_text: string, num_tokens: uint32, {_METADATA}", hashes=("row_id",)
)
"""The published public side. It has identifiers of its own, because gaps in the other identifiers show the places of
private sentences."""

PUBLIC_IDS: Final = schema("public_ids", f"row_id: string, {ROW}", hashes=("row_id",))
"""A private map from the identifiers of `PUBLISHED` to those of the corpus."""


def is_private(row: Mapping[str, Any]) -> bool:
    """Returns true if a row of the redacted table has any mask from any cause, or is flagged.

    A row with a mask must be private for any cause, because the policy may have missed a secret in the neighbouring
    world. In that world the row would be trained on without noise (A.5 item 5).
    """
    return bool(
        row["num_masked_tokens"] > 0
        or row["is_duplicate"]
        or row["failed_closed"]
        or row["flagged_by_conservative"]
        or MASK in row["redacted_text"]
    )


def check_public(row: Mapping[str, Any]) -> None:
    """Refuses a row with a mask, as the last gate before the public root and independently of `is_private`.

    Call it for every row of a partition before you open the public file, so that no row is written if it raises.

    Raises:
        PrivacyGateError: a row with a mask was about to be published.
    """
    if MASK in row["redacted_text"] or row["num_masked_tokens"]:
        raise PrivacyGateError(
            "a sentence with a mask was about to be published; no row of this partition was written to the public root"
        )


def content_key(row: Mapping[str, Any]) -> bytes:
    """Returns the SHA-256 of (speaker, domain, label, redacted_text), each with its length and a mark if it is absent.

    Public rows are published and trained on in the order of this key. The public pass has no noise. Corpus order would
    be visible in it, and changes if a neighbouring row changes sides (design, section 5).
    """
    digest = hashlib.sha256()
    for name in ("speaker", "domain", "label", "redacted_text"):
        value = row[name]
        data = b"" if value is None else str(value).encode("utf-8", "surrogatepass")
        digest.update((b"\x00" if value is None else b"\x01") + len(data).to_bytes(8, "big") + data)
    return digest.digest()


class ContentOrder:
    """Sorts rows by `content_key`, then ``doc_id`` and ``sentence_index``, in bounded memory.

    Rows go to files by the leading bits of their key. These bits are uniform, so each file holds about
    ``ROWS_PER_BUCKET`` rows (more only if there are ``MAX_BUCKETS`` files). Each file is sorted separately, and all
    files in turn give the whole order. Equal contents share a file, so all copies of a sentence must fit in memory.
    Dedup ensures that there are few.

    Args:
        scratch: folder of the files.
        max_rows: upper bound on the number of rows.
    """

    def __init__(self, scratch: Target, max_rows: int) -> None:
        self._num_buckets = min(MAX_BUCKETS, max(1, -(-max_rows // ROWS_PER_BUCKET)))
        self._scratch = scratch
        self._names = [f"bucket-{i:03}.jsonl" for i in range(self._num_buckets)]
        self._files: list[BinaryIO] = []

    def __enter__(self) -> ContentOrder:
        self._files = [self._scratch.lines(name) for name in self._names]
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def add(self, row: Mapping[str, Any]) -> None:
        """Adds one row, whose values must be JSON values."""
        key = content_key(row)
        bucket = int.from_bytes(key[:8], "big") * self._num_buckets >> 64
        line = json.dumps([key.hex(), row["doc_id"], row["sentence_index"], dict(row)])
        self._files[bucket].write(line.encode() + b"\n")

    def sorted_rows(self) -> Iterator[dict[str, Any]]:
        """Yields all rows in order. Add no row afterwards."""
        for file, name in zip(self._files, self._names, strict=True):
            file.close()
            rows = [json.loads(line) for line in Source(folder=self._scratch.folder).lines(name)]
            rows.sort(key=lambda row: row[:3])
            for row in rows:
                yield row[3]
