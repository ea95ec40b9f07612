"""A stream of bytes that is read line by line and hashed as it is handed out."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import BinaryIO

SEGMENT_BYTES = 1 << 16


class HashedStream:
    """Reads a range of a binary stream line by line and hashes exactly what was handed out.

    Args:
        file: positioned at the first byte of the range.
        start_byte: where that is.
        num_bytes: length of the range; None reads to the end.
        prefix: hashed before the bytes of every cut: what they cannot be read without (a table's header).
    """

    def __init__(self, file: BinaryIO, start_byte: int = 0, num_bytes: int | None = None, prefix: bytes = b"") -> None:
        self._file = file
        self._left = num_bytes
        self._start = hashlib.sha256(prefix)
        self._hash = self._start.copy()
        self._peeked: deque[bytes] = deque()
        self.position = start_byte

    def peek(self, number: int = 0) -> bytes:
        """The segment that the next but ``number`` call of `readline` would give; empty at the end of the range."""
        while len(self._peeked) <= number:
            size = SEGMENT_BYTES if self._left is None else min(SEGMENT_BYTES, self._left)
            data = self._file.readline(size) if size else b""
            if not data:
                return b""
            if self._left is not None:
                self._left -= len(data)
            self._peeked.append(data)
        return self._peeked[number]

    def readline(self, at_most: int = SEGMENT_BYTES) -> bytes:
        """The rest of the line, at most `SEGMENT_BYTES` or ``at_most`` of it; empty at the end of the range."""
        data = self.peek()
        if not data:
            return data
        self._peeked.popleft()
        if len(data) > at_most:
            self._peeked.appendleft(data[at_most:])
            data = data[:at_most]
        self._hash.update(data)
        self.position += len(data)
        return data

    def digest(self) -> str:
        """SHA-256, hexadecimal, of the prefix and the bytes since the last cut."""
        return self._hash.hexdigest()

    def cut(self) -> str:
        """`digest`, and starts anew."""
        digest = self.digest()
        self._hash = self._start.copy()
        return digest
