"""``reticent dedup-filter``: saves another corpus as a Bloom filter, for ``dedup.against``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.corpus.split import Splitter
from pipelines.dedup.against import SUFFIX, is_filter
from pipelines.dedup.bloom import ScalableBloomFilter
from pipelines.dedup.filters import save_filter
from pipelines.dedup.keys import KeyMaker
from pipelines.dedup.other_corpus import ReadCounts, read_keys
from pipelines.errors import ConfigError, InputError
from pipelines.settings.loading import load_settings


def write_filter(config: Path, environ: Mapping[str, str], inputs: Sequence[str], out: Path) -> dict[str, Any]:
    """Reads text files with the settings of the corpus, and saves their keys.

    ``[split]`` and ``[dedup]`` must equal those of the runs that use the filter.

    Raises:
        ConfigError: ``out`` has another suffix.
        InputError: an input cannot be read, too many of its rows were rejected, or ``out`` cannot be written.
    """

    if not is_filter(out.name):
        raise ConfigError(f"--out must end in {SUFFIX}, so that dedup.against recognises the filter")
    stages = load_settings(config, environ).stages
    corpus: Any = stages["corpus"]
    split: Any = stages["split"]
    dedup: Any = stages["dedup"]
    bloom = ScalableBloomFilter(dedup.expected_items, dedup.false_positive_rate)
    counts = ReadCounts()
    try:
        for high, low in read_keys(
            [str(Path(given).absolute()) for given in inputs],
            corpus.other_options(),
            Splitter(split.language, split.mode, split.max_sentence_tokens, split.model, split.cut_fields),
            KeyMaker(dedup.normalise, dedup.hash_seed),
            dedup.unit,
            counts,
            lambda _: None,
        ):
            bloom.add_and_test(high, low)
        counts.check(corpus.max_rejected_fraction)
    except InputError as error:
        raise InputError(str(error).replace("dedup.against", "dedup-filter")) from None
    try:
        save_filter(out, bloom, dedup.key_scheme(split))
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({os.strerror(error.errno or 0)}).") from None
    return {
        "path": str(out),
        "unit": dedup.unit,
        "num_documents": counts.num_documents,
        "num_rejected": counts.num_rejected,
        "num_items": bloom.num_items,
        "num_bits": bloom.num_bits,
        "false_positive_rate": bloom.false_positive_rate,
    }


def filter_text(document: Mapping[str, Any]) -> str:
    """Formats the document for people."""
    return (
        f"wrote {document['path']}: {document['num_items']:,} {document['unit']}s of {document['num_documents']:,}"
        f" documents ({document['num_rejected']:,} rejected), {document['num_bits'] / 8e6:.1f} MB"
    )
