"""How much a command says beside its answer: ``--quiet`` and ``--verbose``, anywhere on the command line.

Kept in the environment, so that processes that a command starts say as much. Errors and the answer are never left out.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Final

from pipelines.errors import ConfigError

VARIABLE: Final = "RETICENT_VERBOSITY"
_QUIET, _VERBOSE = "quiet", "verbose"
_OPTIONS: Final = {"--quiet": _QUIET, "-q": _QUIET, "--verbose": _VERBOSE, "-v": _VERBOSE}


def hoisted(arguments: Sequence[str]) -> list[str]:
    """The arguments with these options before the command, where they are looked for; what follows ``--`` stays."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    mine = [a for a in arguments[:end] if a in _OPTIONS]
    return [*mine, *(a for a in arguments[:end] if a not in _OPTIONS), *arguments[end:]]


def set_verbosity(environ: MutableMapping[str, str], *, quiet: bool, verbose: bool) -> None:
    """Notes what was asked for.

    Raises:
        ConfigError: both at once.
    """
    if quiet and verbose:
        raise ConfigError("give --quiet or --verbose, not both")
    if quiet or verbose:
        environ[VARIABLE] = _QUIET if quiet else _VERBOSE
    if verbose:  # Prefect's own lines, which are silenced otherwise
        environ["PREFECT_LOGGING_LEVEL"] = "INFO"


def is_quiet(environ: Mapping[str, str]) -> bool:
    """Whether progress and warnings are left out."""
    return environ.get(VARIABLE) == _QUIET


def is_verbose(environ: Mapping[str, str]) -> bool:
    """Whether progress comes line by line."""
    return environ.get(VARIABLE) == _VERBOSE
