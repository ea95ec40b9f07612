"""Sealed files: what is written is read, from any place; whatever is done to one is noticed; AES-GCM by hand agrees."""

from __future__ import annotations

import io
import os
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.encryption.places import Place, reading, writing
from pipelines.encryption.ring import KeyRing, new_ring
from pipelines.encryption.sealed import CHUNK_BYTES, HEADER_BYTES, frames, new_header, plain_bytes, sealed_frame
from pipelines.errors import DamagedFileError

RING = new_ring()
PLACE = Place(RING)
SEALED_CHUNK = CHUNK_BYTES + 16
SIZES = st.builds(
    lambda chunks, more: max(0, chunks * CHUNK_BYTES + more),
    st.integers(0, 3),
    st.integers(-2, 2) | st.integers(3, 900),
)


def content(size: int) -> bytes:
    return (bytes(range(256)) * (size // 256 + 1))[:size]


def seal(path: Path, data: bytes, cuts: tuple[int, ...] = ()) -> bytes:
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    with path.open("wb") as file, writing(file, PLACE) as sealed:
        for start, end in pairwise(borders):
            sealed.write(data[start:end])
        assert sealed.tell() == len(data)
    return path.read_bytes()


def unseal(path: Path, place: Place = PLACE) -> bytes:
    with reading(path.open("rb"), place) as file:
        return file.read()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sealed") / "file"


@settings(max_examples=60, deadline=None)
@given(size=SIZES, cuts=st.lists(st.integers(0, 3 * CHUNK_BYTES), max_size=4), data=st.data())
def test_what_is_written_is_read_from_any_place(path: Path, size: int, cuts: list[int], data: st.DataObject) -> None:
    plain = content(size)
    raw = seal(path, plain, tuple(cuts))
    assert plain_bytes(len(raw)) == size
    assert size < 16 or plain[:16] not in raw
    with reading(path.open("rb"), PLACE) as file:
        assert file.read() == plain
        model = io.BytesIO(plain)
        for _ in range(6):
            at, length = data.draw(st.integers(0, size + 10)), data.draw(st.integers(0, 2 * CHUNK_BYTES))
            assert (file.seek(at), model.seek(at)) == (at, at)
            assert file.read(length) == model.read(length)
            assert file.tell() == model.tell()
        assert file.seek(0, os.SEEK_END) == size


@settings(max_examples=20, deadline=None)
@given(size=SIZES)
def test_aes_gcm_by_hand_reads_the_same(path: Path, size: int) -> None:
    """The oracle: header, HKDF-SHA256 over its salt, and per chunk a nonce of number and last flag."""
    plain = content(size)
    raw = seal(path, plain)
    header, body = raw[:64], raw[64:]
    assert header[:18] == b"reticent-sealed\n\x01\x01"
    key = HKDF(SHA256(), 32, header[26:], b"reticent sealed file").derive(RING.keys[header[18:26]])
    chunks = [body[at : at + 65_552] for at in range(0, len(body), 65_552)]
    found = b""
    for number, chunk in enumerate(chunks):
        nonce = number.to_bytes(11, "big") + (b"\1" if number == len(chunks) - 1 else b"\0")
        found += AESGCM(key).decrypt(nonce, chunk, header)
    assert found == plain


def changes(raw: bytes) -> dict[str, bytes]:
    """What may be done to a file of three chunks."""
    head, body = raw[:HEADER_BYTES], raw[HEADER_BYTES:]
    one, two, three = body[:SEALED_CHUNK], body[SEALED_CHUNK : 2 * SEALED_CHUNK], body[2 * SEALED_CHUNK :]
    return {
        "last chunk cut off": head + one + two,
        "first chunk cut off": head + two + three,
        "chunks swapped": head + two + one + three,
        "chunk repeated": head + one + two + two + three,
        "chunk in the place of another": head + one + one + three,
        "longer": raw + b"\0",
        "longer by a tag": raw + bytes(16),
        "no chunk": head,
        "half a header": head[:30],
        "empty": b"",
        "plain": b"text that somebody put there" * 9,
    }


@pytest.mark.parametrize("change", sorted(changes(bytes(300_000))))
def test_chunks_cannot_be_cut_moved_or_repeated(path: Path, change: str) -> None:
    raw = seal(path, content(2 * CHUNK_BYTES + 77))
    path.write_bytes(changes(raw)[change])
    with pytest.raises(DamagedFileError):
        unseal(path)
    path.write_bytes(raw)
    assert len(unseal(path)) == 2 * CHUNK_BYTES + 77


@settings(max_examples=60, deadline=None)
@given(size=SIZES, data=st.data())
def test_any_flipped_or_missing_byte_is_noticed(path: Path, size: int, data: st.DataObject) -> None:
    raw = bytearray(seal(path, content(size)))
    at = data.draw(st.integers(0, len(raw) - 1) | st.integers(0, HEADER_BYTES + 20))
    at = min(at, len(raw) - 1)
    if data.draw(st.booleans()):
        raw[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del raw[at : at + data.draw(st.integers(1, 2 * SEALED_CHUNK))]
    path.write_bytes(raw)
    with pytest.raises(DamagedFileError):
        unseal(path)


def test_no_chunk_of_another_file_is_taken(path: Path) -> None:
    one, two = seal(path, content(900)), seal(path, content(900))
    assert one[HEADER_BYTES:] != two[HEADER_BYTES:]  # the same text, another salt
    path.write_bytes(one[:HEADER_BYTES] + two[HEADER_BYTES:])
    with pytest.raises(DamagedFileError):
        unseal(path)


def test_another_ring_reads_nothing_and_an_older_key_reads_on(path: Path) -> None:
    seal(path, b"secret")
    with pytest.raises(DamagedFileError):
        unseal(path, Place(new_ring()))
    same_id = KeyRing({RING.current: bytes(32)}, RING.current)
    with pytest.raises(DamagedFileError):
        unseal(path, Place(same_id))
    assert unseal(path, Place(RING.renewed())) == b"secret"


def test_a_file_that_cannot_be_read_is_closed(path: Path) -> None:
    path.write_bytes(b"plain")
    opened = path.open("rb")
    with pytest.raises(DamagedFileError):
        reading(opened, PLACE)
    assert opened.closed


def write_log(path: Path, lines: list[bytes]) -> tuple[bytes, list[int]]:
    header = new_header(RING, "log")
    parts = [sealed_frame(header, RING, number, line) for number, line in enumerate(lines)]
    path.write_bytes(header + b"".join(parts))
    ends = [HEADER_BYTES]
    for part in parts:
        ends.append(ends[-1] + len(part))
    return path.read_bytes(), ends


@settings(max_examples=40, deadline=None)
@given(lines=st.lists(st.binary(max_size=60), min_size=1, max_size=5), data=st.data())
def test_a_log_keeps_whole_frames_and_notices_changed_ones(path: Path, lines: list[bytes], data: st.DataObject) -> None:
    raw, ends = write_log(path, lines)
    assert unseal(path) == b"".join(lines)
    with path.open("rb") as file:
        assert [end for _, end in frames(file.fileno())] == ends[1:]
    cut = data.draw(st.integers(HEADER_BYTES, len(raw)))  # what a kill leaves
    path.write_bytes(raw[:cut])
    assert unseal(path) == b"".join(lines[: sum(end <= cut for end in ends) - 1])
    at = data.draw(st.integers(0, len(raw) - 1))
    path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
    with pytest.raises(DamagedFileError):
        unseal(path)
    path.write_bytes(raw + bytes(700))  # what a power cut may leave
    assert unseal(path) == b"".join(lines)


def test_frames_keep_their_places(path: Path) -> None:
    raw, ends = write_log(path, [b"one", b"two", b"six"])
    one, two, six = (raw[start:end] for start, end in pairwise(ends))
    for changed in (two + one + six, one + one + six, two + six, one + six):
        path.write_bytes(raw[:HEADER_BYTES] + changed)
        with pytest.raises(DamagedFileError):
            unseal(path)
