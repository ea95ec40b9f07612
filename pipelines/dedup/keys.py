"""128-bit keys: two sentences with equal keys count as the same.

A key covers the normalised text *and* everything else that training reads of a sentence: speaker, domain, label. If
the key covered the text alone, two rows with equal text and different labels would share one kept copy, and the label
in training would be that of the first row. Removing that row would then change two training records, and
``mask_later`` would not be 1-stable (`pipelines.dedup.stability`).

With ``dedup.scope = owner`` the key also covers the pseudonym of the document's owner. So only text of one person can
have equal keys, and no decision about a person's text depends on the text of others.

The keys do not protect secrets: anybody who holds a key can test guesses of the text against it. They stay in the
private root.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Literal

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.dedup.bloom import BoolArray, UInt64Array, mix

Normalise = Literal["none", "whitespace", "casefold"]

_LENGTH_BYTES = 8
_MAX_CODE = 2**62
"""Largest number of combinations of fields that are told apart by one int64."""


def collapse_whitespace(text: str) -> str:
    """Strips the text and replaces each run of Unicode white space by one space."""
    return " ".join(text.split())


def casefold_text(text: str) -> str:
    """Maps texts that differ only in case, compatibility characters (full width, ligatures) or white space to one text.

    Source: the Unicode Standard, section 3.13, D146 (compatibility caseless match). Folding once and normalising
    once is not enough: each of the two can undo the other, and the result would not be idempotent.
    """
    folded = unicodedata.normalize("NFD", text).casefold()
    folded = unicodedata.normalize("NFKD", folded).casefold()
    return collapse_whitespace(unicodedata.normalize("NFKC", folded))


NORMALISERS: Mapping[Normalise, Callable[[str], str]] = {
    "none": lambda text: text,
    "whitespace": collapse_whitespace,
    "casefold": casefold_text,
}


def _length_prefixed(value: str | None) -> bytes:
    """Encodes injectively: absent, empty and every other string differ, and none is a prefix of another."""
    if value is None:
        return b"\x00"
    encoded = value.encode("utf-8", "surrogatepass")
    return b"\x01" + len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded


def encode_sentence(text: str, *fields: str | None) -> bytes:
    """Returns the bytes to hash: length-prefixed speaker, domain, label and any owner, then the text up to the end."""
    return b"".join(map(_length_prefixed, fields)) + text.encode("utf-8", "surrogatepass")


class KeyMaker:
    """Turns sentences into 128-bit keys: MurmurHash3 x64-128 of `encode_sentence` under a fixed seed.

    Args:
        normalise: normalisation of texts before hashing; see `NORMALISERS`
        hash_seed: seed from 0 to 2^32 - 1
        kernels: compiled passes (`pipelines.dedup.kernels.compiled`), which change no key; None for mmh3
    """

    def __init__(self, normalise: Normalise, hash_seed: int, kernels: ModuleType | None = None) -> None:
        self._kernels = kernels
        self._normaliser = None if normalise == "none" else NORMALISERS[normalise]
        self._seed = hash_seed

    def key(self, text: str, *fields: str | None) -> tuple[int, int]:
        """Returns the (high, low) 64-bit halves of a sentence's key, both unsigned (`encode_sentence`)."""
        text = text if self._normaliser is None else self._normaliser(text)
        low, high = mmh3.mmh3_x64_128_utupledigest(encode_sentence(text, *fields), self._seed)
        return high, low

    def key_arrays(
        self, texts: pa.Array, fields: Sequence[pa.Array], in_scope: BoolArray
    ) -> tuple[UInt64Array, UInt64Array]:
        """Computes `key` for many sentences, from columns of equal length to arrays.

        A row out of scope gets the key (0, 0), which is never read. So a change of a held-out text does not change the
        keys' bytes, and deduplication does not run again.

        Args:
            texts: strings without nulls, shape (rows,)
            fields: columns speaker, domain and label, and owner if text of different owners never counts as equal;
                strings or dictionary arrays of strings, with nulls
            in_scope: rows to compute keys for, bool, shape (rows,)
        """
        return self._keys(texts, *_prefixes(fields, len(texts)), in_scope)

    def text_keys(self, texts: pa.Array, in_scope: BoolArray) -> tuple[UInt64Array, UInt64Array]:
        """Computes keys of the texts alone, without speaker, domain and label (shape (rows,))."""
        nobody = np.zeros(len(texts), dtype=np.int64)
        return self._keys(texts, [encode_sentence("", None, None, None)], nobody, in_scope)

    def _keys(
        self, texts: pa.Array, prefixes: Sequence[bytes], prefix_of: npt.NDArray[np.int64], in_scope: BoolArray
    ) -> tuple[UInt64Array, UInt64Array]:
        if self._normaliser is not None:
            texts = pa.array([self._normaliser(text) for text in texts.to_pylist()], pa.string())
        if self._kernels is None:
            return self._digests(texts, prefixes, prefix_of, in_scope)
        prefix_offsets = np.cumsum([0, *map(len, prefixes)], dtype=np.int64)
        high, low = np.empty(len(texts), dtype=np.uint64), np.empty(len(texts), dtype=np.uint64)
        data, offsets = _buffers(texts)
        joined = np.frombuffer(b"".join(prefixes), dtype=np.uint8)
        seed = np.uint64(self._seed)
        self._kernels.hash_rows(data, offsets, joined, prefix_offsets, prefix_of, in_scope, seed, high, low)
        return high, low

    def _digests(
        self, texts: pa.Array, prefixes: Sequence[bytes], prefix_of: npt.NDArray[np.int64], in_scope: BoolArray
    ) -> tuple[UInt64Array, UInt64Array]:
        """Computes `_keys` by mmh3, with a call for each row."""
        digest, seed = mmh3.mmh3_x64_128_digest, self._seed
        # Arrow converts to bytes twice as fast as to strings, which would have to be encoded again.
        rows = texts.cast(pa.binary()).to_numpy(zero_copy_only=False)
        if len(prefixes) == 1:
            prefix = prefixes[0]
            joined = b"".join([digest(prefix + text, seed) for text in rows])
        else:
            joined = b"".join(
                [digest(prefixes[n] + text, seed) for n, text in zip(prefix_of.tolist(), rows, strict=True)]
            )
        halves = np.frombuffer(joined, dtype="<u8").reshape(-1, 2).astype(np.uint64)
        halves[~in_scope] = 0
        return halves[:, 1].copy(), halves[:, 0].copy()


