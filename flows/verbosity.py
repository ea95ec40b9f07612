"""The options ``--quiet`` and ``--verbose``, which may stand anywhere on the command line.

The choice is kept in the environment, so that child processes follow it. Errors and answers are always printed.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Final

from pipelines.errors import ConfigError

VARIABLE: Final = "RETICENT_VERBOSITY"
_QUIET, _VERBOSE = "quiet", "verbose"
_OPTIONS: Final = {"--quiet": _QUIET, "-q": _QUIET, "--verbose": _VERBOSE, "-v": _VERBOSE}


def hoisted(arguments: Sequence[str]) -> list[str]:
    """Moves these options to the front of the arguments, because the parser expects them before the command.

    Arguments after ``--`` stay.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    mine = [a for a in arguments[:end] if a in _OPTIONS]
    return [*mine, *(a for a in arguments[:end] if a not in _OPTIONS), *arguments[end:]]


def set_verbosity(environ: MutableMapping[str, str], *, quiet: bool, verbose: bool) -> None:
    """Notes the choice in the environment.

    Raises:
        ConfigError: both are asked for.
    """
    if quiet and verbose:
        raise ConfigError("give --quiet or --verbose, not both")
    if quiet or verbose:
        environ[VARIABLE] = _QUIET if quiet else _VERBOSE
    if verbose:  # show Prefect's own log too
        environ["PREFECT_LOGGING_LEVEL"] = "INFO"


def is_quiet(environ: Mapping[str, str]) -> bool:
    """Checks if progress and warnings are left out."""
    return environ.get(VARIABLE) == _QUIET


def is_verbose(environ: Mapping[str, str]) -> bool:
    """Checks if progress comes line by line."""
    return environ.get(VARIABLE) == _VERBOSE
