"""A stream of bytes that is read line by line and hashes the bytes that it returns."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import BinaryIO

SEGMENT_BYTES = 1 << 16


class HashedStream:
    """Reads a range of a binary stream line by line and hashes exactly the bytes that it returned.

    Args:
        file: stream positioned at the first byte of the range
        start_byte: position of that byte
        num_bytes: length of the range; None to read to the end
        prefix: bytes to hash before the bytes of every cut, which are needed to read them (a table's header)
    """

    def __init__(self, file: BinaryIO, start_byte: int = 0, num_bytes: int | None = None, prefix: bytes = b"") -> None:
        self._file = file
        self._left = num_bytes
        self._start = hashlib.sha256(prefix)
        self._hash = self._start.copy()
        self._peeked: deque[bytes] = deque()
        self.position = start_byte

    def peek(self, number: int = 0) -> bytes:
        """Returns the segment that `readline` would return after ``number`` more calls; empty at the end."""
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
        """Reads the rest of the line, at most `SEGMENT_BYTES` or ``at_most`` bytes; empty at the end of the range."""
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
        """Returns SHA-256, hexadecimal, of the prefix and the bytes since the last cut."""
        return self._hash.hexdigest()

    def cut(self) -> str:
        """Returns `digest`, and resets it."""
        digest = self.digest()
        self._hash = self._start.copy()
        return digest
