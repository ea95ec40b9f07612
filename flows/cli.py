"""The console script ``reticent``. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from flows.environment import DEFAULTS
from flows.printing import protect_streams
from flows.running.signals import INTERRUPTED, exit_code, install, was_received
from flows.verbosity import hoisted
from pipelines.errors import DamagedFileError, ReticentError, StoreError, message_of


def _quiet_defaults() -> None:
    """Turns off telemetry, hub look-ups and library logs, unless the environment sets them otherwise."""

    for name, value in {
        **DEFAULTS,
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",  # the embedded server prints its cancelled tasks when it stops
        "PYDANTIC_DISABLE_PLUGINS": "__all__",  # looking for them reads every installed package's metadata
    }.items():
        os.environ.setdefault(name, value)


def main() -> NoReturn:
    """Runs the command line and exits.

    Exit codes: 0 ok, 2 usage or settings, 3 input, 4 privacy gate, 5 failed, 130 interrupted, 143 terminated.
    """
    install()  # first, so that a signal during start-up counts
    protect_streams()
    try:
        code, failed = _run(), False
    except BaseException as error:
        code, failed = _code_of(error), True
    code = exit_code(code, failed=failed)
    sys.stdout.flush()
    sys.exit(code)


def _run() -> int:
    _quiet_defaults()
    from flows.arguments import app  # libraries read the defaults when they are imported

    # A command that ends with an exit code returns it here.
    result = app(args=hoisted(sys.argv[1:]), prog_name="reticent", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _code_of(error: BaseException) -> int:
    """Prints an error, unless a signal caused it, and returns the exit code."""
    if was_received() or isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":  # typer's
        return INTERRUPTED
    if isinstance(error, ReticentError | DamagedFileError):
        print(f"reticent: {message_of(error)}", file=sys.stderr)
        return error.exit_code if isinstance(error, ReticentError) else StoreError.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 5
    if isinstance(error, OSError):
        return _disk_failed(error)
    return _unexpected(error)


def _disk_failed(error: OSError) -> int:
    from pipelines.store.place.disk import DISK_ERRORS, disk_error

    if error.errno not in DISK_ERRORS:
        return _unexpected(error)
    print(f"reticent: {disk_error(error)}", file=sys.stderr)
    return StoreError.exit_code


def _unexpected(error: BaseException) -> int:
    # Usage errors of click. Their class is not imported, because typer may bring its own click.
    if hasattr(error, "format_message") and hasattr(error, "show"):
        error.show()
        return 2
    if os.environ.get("RETICENT_DEBUG") == "1":
        raise error
    print(f"reticent: {message_of(error)}", file=sys.stderr)
    return 5


if __name__ == "__main__":
    main()
