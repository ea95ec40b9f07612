"""Where the store key comes from: a file, a command, or a variable of the environment. It is never kept by us."""

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
"""Of the store key."""
_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class KeySource:
    """Says where the store key is found, and holds nothing of it. Exactly one of its fields is set.

    Attributes:
        file: holds the key.
        command: prints the key; a program and its arguments, run without a shell.
        env: name of the variable that holds it.
    """

    file: str | None = None
    command: tuple[str, ...] | None = None
    env: str | None = None

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> KeySource:
        """The inverse of ``dataclasses.asdict``, through JSON."""
        command = document["command"]
        return cls(file=document["file"], command=None if command is None else tuple(command), env=document["env"])

    def read(self) -> bytes:
        """The store key, 32 bytes, given as 64 hexadecimal digits with white space around them.

        Raises:
            ConfigError: there is none, or it is no key. The message holds nothing of what was found.
        """
        if self.file is not None:
            where, text = f"the file {self.file} (store.key_file)", _of_file(Path(self.file))
        elif self.command is not None:
            where, text = "what store.key_command prints", _of_command(self.command)
        else:
            where, text = f"the variable {self.env} of the environment (store.key_env)", os.environ.get(self.env or "")
        if text is None:
            raise ConfigError(f"the store key cannot be had: {where} is missing, or cannot be read. {_LOST}")
        if re.fullmatch(rf"\s*[0-9a-fA-F]{{{2 * KEY_BYTES}}}\s*", text, re.ASCII) is None:
            raise ConfigError(
                f"{where} is no store key: that is {2 * KEY_BYTES} hexadecimal digits, and nothing else "
                "(`openssl rand -hex 32` makes one)"
            )
        return bytes.fromhex(text.strip())


_LOST: Final = (
    "Without it nothing of this store can be read by anybody: if it is lost for good, keep the private root for its "
    "public side only, choose another folder with store.root, and account for what was released from it"
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
