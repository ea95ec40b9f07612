"""Errors that a user may meet, each with the exit code of the command line (design, section 7).

A message never quotes private text: it names a file, a row number, a setting, and what to do.
"""

from __future__ import annotations

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
    """Going on would break a privacy promise, so nothing was published."""

    exit_code = 4


class StageError(ReticentError):
    """A stage failed. The traceback, which may quote private text, is in the private root only."""

    exit_code = 5


class ExecutorError(ReticentError):
    """Other machines cannot take part: an engine is out of reach, or they lack what a run needs."""

    exit_code = 5


class DamagedFileError(ValueError):
    """A sealed file is not as it was written (`pipelines.encryption`), as JSON may be no JSON. Quotes nothing of it."""


class StoreError(ReticentError):
    """The artifact store cannot be used: no permission, no space, a damaged layout, a busy lock.

    Args:
        message: for the user.
        errno: the system's number of the fault, where a file operation failed; says whether to try again. It goes
            with the error to another process.
    """

    exit_code = 5

    def __init__(self, message: str, *, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno
