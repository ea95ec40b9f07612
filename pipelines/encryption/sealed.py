"""Sealed files: encrypted and authenticated in chunks, so that they can be read from any place in bounded memory.

A file is a header and chunks of AES-256-GCM, as in Tink's AES-GCM-HKDF-STREAMING, which is the construction STREAM of
Hoang, Reyhanitabar, Rogaway and Vizár, "Online Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance"
(CRYPTO 2015). Each file has its own key, derived by HKDF-SHA256 (RFC 5869) from a key of the ring and the file's random
salt. A chunk's nonce consists of its number and a flag for the last chunk. The header is authenticated with each chunk.
So no chunk can be changed, cut off, moved, repeated, or put into another file without notice. A whole file can be
replaced by an older or another file: digests in manifests, seals and the chain of the ledger detect that.

A log is a header and frames, one for each append. A frame has a random nonce, because a frame that a kill cut short is
written again at the same place. The frame's number is authenticated. Frames cut off at the end are not noticed here,
just as lines are not.
"""

from __future__ import annotations

import io
import os
import secrets
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import BinaryIO, Final, Literal, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pipelines.errors import DamagedFileError

CHUNK_BYTES: Final = 1 << 16
"""Bytes of plaintext in a chunk."""
TAG_BYTES: Final = 16
KEY_ID_BYTES: Final = 8
HEADER_BYTES: Final = 64
MAGIC: Final = b"reticent-sealed\n"
_VERSION: Final = 1
_KINDS: Final = {"file": 1, "log": 2}
_SALT_BYTES: Final = HEADER_BYTES - len(MAGIC) - 2 - KEY_ID_BYTES
_NONCE_BYTES: Final = 12
_LENGTH_BYTES: Final = 4
_SEALED_CHUNK_BYTES: Final = CHUNK_BYTES + TAG_BYTES
_CACHED_CHUNKS: Final = 16

Kind = Literal["file", "log"]


class Keys(Protocol):
    """The source of files' keys (`pipelines.encryption.ring.KeyRing`)."""

    @property
    def current(self) -> bytes:
        """Id, of `KEY_ID_BYTES`, of the key for new files."""

    def file_key(self, key_id: bytes, salt: bytes) -> bytes:
        """Returns the key of one file, 32 bytes.

        Raises:
            DamagedFileError: no key has this id.
        """


def new_header(keys: Keys, kind: Kind) -> bytes:
    """Makes the header of a new file."""
    return MAGIC + bytes([_VERSION, _KINDS[kind]]) + keys.current + secrets.token_bytes(_SALT_BYTES)


def is_sealed(start: bytes) -> bool:
    """Checks if a file with this beginning is sealed."""
    return start.startswith(MAGIC)


def kind_of(header: bytes) -> Kind:
    """Returns the kind of a file with this header.

    Raises:
        DamagedFileError: the file is not sealed, or has another version.
    """
    if len(header) != HEADER_BYTES or not is_sealed(header):
        raise DamagedFileError("a file of an encrypted store is not encrypted, or cut off in its header")
    version, kind = header[len(MAGIC)], header[len(MAGIC) + 1]
    found = {number: name for name, number in _KINDS.items()}.get(kind)
    if version != _VERSION or found is None:
        raise DamagedFileError(f"a file of an encrypted store has format {version}; this program reads {_VERSION}")
    return "file" if found == "file" else "log"


def cipher_of(header: bytes, keys: Keys) -> AESGCM:
    """Returns the cipher of the file with this header.

    Raises:
        DamagedFileError: the file was sealed with a key that is not in the ring.
    """
    return AESGCM(keys.file_key(key_id_of(header), header[-_SALT_BYTES:]))


def key_id_of(header: bytes) -> bytes:
    """Returns the id of the key that sealed the file with this header. Raises the errors of `kind_of`."""
    kind_of(header)
    start = len(MAGIC) + 2
    return header[start : start + KEY_ID_BYTES]


def nonce_of(number: int, *, is_last: bool) -> bytes:
    """Returns the nonce of a chunk. Chunks count from 0."""
    return number.to_bytes(_NONCE_BYTES - 1, "big") + bytes([is_last])


