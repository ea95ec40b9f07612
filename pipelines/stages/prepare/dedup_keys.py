"""Dedup, step 1 of 4: the 128-bit key of every sentence of one partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.context import StageContext
from pipelines.corpus.tables import DOCUMENTS, SENTENCES
from pipelines.dedup.hash_ranges import PREFIX_BITS
from pipelines.dedup.kernels import compiled
from pipelines.dedup.key_tables import KEYS
from pipelines.dedup.keys import DocumentKeys, KeyMaker, place_keys

if TYPE_CHECKING:
    import numpy.typing as npt

    from pipelines.dedup.bloom import UInt64Array
    from pipelines.tables import Table

    Keys = tuple[
        pa.RecordBatch, npt.NDArray[np.bool_], UInt64Array, UInt64Array, UInt64Array | None, UInt64Array | None
    ]
    """Rows of sentences, flags of rows in scope, both halves of the keys, and both halves of keys of the text alone."""

_COLUMNS = ["doc_id", "sentence_index", "text", "speaker", "domain", "fold", "label"]
_REPEATED = ["speaker", "domain", "fold", "label"]
_WRITTEN_ROWS = 65_536  # at a time, in the order of the keys


def _lengths(sentences: Table) -> Iterator[npt.NDArray[np.int32]]:
    """Yields the number of tokens of each sentence. Callers read it only if needed: offsets are larger than texts."""
    for batch in sentences.batches(["token_starts"]):
        yield batch.column("token_starts").value_lengths().to_numpy(zero_copy_only=False)


def _owners(doc_ids: pa.Array, owner_of: Mapping[str, str]) -> pa.Array:
    """Returns the owner of each row's document."""
    encoded = doc_ids.dictionary_encode()
    owners = pa.array([owner_of[doc_id] for doc_id in encoded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, owners)


def _of_sentences(
    sentences: Table, maker: KeyMaker, min_tokens: int, owner_of: Mapping[str, str] | None, *, of_text: bool
) -> Iterator[Keys]:
    batches = sentences.batches(_COLUMNS, as_dictionary=_REPEATED)
    counted: Iterable[npt.NDArray[np.int32] | int] = _lengths(sentences) if min_tokens else repeat(0)
    for batch, lengths in zip(batches, counted, strict=False):
        folds = pc.equal(batch.column("fold"), "train").to_numpy(zero_copy_only=False)
        in_scope = folds & (lengths >= min_tokens)
        fields = [batch.column(name) for name in ("speaker", "domain", "label")]
        if owner_of is not None:
            fields.append(_owners(batch.column("doc_id"), owner_of))
        keys = maker.key_arrays(batch.column("text"), fields, in_scope)
        text_keys = maker.text_keys(batch.column("text"), in_scope) if of_text else (None, None)
        yield batch, in_scope, *keys, *text_keys


def _of_documents(
    sentences: Table, maker: KeyMaker, min_tokens: int, owner_of: Mapping[str, str] | None, *, of_text: bool
) -> Iterator[Keys]:
    """Yields rows with the key of their document and of their place in it, so that equal documents agree row by row."""
    keys, text_keys = DocumentKeys(), DocumentKeys()
    for batch, _, high, low, text_high, text_low in _of_sentences(sentences, maker, 0, owner_of, of_text=of_text):
        keys.add(batch.column("doc_id"), high, low)
        if text_high is not None and text_low is not None:
            text_keys.add(batch.column("doc_id"), text_high, text_low)
    counts, high, low = keys.finish()
    document = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    lengths = np.concatenate([[], *_lengths(sentences)]) if min_tokens else np.zeros(len(document))
    num_tokens = np.bincount(document, lengths, len(counts))
    _, text_high, text_low = text_keys.finish()
    at = 0
    for batch in sentences.batches(["doc_id", "sentence_index", "fold"]):
        rows, places = (values[at : at + batch.num_rows] for values in (document, place))
        is_train = pc.equal(batch.column("fold"), "train").to_numpy(zero_copy_only=False)
        in_scope = is_train & (num_tokens[rows] >= min_tokens)
        row_high, row_low = place_keys(high[rows], low[rows], places)
        row_high[~in_scope] = row_low[~in_scope] = 0
        of_row = (text_high[rows], text_low[rows]) if of_text else (None, None)
        yield batch, in_scope, row_high, row_low, *of_row
        at += batch.num_rows


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``keys.parquet``: one row per sentence, sorted by key prefix, so that a bucket's rows lie together."""
    config = ctx.configs["dedup"]
    split = ctx.input("split")
    sentences, owner_of = split.table(SENTENCES), None
    if config.scope == "owner":
        owner_of = {row["doc_id"]: row["owner"] for row in split.table(DOCUMENTS).rows(["doc_id", "owner"])}
    maker = KeyMaker(config.normalise, config.hash_seed, compiled(sentences.num_rows))
    keys_of = _of_sentences if config.unit == "sentence" else _of_documents
    batches: list[pa.RecordBatch] = []
    num_rows = num_in_scope = 0
    for batch, in_scope, high, low, text_high, text_low in keys_of(
        sentences, maker, config.min_tokens, owner_of, of_text=bool(config.against)
    ):
        rows = np.arange(num_rows, num_rows + batch.num_rows, dtype=np.uint64)
        absent = pa.nulls(batch.num_rows, pa.uint64())
        columns = {
            # Rows out of scope have no key. They are only counted, and are spread evenly over the buckets.
            "prefix": np.where(in_scope, high >> np.uint64(64 - PREFIX_BITS), rows).astype(np.uint16),
            "row": rows,
            "doc_id": batch.column("doc_id"),
            "sentence_index": batch.column("sentence_index"),
            "key_high": high,
            "key_low": low,
            "in_scope": in_scope,
            "text_key_high": absent if text_high is None else text_high,
            "text_key_low": absent if text_low is None else text_low,
        }
        batches.append(pa.RecordBatch.from_arrays([pa.array(columns[n]) for n in KEYS.names], schema=KEYS.columns))
        num_rows += batch.num_rows
        num_in_scope += int(in_scope.sum())
        ctx.run.progress(num_rows, None, "hashing sentences")
    with ctx.out.table(KEYS) as writer:
        if batches:
            keys = pa.concat_batches(batches)
            del batches
            order = np.argsort(keys["prefix"].to_numpy(), kind="stable")
            for at in range(0, num_rows, _WRITTEN_ROWS):
                part = keys.take(order[at : at + _WRITTEN_ROWS])
                writer.write({name: part[name] for name in KEYS.names})
    return {"num_sentences": num_rows, "num_in_scope": num_in_scope}
