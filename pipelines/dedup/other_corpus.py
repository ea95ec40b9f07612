"""Another corpus, whose sentences or documents are masked in this one, as keys of their text alone.

Keys leave out speaker, domain and label, because another corpus has others or none. To compare text, both corpora must
be split into sentences in the same way, so both pass through the same splitter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipelines.corpus.items import EMPTY, Document, Rejected
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.dedup.against import is_filter, of_other
from pipelines.dedup.bloom import BoolArray, ScalableBloomFilter, UInt64Array
from pipelines.dedup.filters import load_filter
from pipelines.dedup.index import KeyIndex
from pipelines.dedup.keys import DocumentKeys, KeyMaker
from pipelines.dedup.stability import Unit
from pipelines.errors import ConfigError, InputError

if TYPE_CHECKING:  # spaCy is slow to import
    from pipelines.corpus.split import Splitter

_BATCH_DOCUMENTS = 256
_PARTITION_DOCUMENTS = 100_000
_NAMES = b"another corpus"  # in place of a store's secret: the partitions' names are not used


@dataclass
class ReadCounts:
    """Counts of reading the other corpus."""

    num_documents: int = 0
    num_rows: int = 0
    num_rejected: int = 0

    def check(self, max_rejected_fraction: float) -> None:
        """Refuses a corpus with too many unreadable rows, because their text would not be masked.

        Raises:
            InputError: more than this share of its rows was rejected.
        """
        num_rows = self.num_rows + self.num_rejected
        if self.num_rejected > max_rejected_fraction * num_rows:
            raise InputError(
                f"dedup.against: {self.num_rejected} rows of {num_rows} cannot be used, more than"
                f" corpus.max_rejected_fraction = {max_rejected_fraction:g}; what they hold would not be masked. Check"
                " the files and the names of their fields, or raise the limit."
            )


def read_keys(
    given: Sequence[str],
    options: ReadOptions,
    splitter: Splitter,
    maker: KeyMaker,
    unit: Unit,
    counts: ReadCounts,
    progress: Callable[[int], None],
) -> Iterator[tuple[UInt64Array, UInt64Array]]:
    """Yields the keys of another corpus, in batches of bounded size.

    Args:
        given: absolute paths of files and folders, and patterns; formats go by suffix
        options: options of reading documents, the same as for the corpus itself
        splitter: splitter of documents into sentences, the same as for the corpus itself
        maker: maker of keys, with the same settings as for the corpus itself
        unit: unit of a key, sentence or document
        counts: counts, complete when the iterator ends
        progress: function that is called with the number of documents read

    Raises:
        InputError: a file is missing or cannot be read.
    """

    def documents() -> Iterator[Document]:
        try:
            partitions = scan(
                given, base_dir=Path("/"), options=options, partition_documents=_PARTITION_DOCUMENTS, secret=_NAMES
            )
            for piece in (piece for partition in partitions for piece in partition.pieces):
                for item in read_documents(piece, options):
                    if isinstance(item, Document):
                        counts.num_documents += 1
                        counts.num_rows += item.num_rows
                        yield item
                    elif isinstance(item, Rejected) and item.reason != EMPTY:
                        counts.num_rejected += 1
        except InputError as error:
            raise of_other(error) from None

    texts: list[str] = []
    names: list[str] = []
    split = splitter.split_each(documents(), lambda item: (item.text, item.turns or item.layout))
    for number, (_, sentences) in enumerate(split, start=1):
        texts += [sentence.text for sentence in sentences]
        names += [str(number)] * len(sentences)
        if number % _BATCH_DOCUMENTS == 0:
            yield _keys(texts, names, maker, unit)
            texts, names = [], []
            progress(counts.num_documents)
    yield _keys(texts, names, maker, unit)


def _keys(texts: list[str], names: list[str], maker: KeyMaker, unit: Unit) -> tuple[UInt64Array, UInt64Array]:
    high, low = maker.text_keys(pa.array(texts, pa.string()), np.ones(len(texts), dtype=np.bool_))
    if unit == "sentence":
        return high, low
    documents = DocumentKeys()
    documents.add(pa.array(names, pa.string()), high, low)
    _, high, low = documents.finish()
    return high, low


class OtherCorpus:
    """The keys of another corpus: exact for text files, with a filter's own error rate for saved filters.

    Args:
        index: keys of all text files
        filters: saved filters
    """

    def __init__(self, index: KeyIndex, filters: Sequence[ScalableBloomFilter]) -> None:
        self._index = index
        self._filters = filters

    @classmethod
    def open(
        cls,
        given: Sequence[str],
        scheme: dict[str, Any],
        read: Callable[[Sequence[str]], Iterator[tuple[UInt64Array, UInt64Array]]],
        kernels: ModuleType | None,
    ) -> OtherCorpus:
        """Reads the text files and saved filters that ``dedup.against`` names.

        Args:
            given: paths and patterns; see `data_files`
            scheme: scheme of the keys, which saved filters must share
            read: function that yields the keys of text files among ``given``
            kernels: compiled passes; see `BloomFilter`

        Raises:
            InputError, ConfigError: `load_filter` or `read_keys` failed.
        """
        filters = []
        for number, path in enumerate(given, start=1):
            if is_filter(path):
                try:
                    filters.append(load_filter(Path(path), scheme, kernels))
                except (InputError, ConfigError) as error:
                    text = str(error).replace("dedup.against:", f"dedup.against, entry {number}:", 1)
                    raise type(error)(text) from None
        corpora = [path for path in given if not is_filter(path)]
        parts = list(read(corpora)) if corpora else []
        nothing = np.empty(0, dtype=np.uint64)
        high = np.concatenate([nothing, *(part[0] for part in parts)])
        low = np.concatenate([nothing, *(part[1] for part in parts)])
        return cls(KeyIndex(high, low), filters)

    def contains(self, high: UInt64Array, low: UInt64Array) -> BoolArray:
        """Checks if each key is in the other corpus (shape (keys,)). Never False by mistake."""
        found: BoolArray = self._index.find(high, low) >= 0
        for bloom in self._filters:
            found |= bloom.contains(high, low)
        return found