class DocumentKeys:
    """Makes keys of whole documents, a hash of the keys of their sentences in order.

    Rows of one document must follow each other, in any number of batches.
    """

    def __init__(self) -> None:
        self._name: str | None = None
        self._hasher = mmh3.mmh3_x64_128()
        self._num_rows = 0
        self._found: list[tuple[int, int, int]] = []

    def add(self, doc_ids: pa.Array, high: UInt64Array, low: UInt64Array) -> None:
        """Takes the next rows: their documents and the keys of their sentences, shape (rows,)."""
        encoded = doc_ids.dictionary_encode()
        which = encoded.indices.to_numpy()
        names = encoded.dictionary.to_pylist()
        starts = np.flatnonzero(np.diff(which, prepend=-1))
        data = np.column_stack([high, low]).astype("<u8")
        for start, end in zip(starts, np.append(starts[1:], len(which)), strict=True):
            name = names[which[start]]
            if name != self._name:
                self._close()
                self._name = name
            self._hasher.update(data[start:end].tobytes())
            self._num_rows += int(end - start)

    def _close(self) -> None:
        if self._num_rows:
            first, second = self._hasher.utupledigest()
            self._found.append((self._num_rows, second, first))
        self._hasher = mmh3.mmh3_x64_128()
        self._num_rows = 0

    def finish(self) -> tuple[npt.NDArray[np.int64], UInt64Array, UInt64Array]:
        """Returns the number of rows (int64) and the high and low halves of the key of each document."""
        self._close()
        counts = np.array([found[0] for found in self._found], dtype=np.int64)
        high = np.array([found[1] for found in self._found], dtype=np.uint64)
        low = np.array([found[2] for found in self._found], dtype=np.uint64)
        return counts, high, low


def place_keys(high: UInt64Array, low: UInt64Array, at: npt.NDArray[np.int64]) -> tuple[UInt64Array, UInt64Array]:
    """Computes keys of the ``at``-th sentences (from 0) of documents with these keys, all of shape (rows,).

    Two rows have equal keys if the documents' keys and the places are equal, and otherwise only by chance: for equal
    places, both halves are bijections of the document's key.
    """
    step = at.astype(np.uint64) + np.uint64(1)
    return mix(high + step), mix(low ^ mix(step))


def _buffers(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Returns the bytes of an array of strings, and the start of each string (int64, one more than strings)."""
    _, starts, data = texts.buffers()
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    offsets = np.frombuffer(starts or bytes(8), dtype=width)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data or b"", dtype=np.uint8), offsets.astype(np.int64)


def _prefixes(fields: Sequence[pa.Array], num_rows: int) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    """Returns the distinct encodings of the fields, and the number of each row's encoding (int64)."""
    which, size = np.zeros(num_rows, dtype=np.int64), 1
    columns: list[tuple[list[str | None], npt.NDArray[np.int32]]] = []
    for column in fields:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        values = [*encoded.dictionary.to_pylist(), None]
        indices = encoded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
        if size * len(values) > _MAX_CODE:
            which, size = np.unique(which, return_inverse=True)[1], num_rows
        which, size = which * len(values) + indices, size * len(values)
        columns.append((values, indices))
    present, prefix_of = np.unique(which, return_inverse=True)
    row_of = np.empty(len(present), dtype=np.int64)
    row_of[prefix_of] = np.arange(num_rows)
    prefixes = [encode_sentence("", *(values[indices[row]] for values, indices in columns)) for row in row_of.tolist()]
    return prefixes, prefix_of.astype(np.int64)
