"""Saved Bloom filters: a line that names the format, a header in JSON, then the bits.

The header describes the keys and the size of each part of the chain. So a filter is never asked with keys of another
kind (every answer would be no), and damage is found before an answer is given.

A saved filter is private: anybody who holds it can test guesses of the text against it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pipelines.dedup.against import SUFFIX
from pipelines.dedup.bloom import ScalableBloomFilter
from pipelines.errors import ConfigError, InputError
from pipelines.files import write_atomic

MAGIC = b"RETICENT BLOOM FILTER\n"
VERSION = 3
HASH = "murmurhash3-x64-128, splitmix64 positions in blocks of 512 bits"
_MAX_HEADER_BYTES = 1 << 20
_SIZES = ("num_bits", "num_hashes", "num_lines")


def save_filter(path: Path, bloom: ScalableBloomFilter, scheme: Mapping[str, Any]) -> None:
    """Writes a filter, readable by its owner only. The same filter gives the same bytes.

    Args:
        path: file to write or replace
        bloom: filter to save
        scheme: everything that a key depends on except the text, as JSON values
    """
    payload = hashlib.sha256()
    for part in bloom.filters:
        payload.update(part.words.astype("<u8", copy=False).data)
    header = {
        "version": VERSION,
        "hash": HASH,
        "scheme": dict(scheme),
        "expected_items": bloom.expected_items,
        "false_positive_rate": bloom.false_positive_rate,
        "filters": [
            {"num_items": part.num_items, **{name: getattr(part, name) for name in _SIZES}} for part in bloom.filters
        ],
        "sha256": payload.hexdigest(),
    }
    text = json.dumps(header, sort_keys=True).encode() + b"\n"
    write_atomic(path, MAGIC + text, *(part.words.astype("<u8", copy=False).data for part in bloom.filters))


def load_filter(path: Path, scheme: Mapping[str, Any], kernels: ModuleType | None = None) -> ScalableBloomFilter:
    """Reads a filter that `save_filter` wrote.

    Args:
        path: file of the filter
        scheme: scheme of the keys that will be asked for; see `save_filter`
        kernels: compiled passes; see `BloomFilter`

    Raises:
        InputError: the file cannot be read, is not a filter, has another version, or is damaged.
        ConfigError: the filter was made for other keys. The message names the settings that differ.
    """
    try:
        with path.open("rb") as file:
            return _read(file, scheme, kernels)
    except OSError as error:
        raise InputError(
            f"dedup.against: a saved filter cannot be read ({os.strerror(error.errno or 0)}). Check its path and mode."
        ) from None


def _read(file: io.BufferedReader, scheme: Mapping[str, Any], kernels: ModuleType | None) -> ScalableBloomFilter:
    if file.read(len(MAGIC)) != MAGIC:
        raise InputError(
            f"dedup.against: a file named *{SUFFIX} is not a saved filter. Write one with `reticent dedup-filter`."
        )
    try:
        header = json.loads(file.readline(_MAX_HEADER_BYTES))
        version, hashed = header["version"], header["hash"]
    except (ValueError, KeyError, TypeError):
        raise _damaged() from None
    if (version, hashed) != (VERSION, HASH):
        raise InputError(
            f"dedup.against: a saved filter has version {version!s:.40} with hash {hashed!s:.60}; this program reads"
            f" version {VERSION} with {HASH}. Write it again with `reticent dedup-filter`."
        )
    try:
        found: dict[str, Any] = dict(header["scheme"])
        bloom = ScalableBloomFilter(int(header["expected_items"]), float(header["false_positive_rate"]), kernels)
        sizes = [tuple(int(part[name]) for name in _SIZES) for part in header["filters"]]
        num_items = [int(part["num_items"]) for part in header["filters"]]
        digest = str(header["sha256"])
    except (ValueError, KeyError, TypeError, OverflowError, MemoryError):  # an altered size may have any value
        raise _damaged() from None
    different = sorted(name for name in {*found, *scheme} if found.get(name) != scheme.get(name))
    if different:
        shown = ", ".join(f"{name} ({found.get(name)!s:.40}, here {scheme.get(name)!s:.40})" for name in different)
        raise ConfigError(
            f"dedup.against: a saved filter was made with other settings: {shown}. Use the same ones, or write it"
            " again with `reticent dedup-filter`."
        )
    if not sizes or min(num_items) < 0:
        raise _damaged()
    bloom.grow_to(len(sizes))
    if [tuple(getattr(part, name) for name in _SIZES) for part in bloom.filters] != sizes:
        raise _damaged()  # the sizes follow from the rate and the items, so one of them was altered
    payload = hashlib.sha256()
    for part, count in zip(bloom.filters, num_items, strict=True):
        if file.readinto(part.words.data) != part.words.nbytes:
            raise _damaged()
        payload.update(part.words.data)
        part.words[:] = part.words.view("<u8")
        part.num_items = count
    if file.read(1) or payload.hexdigest() != digest:
        raise _damaged()
    return bloom


def _damaged() -> InputError:
    return InputError(
        "dedup.against: a saved filter is damaged. Copy it again, or write it again with `reticent dedup-filter`."
    )
