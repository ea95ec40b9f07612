"""Saved filters: the same answers after loading, and no answer from a file that is anything else."""

import json

import numpy as np
import pytest

from pipelines.dedup.bloom import ScalableBloomFilter
from pipelines.dedup.filters import MAGIC, load_filter, save_filter
from pipelines.errors import ConfigError, InputError

SCHEME = {"dedup.unit": "sentence", "dedup.hash_seed": 7}


def keys(seed, size):
    return np.random.default_rng(seed).integers(0, 2**64, (2, size), dtype=np.uint64)


@pytest.fixture
def saved(tmp_path):
    bloom = ScalableBloomFilter(100, 1e-3)
    bloom.add_and_test(*keys(1, 1_000))
    assert len(bloom.filters) > 2
    path = tmp_path / "x.bloom"
    save_filter(path, bloom, SCHEME)
    return bloom, path


def rewrite(path, **changes):
    magic, header, payload = path.read_bytes().split(b"\n", 2)
    document = {**json.loads(header), **changes}
    path.write_bytes(magic + b"\n" + json.dumps(document, sort_keys=True).encode() + b"\n" + payload)


def test_a_loaded_filter_answers_and_grows_as_the_saved_one(saved):
    bloom, path = saved
    loaded = load_filter(path, SCHEME)
    assert loaded.num_items == bloom.num_items
    assert loaded.contains(*keys(1, 1_000)).all()
    for asked in (keys(2, 50_000), keys(1, 1_000)):
        np.testing.assert_array_equal(loaded.contains(*asked), bloom.contains(*asked))
    np.testing.assert_array_equal(loaded.add_and_test(*keys(3, 5_000)), bloom.add_and_test(*keys(3, 5_000)))


def test_the_same_filter_gives_the_same_bytes_that_only_the_owner_reads(saved, tmp_path):
    bloom, path = saved
    save_filter(tmp_path / "y.bloom", bloom, dict(reversed(SCHEME.items())))
    assert (tmp_path / "y.bloom").read_bytes() == path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.bloom", "y.bloom"]


def test_header_says_what_the_file_is(saved):
    _, path = saved
    assert path.read_bytes().startswith(MAGIC)
    header = json.loads(path.read_bytes().split(b"\n")[1])
    assert header["version"] == 3
    assert header["hash"] == "murmurhash3-x64-128, splitmix64 positions in blocks of 512 bits"
    assert header["scheme"] == SCHEME
    assert header["filters"][0].keys() == {"num_bits", "num_hashes", "num_lines", "num_items"}


def test_other_settings_are_refused_by_name(saved):
    _, path = saved
    with pytest.raises(ConfigError, match=r"dedup\.hash_seed \(7, here 8\)"):
        load_filter(path, {**SCHEME, "dedup.hash_seed": 8})
    with pytest.raises(ConfigError, match=r"split\.mode"):
        load_filter(path, {**SCHEME, "split.mode": "rules"})


@pytest.mark.parametrize("changes", [{"version": 2}, {"hash": "md5"}])
def test_other_versions_and_hashes_are_refused(saved, changes):
    _, path = saved
    rewrite(path, **changes)
    with pytest.raises(InputError, match="reads version 3"):
        load_filter(path, SCHEME)


@pytest.mark.parametrize(
    "changes",
    [
        {"expected_items": 101},
        {"expected_items": 10**15},
        {"expected_items": float("inf")},
        {"false_positive_rate": 2e-3},
        {"false_positive_rate": 0.9},
        {"filters": []},
        {"filters": [{"num_bits": 8}]},
        {"sha256": "0" * 64},
        {"scheme": None},
    ],
)
def test_an_altered_header_is_damage(saved, changes):
    _, path = saved
    rewrite(path, **changes)
    with pytest.raises(InputError, match="damaged"):
        load_filter(path, SCHEME)


def test_every_damaged_byte_and_every_cut_is_found(saved):
    _, path = saved
    data = path.read_bytes()
    for at in np.random.default_rng(4).integers(0, len(data), 200).tolist():
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises((InputError, ConfigError)):
            load_filter(path, SCHEME)
        path.write_bytes(data[:at])
        with pytest.raises((InputError, ConfigError)):
            load_filter(path, SCHEME)
    path.write_bytes(data + b"x")
    with pytest.raises(InputError, match="damaged"):
        load_filter(path, SCHEME)


def test_what_is_no_filter_or_missing_is_refused_without_its_name(tmp_path):
    path = tmp_path / "john smith.bloom"
    with pytest.raises(InputError, match="cannot be read") as error:
        load_filter(path, SCHEME)
    assert "john" not in str(error.value)
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not a saved filter"):
        load_filter(path, SCHEME)