def plain_bytes(sealed_bytes: int) -> int:
    """Computes the size of the plaintext in a sealed file (not a log) of this size.

    Raises:
        DamagedFileError: no sealed file has this size.
    """
    body = sealed_bytes - HEADER_BYTES
    num_chunks = -(-body // _SEALED_CHUNK_BYTES)
    size = body - num_chunks * TAG_BYTES
    if num_chunks < 1 or size < 0 or (num_chunks > 1 and size <= (num_chunks - 1) * CHUNK_BYTES):
        raise DamagedFileError("a sealed file was cut off")
    return size


class SealedWriter(io.RawIOBase):
    """A stream that seals its data, from beginning to end. Holds one chunk in memory.

    Args:
        file: file for the sealed bytes
        keys: ring of keys
        closes: true to close ``file`` with this stream
    """

    def __init__(self, file: BinaryIO, keys: Keys, *, closes: bool = True) -> None:
        super().__init__()
        self._file, self._closes = file, closes
        self._header = new_header(keys, "file")
        self._cipher = cipher_of(self._header, keys)
        self._pending = bytearray()
        self._number = 0
        self._size = 0
        file.write(self._header)

    def writable(self) -> bool:
        """Returns true."""
        return True

    def tell(self) -> int:
        """Returns the number of bytes written."""
        return self._size

    def write(self, data: object) -> int:
        """Writes bytes, or any object with a buffer of bytes."""
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        self._size += len(view)
        at = 0
        while len(self._pending) + len(view) - at > CHUNK_BYTES:  # close() seals the last chunk
            end = at + CHUNK_BYTES - len(self._pending)
            self._pending += view[at:end]
            self._seal(is_last=False)
            at = end
        self._pending += view[at:]
        return len(view)

    def _seal(self, *, is_last: bool) -> None:
        nonce = nonce_of(self._number, is_last=is_last)
        self._file.write(self._cipher.encrypt(nonce, bytes(self._pending), self._header))
        self._pending.clear()
        self._number += 1

    def close(self) -> None:
        """Writes the last chunk."""
        if not self.closed:
            try:
                self._seal(is_last=True)
                self._file.flush()
            finally:
                super().close()
                if self._closes:
                    self._file.close()


class SealedReader(io.RawIOBase):
    """A stream of a sealed file's plaintext, readable from any place. Holds some chunks in memory.

    Raises:
        DamagedFileError: a chunk is damaged.
    """

    def __init__(self, file: BinaryIO, header: bytes, keys: Keys) -> None:
        super().__init__()
        self._file, self._header = file, header
        self._cipher = cipher_of(header, keys)
        self._size = plain_bytes(os.fstat(file.fileno()).st_size)
        self._last = max(0, -(-self._size // CHUNK_BYTES) - 1)
        self._at = 0
        self._chunks: OrderedDict[int, bytes] = OrderedDict()
        self._chunk(self._last)  # refuses a file at once that was cut at a chunk's border, or is longer

    def readable(self) -> bool:
        """Returns true."""
        return True

    def seekable(self) -> bool:
        """Returns true."""
        return True

    def tell(self) -> int:
        """Returns the position of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Sets the position of the next byte."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError("negative seek position")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: object) -> int:
        """Fills a buffer, up to the end of the file."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        wanted = max(0, min(len(view), self._size - self._at))
        done = 0
        while done < wanted:
            number, start = divmod(self._at, CHUNK_BYTES)
            part = memoryview(self._chunk(number))[start : start + wanted - done]
            view[done : done + len(part)] = part
            done += len(part)
            self._at += len(part)
        return done

    def _chunk(self, number: int) -> bytes:
        if number in self._chunks:
            self._chunks.move_to_end(number)
            return self._chunks[number]
        offset = HEADER_BYTES + number * _SEALED_CHUNK_BYTES
        sealed = os.pread(self._file.fileno(), _SEALED_CHUNK_BYTES, offset)
        try:
            chunk = self._cipher.decrypt(nonce_of(number, is_last=number == self._last), sealed, self._header)
        except (InvalidTag, ValueError):
            raise DamagedFileError("a sealed file is damaged") from None
        self._chunks[number] = chunk
        if len(self._chunks) > _CACHED_CHUNKS:
            self._chunks.popitem(last=False)
        return chunk

    def close(self) -> None:
        """Closes the file."""
        if not self.closed:
            super().close()
            self._chunks.clear()
            self._file.close()


def sealed_frame(header: bytes, keys: Keys, number: int, data: bytes) -> bytes:
    """Makes the frame of a log that holds ``data``. Frames count from 0."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    sealed = nonce + cipher_of(header, keys).encrypt(nonce, data, header + number.to_bytes(8, "big"))
    return _frame_head(len(sealed)) + sealed


def _frame_head(length: int) -> bytes:
    """Returns a frame's length with a checksum, so that a damaged length does not look like the end of the log."""
    raw = length.to_bytes(_LENGTH_BYTES, "big")
    return raw + zlib.crc32(raw).to_bytes(_LENGTH_BYTES, "big")


def frames(descriptor: int) -> Iterator[tuple[int, int]]:
    """Yields start and end of the sealed bytes of each whole frame of a log. A kill may have left a partial frame.

    Raises:
        DamagedFileError: the length of a frame is damaged.
    """
    size, at = os.fstat(descriptor).st_size, HEADER_BYTES
    while at + 2 * _LENGTH_BYTES <= size:
        head = os.pread(descriptor, 2 * _LENGTH_BYTES, at)
        length = int.from_bytes(head[:_LENGTH_BYTES], "big")
        start = at + len(head)
        if not any(head):  # a power cut wrote the file's length without its bytes
            return
        if head != _frame_head(length):
            raise DamagedFileError("a sealed log is damaged")
        if start + length > size:
            return
        yield start, start + length
        at = start + length


def read_log(file: BinaryIO, header: bytes, keys: Keys) -> bytes:
    """Returns all data of a log.

    Raises:
        DamagedFileError: a frame is damaged.
    """
    return b"".join(log_parts(file, header, keys))


def log_parts(file: BinaryIO, header: bytes, keys: Keys) -> Iterator[bytes]:
    """Yields the data of each append to a log. Raises the errors of `read_log` when it comes to the damage."""
    cipher = cipher_of(header, keys)
    for number, (start, end) in enumerate(frames(file.fileno())):
        frame = os.pread(file.fileno(), end - start, start)
        try:
            data = cipher.decrypt(frame[:_NONCE_BYTES], frame[_NONCE_BYTES:], header + number.to_bytes(8, "big"))
        except (InvalidTag, ValueError):
            raise DamagedFileError("a sealed log is damaged") from None
        yield data
