"""The ring of keys and where the store key comes from: a wrong key opens nothing, and no message quotes one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.encryption.ring import KeyRing, WrongKeyError, new_ring, open_ring
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, StoreError

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


def test_a_ring_is_opened_by_its_key_alone() -> None:
    ring = new_ring().renewed()
    document = json.loads(json.dumps(ring.wrapped(KEY)))
    assert open_ring(document, KEY) == ring
    with pytest.raises(WrongKeyError, match="not the one that encrypts this store") as caught:
        open_ring(document, OTHER)
    assert caught.value.exit_code == 2
    for secret in (KEY, *ring.keys.values()):
        assert secret.hex() not in json.dumps(document)
        assert secret.hex() not in repr(ring)
        assert repr(secret) not in repr(ring)


def test_a_changed_ring_is_refused() -> None:
    ring = new_ring().renewed()
    document = ring.wrapped(KEY)
    first, second = document["keys"]
    swapped = {first: document["keys"][second], second: document["keys"][first]}
    with pytest.raises(WrongKeyError):
        open_ring(document | {"keys": swapped}, KEY)
    wrong: list[Any] = [
        None,
        [],
        {},
        document | {"keys": {}},
        document | {"current": "00"},
        document | {"keys": {"x": 1}},
    ]
    for damaged in wrong:
        with pytest.raises(StoreError, match="damaged"):
            open_ring(damaged, KEY)
    with pytest.raises(StoreError, match="layout 2"):
        open_ring(document | {"schema_version": 2}, KEY)


def test_a_renewed_ring_seals_with_a_fresh_key_and_keeps_the_old() -> None:
    ring = new_ring()
    renewed = ring.renewed()
    assert renewed.current != ring.current
    assert renewed.file_key(ring.current, b"salt") == ring.file_key(ring.current, b"salt")
    assert renewed.file_key(renewed.current, b"salt") != ring.file_key(ring.current, b"salt")
    assert renewed.only_current() == KeyRing({renewed.current: renewed.keys[renewed.current]}, renewed.current)


def sources(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> list[KeySource]:
    (folder / "key").write_text(text)
    monkeypatch.setenv("STORE_KEY_OF_TEST", text)
    command = (sys.executable, "-c", "import sys; sys.stdout.write(open(sys.argv[1]).read())", str(folder / "key"))
    return [KeySource(file=str(folder / "key")), KeySource(command=command), KeySource(env="STORE_KEY_OF_TEST")]


def test_a_key_is_read_from_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in sources(tmp_path, f"\n{KEY.hex().upper()}\n", monkeypatch):
        assert source.read() == KEY


@pytest.mark.parametrize("text", ["", KEY.hex()[:-1], KEY.hex() + "0", "correct horse battery staple", "zz" * 32])
def test_what_is_no_key_is_refused_and_not_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    for source in sources(tmp_path, text, monkeypatch):
        with pytest.raises(ConfigError, match="is not a store key") as caught:
            source.read()
        assert not text or text not in str(caught.value)


def test_a_missing_key_says_what_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORE_KEY_OF_TEST", raising=False)
    failing = (sys.executable, "-c", "print('5e' * 32); raise SystemExit(1)")
    for source in (
        KeySource(file=str(tmp_path / "none")), KeySource(command=("no such program",)), KeySource(command=failing),
        KeySource(env="STORE_KEY_OF_TEST"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="Nobody can read this store without it"):
            source.read()
