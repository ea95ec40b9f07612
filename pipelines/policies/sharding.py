"""Public or private: Confidentially Redacted Training, Algorithm 1, lines 3 and 4, and A.5 item 5."""

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
"""Public and private shards share one schema: no offsets, training fold only."""

PUBLISHED: Final = schema(
    "published", f"row_id: string, redacted_text: string, num_tokens: uint32, {_METADATA}", hashes=("row_id",)
)
"""The public side as it is published: with identifiers of its own, for gaps in the others show where private sentences
stand."""

PUBLIC_IDS: Final = schema("public_ids", f"row_id: string, {ROW}", hashes=("row_id",))
"""Maps identifiers of `PUBLISHED` to the others. Private."""


def is_private(row: Mapping[str, Any]) -> bool:
    """Whether a row of the redacted table needs protection: any mask from any cause, or flagged.

    A row with a mask must be private whatever the cause: the policy may have missed a secret in the neighbouring
    world, and there the row would be trained on without noise (A.5 item 5).
    """
    return bool(
        row["num_masked_tokens"] > 0
        or row["is_duplicate"]
        or row["failed_closed"]
        or row["flagged_by_conservative"]
        or MASK in row["redacted_text"]
    )


def check_public(row: Mapping[str, Any]) -> None:
    """The last gate before the public root, independent of `is_private`.

    Call it for every row of a partition before the public file is opened: then no row was written when it raises.

    Raises:
        PrivacyGateError: a row with a mask was about to be published.
    """
    if MASK in row["redacted_text"] or row["num_masked_tokens"]:
        raise PrivacyGateError(
            "a sentence with a mask was about to be published; no row of this partition was written to the public root"
        )


def content_key(row: Mapping[str, Any]) -> bytes:
    """SHA-256 of (speaker, domain, label, redacted_text), each field with its length, absent ones marked apart.

    Public rows are published and trained on in this order. The public pass has no noise, so corpus order, which
    moves when a neighbouring row changes sides, would be visible (design, section 5).
    """
    digest = hashlib.sha256()
    for name in ("speaker", "domain", "label", "redacted_text"):
        value = row[name]
        data = b"" if value is None else str(value).encode("utf-8", "surrogatepass")
        digest.update((b"\x00" if value is None else b"\x01") + len(data).to_bytes(8, "big") + data)
    return digest.digest()


class ContentOrder:
    """Sorts rows by `content_key`, then ``doc_id`` and ``sentence_index``, in bounded memory.

    Rows go to files by the leading bits of their key, which are uniform, so each file holds a share of about
    ``ROWS_PER_BUCKET`` (more only past ``MAX_BUCKETS`` files) and is sorted by itself; read in turn, the files are
    the whole order. Equal contents share a file: a sentence repeated without end must be held at once, which dedup
    rules out.

    Args:
        scratch: for the files.
        max_rows: an upper bound on the rows to come.
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
        """Adds one row; its values must be JSON values."""
        key = content_key(row)
        bucket = int.from_bytes(key[:8], "big") * self._num_buckets >> 64
        line = json.dumps([key.hex(), row["doc_id"], row["sentence_index"], dict(row)])
        self._files[bucket].write(line.encode() + b"\n")

    def sorted_rows(self) -> Iterator[dict[str, Any]]:
        """All rows in order; nothing may be added afterwards."""
        for file, name in zip(self._files, self._names, strict=True):
            file.close()
            rows = [json.loads(line) for line in Source(folder=self._scratch.folder).lines(name)]
            rows.sort(key=lambda row: row[:3])
            for row in rows:
                yield row[3]
