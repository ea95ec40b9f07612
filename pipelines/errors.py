"""Errors that a user may see, each with the exit code of the command line (design, section 7).

A message never quotes private text. It names a file, a row number, a setting, and what to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class ReticentError(Exception):
    """Base of every error with a message meant for the user."""

    exit_code: ClassVar[int] = 5


class ConfigError(ReticentError):
    """The settings are wrong: an unknown key, a wrong type, a value out of range, a missing plug-in."""

    exit_code = 2


class InputError(ReticentError):
    """The input cannot be used: a missing file, an empty corpus, too many rejected rows."""

    exit_code = 3


class PrivacyGateError(ReticentError):
    """To continue would break a privacy promise, so nothing was published."""

    exit_code = 4


class StageError(ReticentError):
    """A stage failed. The traceback, which may quote private text, is in the private root only."""

    exit_code = 5


class ExecutorError(ReticentError):
    """Other machines cannot take part: an engine cannot be reached, or the machines lack something that a run needs."""

    exit_code = 5


class DamagedFileError(ValueError):
    """A sealed file was changed (`pipelines.encryption`). A ValueError, like invalid JSON. Does not quote the file."""


class StoreError(ReticentError):
    """The artifact store cannot be used: no permission, no space, a damaged layout, a busy lock.

    Args:
        message: message for the user.
        errno: system's number of the fault if a file operation failed. It decides if a retry may help, and goes with
            the error to another process.
    """

    exit_code = 5

    def __init__(self, message: str, *, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno


_DAMAGED = (
    "a file of the private root is damaged. `reticent verify` names it, and `reticent verify --repair` takes it out of "
    "use, so that the next run rebuilds it"
)


def message_of(error: BaseException) -> str:
    """Returns what may be said about an error: our own message, or only type and place, as others may quote text."""
    if isinstance(error, ReticentError):
        return str(error)
    if isinstance(error, DamagedFileError):
        return _DAMAGED
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "unknown place"
    return (
        f"unexpected {type(error).__name__} at {where}; set RETICENT_DEBUG=1 for the traceback, which may quote "
        "private text"
    )
