"""Sources of the store key: a file, a command, or an environment variable. Reticent never stores the key."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipelines.errors import ConfigError

KEY_BYTES: Final = 32
"""Length of the store key."""
_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class KeySource:
    """The place of the store key, without the key. Exactly one of the fields is set.

    Attributes:
        file: path of a file that holds the key
        command: program that prints the key, with its arguments, run without a shell
        env: name of an environment variable that holds the key
    """

    file: str | None = None
    command: tuple[str, ...] | None = None
    env: str | None = None

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> KeySource:
        """Makes a source from the JSON form of ``dataclasses.asdict``."""
        command = document["command"]
        return cls(file=document["file"], command=None if command is None else tuple(command), env=document["env"])

    def read(self) -> bytes:
        """Reads the store key: 32 bytes, given as 64 hexadecimal digits, with white space around them.

        Raises:
            ConfigError: the key is missing or malformed. The message quotes no part of it.
        """
        if self.file is not None:
            where, text = f"the file {self.file} (store.key_file)", _of_file(Path(self.file))
        elif self.command is not None:
            where, text = "the output of store.key_command", _of_command(self.command)
        else:
            where, text = f"the variable {self.env} of the environment (store.key_env)", os.environ.get(self.env or "")
        if text is None:
            raise ConfigError(f"the store key cannot be read: {where} is missing or unreadable. {_LOST}")
        if re.fullmatch(rf"\s*[0-9a-fA-F]{{{2 * KEY_BYTES}}}\s*", text, re.ASCII) is None:
            raise ConfigError(
                f"{where} is not a store key, which consists of exactly {2 * KEY_BYTES} hexadecimal digits "
                "(`openssl rand -hex 32` makes one)"
            )
        return bytes.fromhex(text.strip())


_LOST: Final = (
    "Nobody can read this store without it. If the key is lost for good, keep the private root only for the public "
    "files made from it, choose another folder with store.root, and account for what was released from this one"
)


def _of_file(path: Path) -> str | None:
    try:
        return path.read_bytes()[:1024].decode("ascii", "replace")
    except OSError:
        return None


def _of_command(command: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=True)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout[:1024].decode("ascii", "replace")
