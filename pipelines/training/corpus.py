"""Reads shards and held-out sentences into encoded records, through files in the scratch folder.

Nothing but row borders, content hashes (32 bytes a public row) and counts is held in memory.
"""

from __future__ import annotations

import hashlib
import heapq
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from pipelines.tables import iter_batches
from pipelines.training.ragged import RaggedArray, RaggedWriter
from pipelines.training.records import IntArray, Records, content_hash, encode_record, target_positions
from pipelines.training.tokenizer import (
    ControlTokens,
    byte_tokenizer,
    control_tokens,
    speaker_names,
    train_bpe,
)

_BATCH_ROWS = 2_048
_SHARD_COLUMNS = ("redacted_text", "speaker", "domain", "label")
_ID_DTYPE = np.int32

Row = tuple[str, str | None]


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Encoded held-out sentences.

    Attributes:
        records: the sentences.
        num_words: (n,) words of what was kept of each sentence, split at white space; one more where its end was kept.
        documents: (n,) the number of the document that each sentence belongs to, for standard errors.
        num_available: sentences in the fold, of which ``len(records)`` were taken.
    """

    records: Records
    num_words: IntArray
    documents: IntArray
    num_available: int


@dataclass(frozen=True, kw_only=True)
class TrainingCorpus:
    """Everything that training and evaluation read.

    Attributes:
        tokenizer: the tokenizer, which saw public rows at most.
        tokenizer_kind: ``bpe_public`` or ``bytes``.
        tokenizer_trained_on: whose text the vocabulary was learnt from: ``public``, or ``none``.
        public_order: ``content_hash`` if the public records were seen to be in that order, ``unknown`` otherwise.
        speakers: the speaker names that have a control token.
        control: the ids of the control tokens.
        public: public records, in the order of their content hash.
        private: private records; their order is never used, they are drawn by Poisson sampling.
        held_out: sentences to evaluate on.
    """

    tokenizer: Tokenizer
    tokenizer_kind: str
    tokenizer_trained_on: str
    public_order: str
    speakers: tuple[str, ...]
    control: ControlTokens
    public: Records
    private: Records
    held_out: HeldOut


def count_rows(paths: Iterable[Path]) -> int:
    """Rows of Parquet files, read from their footers."""
    return sum(pq.read_metadata(path).num_rows for path in paths)


def _shard_rows(paths: Iterable[Path]) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    for path in paths:
        for batch in iter_batches(path, "shard", _SHARD_COLUMNS, _BATCH_ROWS):
            columns = (batch.column(name).to_pylist() for name in _SHARD_COLUMNS)
            yield from zip(*columns, strict=True)


class _PublicRows:
    """Public rows kept in a scratch file and read back in the order of their content hash."""

    def __init__(self, paths: Sequence[Path], scratch: Path) -> None:
        hashes: list[bytes] = []
        self._speakers: list[str | None] = []
        self.rows_by_speaker: Counter[str] = Counter()
        with RaggedWriter(scratch / "public_text.bin", np.uint8) as writer:
            for text, speaker, domain, label in _shard_rows(paths):
                hashes.append(content_hash(speaker, domain, label, text))
                self._speakers.append(speaker if speaker is None else sys.intern(speaker))
                if speaker is not None:
                    self.rows_by_speaker[speaker] += 1
                writer.append(text.encode())
        self._texts: RaggedArray = writer.open()
        # Equal hashes are equal rows, so the order among them cannot be seen.
        self._order = sorted(range(len(hashes)), key=hashes.__getitem__)

        self._hashes = hashes
        self.order = "unknown"
        """What order the last whole pass was in, as seen from its hashes."""

    def __iter__(self) -> Iterator[Row]:
        self.order = "unknown"
        last = b""
        is_sorted = True
        for at in self._order:
            is_sorted = is_sorted and last <= self._hashes[at]
            last = self._hashes[at]
            yield self._texts[at].tobytes().decode(), self._speakers[at]
        self.order = "content_hash" if is_sorted else "unknown"


def _encode(rows: Iterable[Row], tokenizer: Tokenizer, control: ControlTokens, context: int, path: Path) -> Records:
    num_targets: list[int] = []
    num_truncated = 0
    with RaggedWriter(path, _ID_DTYPE) as writer:
        for chunk in _chunks(rows):
            encoded = tokenizer.encode_batch_fast([text for text, _ in chunk], add_special_tokens=False)
            for (_, speaker), encoding in zip(chunk, encoded, strict=True):
                ids, truncated = encode_record(encoding.ids, speaker, control, context)
                num_truncated += truncated
                num_targets.append(int(target_positions(np.asarray(ids, dtype=np.int64), control).sum()))
                writer.append(ids)
    return Records(
        ids=writer.open(),
        num_targets=np.asarray(num_targets, dtype=np.int64),
        num_truncated=num_truncated,
        control=control,
    )


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _BATCH_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


_HeldOutRow = tuple[str, str | None, str]
"""Text, speaker, document."""


def _fold_rows(paths: Sequence[Path], fold: str) -> Iterator[tuple[bytes, _HeldOutRow]]:
    columns = ("doc_id", "sentence_index", "text", "speaker", "fold")
    for path in paths:
        for batch in iter_batches(path, "sentences", columns, _BATCH_ROWS):
            lists = (batch.column(name).to_pylist() for name in columns)
            for doc, index, text, speaker, found in zip(*lists, strict=True):
                if found == fold:
                    yield hashlib.sha256(f"{doc}/{index}".encode()).digest(), (text, speaker, doc)


def read_held_out(
    paths: Sequence[Path],
    *,
    fold: str,
    most: int,
    tokenizer: Tokenizer,
    control: ControlTokens,
    context_length: int,
    scratch: Path,
) -> HeldOut:
    """Encodes at most ``most`` sentences of ``fold``, original text.

    Those with the smallest digest of their identity are taken: it is no function of what they say, so that copies of
    one sentence are not drawn together.
    """
    num_available = 0

    def counted() -> Iterator[tuple[bytes, _HeldOutRow]]:
        nonlocal num_available
        for row in _fold_rows(paths, fold):
            num_available += 1
            yield row

    rows = [row for _, row in heapq.nsmallest(most, counted(), key=lambda candidate: candidate[0])]
    texts = ((text, speaker) for text, speaker, _ in rows)
    records = _encode(texts, tokenizer, control, context_length, scratch / "held_out.bin")
    num_words = []
    for at, (text, _, _) in enumerate(rows):
        ids = records.ids[at].tolist()
        is_whole = ids[-1] == control.eos
        num_words.append(len((text if is_whole else tokenizer.decode(ids)).split()) + is_whole)
    numbers: dict[str, int] = {}
    return HeldOut(
        records=records,
        num_words=np.asarray(num_words, dtype=np.int64),
        documents=np.asarray([numbers.setdefault(doc, len(numbers)) for _, _, doc in rows], dtype=np.int64),
        num_available=num_available,
    )


def read_corpus(
    *,
    public_paths: Sequence[Path],
    private_paths: Sequence[Path],
    sentence_paths: Sequence[Path],
    scratch: Path,
    tokenizer_kind: str,
    vocab_size: int,
    speakers: Sequence[str],
    min_speaker_rows: int,
    context_length: int,
    evaluate_fold: str,
    max_eval_sentences: int,
    progress: Callable[[int, int | None, str], None],
) -> TrainingCorpus:
    """Trains the tokenizer on public rows and encodes public, private and held-out rows.

    Args:
        public_paths: the public shards; the only rows that shape the tokenizer.
        private_paths: the private shards.
        sentence_paths: the original sentences, for the held-out fold only.
        scratch: a folder for intermediate files.
        tokenizer_kind: ``bpe_public`` (falls back to ``bytes`` without public rows) or ``bytes``.
        vocab_size: the most tokens of a BPE vocabulary.
        speakers: speaker names from the settings; empty takes them from public rows.
        min_speaker_rows: public rows that a speaker needs for a control token of its own.
        context_length: the longest record, in tokens.
        evaluate_fold: the fold to evaluate on.
        max_eval_sentences: the most sentences to evaluate on.
        progress: told what is being read.
    """
    progress(0, None, "reading public rows")
    public_rows = _PublicRows(public_paths, scratch)
    names = tuple(sorted(set(speakers))) or speaker_names(public_rows.rows_by_speaker, min_speaker_rows)
    has_public = count_rows(public_paths) > 0
    kind = tokenizer_kind if has_public else "bytes"
    if kind == "bytes":
        tokenizer, trained_on = byte_tokenizer(names), "none"
    else:
        progress(0, None, "training the tokenizer on public rows")
        tokenizer, trained_on = train_bpe((text for text, _ in public_rows), names, vocab_size), "public"
    control = control_tokens(tokenizer, names)
    progress(0, None, "encoding rows")
    private_rows = ((text, speaker) for text, speaker, _, _ in _shard_rows(private_paths))
    public = _encode(public_rows, tokenizer, control, context_length, scratch / "public_ids.bin")
    return TrainingCorpus(
        tokenizer=tokenizer,
        tokenizer_kind=kind,
        tokenizer_trained_on=trained_on,
        public_order=public_rows.order,
        speakers=names,
        control=control,
        public=public,
        private=_encode(private_rows, tokenizer, control, context_length, scratch / "private_ids.bin"),
        held_out=read_held_out(
            sentence_paths,
            fold=evaluate_fold,
            most=max_eval_sentences,
            tokenizer=tokenizer,
            control=control,
            context_length=context_length,
            scratch=scratch,
        ),
    )
