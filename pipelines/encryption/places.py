"""Which folders hold sealed files only, in this process: the private roots of encrypted stores that were opened.

Whoever opens a file below such a folder, by `pipelines.files`, reads and writes plaintext, and the disk has none. A
root is entered here before anything of it is read, by `pipelines.store.place.unlocking`.
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
"""The ring of keys: its file in the private root makes that an encrypted one. No other file is in plain."""
_BUFFER_BYTES: Final = 1 << 16
_COPIED_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Place:
    """An encrypted private root.

    Attributes:
        keys: its ring.
        digest_key: of the HMACs that stand where a plain store has SHA-256; None until the store's secret is known.
    """

    keys: Keys = field(repr=False)
    digest_key: bytes | None = field(default=None, repr=False)


_places: dict[str, Place] = {}


def enter(root: Path, place: Place) -> None:
    """From here on, files below ``root`` are sealed."""
    for path in {os.path.abspath(root), os.path.realpath(root)}:  # noqa: PTH100  (as it may be named by others)
        _places[path] = place


def leave(root: Path) -> None:
    """Forgets a root; for tests, and for a store whose folder is gone."""
    for path in {os.path.abspath(root), os.path.realpath(root)}:  # noqa: PTH100
        _places.pop(path, None)


def entered() -> dict[str, Place]:
    """What was entered, for another process of this run: through a pipe, never a file, an argument or a variable."""
    return dict(_places)


def take_over(found: Mapping[str, Place]) -> None:
    """Enters what another process had entered."""
    _places.update(found)


def place_of(path: Path) -> Place | None:
    """The encrypted root that a file lies in; None for any other file, and for the ring of keys itself."""
    if not _places:
        return None
    full = os.path.abspath(path)  # noqa: PTH100  (links stay: views of a root lie in it)
    for root, place in _places.items():
        if full.startswith(f"{root}{os.sep}"):
            return None if full == os.path.join(root, FILE) else place  # noqa: PTH118
    return None


def reading(file: BinaryIO, place: Place) -> BinaryIO:
    """The plaintext of a sealed file; closing it closes ``file``.

    Raises:
        DamagedFileError: it is not sealed, or not as it was written.
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
    """Seals what is written into ``file``."""
    from pipelines.encryption.sealed import SealedWriter

    return cast(BinaryIO, SealedWriter(file, place.keys, closes=closes))


def extending(descriptor: int, place: Place, data: bytes) -> tuple[int, bytes]:
    """How a log is extended, which is a file that is appended to.

    Args:
        descriptor: of the file, open for reading; an empty one becomes a log.
        place: where it lies.
        data: what is to be added.

    Returns:
        The length that the file is to be cut to, as a kill may have left a part of a frame behind it; and what is to be
        written there.

    Raises:
        DamagedFileError: the file is no log, or not as it was written.
    """
    from pipelines.encryption.sealed import HEADER_BYTES, MAGIC, frames, kind_of, sealed_frame

    header = os.pread(descriptor, HEADER_BYTES, 0)
    is_cut = len(header) < HEADER_BYTES and header[: len(MAGIC)] == MAGIC[: len(header)]
    if is_cut:  # new, or a kill came while it was made
        return 0, log_of(data, place)
    if kind_of(header) != "log":
        raise DamagedFileError("a file that is appended to is no sealed log")
    ends = [end for _, end in frames(descriptor)]
    return ends[-1] if ends else HEADER_BYTES, sealed_frame(header, place.keys, len(ends), data)


def log_of(data: bytes, place: Place) -> bytes:
    """A sealed log that holds ``data``."""
    from pipelines.encryption.sealed import new_header, sealed_frame

    header = new_header(place.keys, "log")
    return header + sealed_frame(header, place.keys, 0, data)


def before_damage(file: BinaryIO, place: Place) -> bytes:
    """What a log holds in front of the first damage to it."""
    from pipelines.encryption.sealed import HEADER_BYTES, log_parts

    found = []
    try:
        for part in log_parts(file, os.pread(file.fileno(), HEADER_BYTES, 0), place.keys):
            found.append(part)
    except DamagedFileError:
        pass
    return b"".join(found)


def sealed_again(plain: BinaryIO, file: BinaryIO, header: bytes, place: Place) -> None:
    """Seals what ``plain`` says into ``file``, as a file or a log, whatever ``header`` had been."""
    from pipelines.encryption.sealed import kind_of

    if kind_of(header) == "log":
        file.write(log_of(plain.read(), place))
        return
    with writing(file, place, closes=False) as sealed:
        while part := plain.read(_COPIED_BYTES):
            sealed.write(part)
