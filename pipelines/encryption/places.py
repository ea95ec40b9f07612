"""The private roots of encrypted stores that this process has opened. All files in them are sealed.

Code that opens a file below such a root by `pipelines.files` reads and writes plaintext, and the disk holds none.
`pipelines.store.place.unlocking` enters a root here before anything in it is read.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from pipelines.errors import DamagedFileError

if TYPE_CHECKING:
    from pipelines.encryption.sealed import Keys

FILE: Final = "encryption.json"
"""File of the ring of keys. A private root with this file is encrypted, and every other file in it is sealed."""
_BUFFER_BYTES: Final = 1 << 16
_COPIED_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Place:
    """An encrypted private root.

    Attributes:
        keys: ring of keys of the root
        digest_key: key of the HMACs that replace a plain store's SHA-256; None until the store's secret is known
    """

    keys: Keys = field(repr=False)
    digest_key: bytes | None = field(default=None, repr=False)


_places: dict[str, Place] = {}


def enter(root: Path, place: Place) -> None:
    """Makes this process seal all files below ``root`` from now on."""
    for path in {os.path.abspath(root), os.path.realpath(root)}:  # noqa: PTH100  (other code may use either name)
        _places[path] = place


def leave(root: Path) -> None:
    """Forgets a root, for tests and for a store whose folder was removed."""
    for path in {os.path.abspath(root), os.path.realpath(root)}:  # noqa: PTH100
        _places.pop(path, None)


def entered() -> dict[str, Place]:
    """Returns the entered roots for another process of this run. Pass them by a pipe only, never by a file, an argument
    or a variable.
    """
    return dict(_places)


def take_over(found: Mapping[str, Place]) -> None:
    """Enters the roots of another process."""
    _places.update(found)


def place_of(path: Path) -> Place | None:
    """Returns the encrypted root of a file; None for any other file, and for the ring of keys itself."""
    if not _places:
        return None
    full = os.path.abspath(path)  # noqa: PTH100  (keeps links, because views of a root are in it)
    for root, place in _places.items():
        if full.startswith(f"{root}{os.sep}"):
            return None if full == os.path.join(root, FILE) else place  # noqa: PTH118
    return None


def reading(file: BinaryIO, place: Place) -> BinaryIO:
    """Opens the plaintext of a sealed file. Closing the result closes ``file``.

    Raises:
        DamagedFileError: the file is not sealed, or damaged.
    """
    from pipelines.encryption.sealed import HEADER_BYTES, SealedReader, kind_of, read_log  # needs cryptography

    try:
        header = os.pread(file.fileno(), HEADER_BYTES, 0)
        if kind_of(header) == "log":
            with file:
                return io.BytesIO(read_log(file, header, place.keys))
        return io.BufferedReader(SealedReader(file, header, place.keys), _BUFFER_BYTES)
    except BaseException:
        file.close()
        raise


def writing(file: BinaryIO, place: Place, *, closes: bool = True) -> BinaryIO:
    """Opens a stream that seals all data into ``file``."""
    from pipelines.encryption.sealed import SealedWriter

    return cast(BinaryIO, SealedWriter(file, place.keys, closes=closes))


def extending(descriptor: int, place: Place, data: bytes) -> tuple[int, bytes]:
    """Computes how to extend a log, which is a file that is appended to.

    Args:
        descriptor: descriptor of the file, open for reading; an empty file becomes a log
        place: encrypted root of the file
        data: bytes to append

    Returns:
        The length to cut the file to, because a kill may have left a part of a frame at its end, and the bytes to write
        there.

    Raises:
        DamagedFileError: the file is not a log, or is damaged.
    """
    from pipelines.encryption.sealed import HEADER_BYTES, MAGIC, frames, kind_of, sealed_frame

    header = os.pread(descriptor, HEADER_BYTES, 0)
    is_cut = len(header) < HEADER_BYTES and header[: len(MAGIC)] == MAGIC[: len(header)]
    if is_cut:  # new, or a kill interrupted its creation
        return 0, log_of(data, place)
    if kind_of(header) != "log":
        raise DamagedFileError("a file that is appended to is not a sealed log")
    ends = [end for _, end in frames(descriptor)]
    return ends[-1] if ends else HEADER_BYTES, sealed_frame(header, place.keys, len(ends), data)


def log_of(data: bytes, place: Place) -> bytes:
    """Returns a sealed log that holds ``data``."""
    from pipelines.encryption.sealed import new_header, sealed_frame

    header = new_header(place.keys, "log")
    return header + sealed_frame(header, place.keys, 0, data)


def before_damage(file: BinaryIO, place: Place) -> bytes:
    """Returns the content of a log before its first damage."""
    from pipelines.encryption.sealed import HEADER_BYTES, log_parts

    found = []
    try:
        for part in log_parts(file, os.pread(file.fileno(), HEADER_BYTES, 0), place.keys):
            found.append(part)
    except DamagedFileError:
        pass
    return b"".join(found)


def sealed_again(plain: BinaryIO, file: BinaryIO, header: bytes, place: Place) -> None:
    """Seals the content of ``plain`` into ``file``, as a file or a log, depending on the old ``header``."""
    from pipelines.encryption.sealed import kind_of

    if kind_of(header) == "log":
        file.write(log_of(plain.read(), place))
        return
    with writing(file, place, closes=False) as sealed:
        while part := plain.read(_COPIED_BYTES):
            sealed.write(part)
