"""Ends a run on SIGINT or SIGTERM within seconds, and leaves no process behind.

Prefect's task threads cannot be interrupted, and its embedded server is a process of its own. Everything that a run
makes survives a kill at any moment, so the process simply ends after a short grace period.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn
from uuid import UUID

from flows.environment import on_server

GRACE_SECONDS = 4.0
INTERRUPTED = 130
TERMINATED = 143
CODES: dict[int, int] = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
MESSAGE = "reticent: interrupted; what was finished is kept, run again to go on"

_AGAIN_SECONDS = 0.05
_REPORT_SECONDS = 3.0


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised in the main thread."""


class _State:
    """The state of signals in this process."""

    received: int | None = None
    """The first signal's number."""
    is_swallowed = False
    """True if Python dropped the handler's exception; see `_note_swallowed`."""
    is_ending = False
    """True if the command is finished, so that there is nothing left to interrupt."""
    is_reported = False


_state = _State()
_reporting = threading.RLock()  # a signal may come while its message is written


def install() -> None:
    """Makes SIGINT and SIGTERM raise in the main thread, and always ends the process after the grace period.

    Prefect replaces the handlers while a flow runs, and its own handlers can wait for ever. So the grace period does
    not depend on a handler: the interpreter writes the number of every signal to a socket, and a thread reads it.
    """
    for number in CODES:
        signal.signal(number, _handle)
    sys.unraisablehook = _note_swallowed
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader, writer), daemon=True).start()


def exit_code(found: int, *, failed: bool) -> int:
    """Returns the exit code of a command, which is the signal's if a signal ended it.

    From here on a signal ends the process at once. Libraries turn an interrupt into exit codes and errors of their own.
    Those do not count.
    """
    _state.is_ending = True
    if _state.received is not None and (failed or found):  # a command may take an interrupt for its normal end
        found = CODES[_state.received]
    if found in CODES.values():
        _report()
    return found


def was_received() -> bool:
    """Returns True if a signal that ends the process was received."""
    return _state.received is not None


def _handle(number: int, frame: FrameType | None) -> None:
    is_again = _state.received is not None
    if not is_again:
        _state.received = number
    if is_again or _state.is_ending:
        _end(CODES[_state.received or number])
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _note_swallowed(dropped: sys.UnraisableHookArgs) -> None:
    """Notes a signal's exception that Python dropped in a destructor or a callback, so that the signal is not lost."""
    if isinstance(dropped.exc_value, KeyboardInterrupt) and _state.received is not None:
        _state.is_swallowed = True
    else:
        sys.__unraisablehook__(dropped)


def _watch(reader: socket.socket, writer: socket.socket) -> None:
    while received := reader.recv(1):
        if received[0] in CODES:
            _end_after_grace(received[0])


def _end_after_grace(number: int) -> None:
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(_AGAIN_SECONDS)
        if _state.is_swallowed:
            _state.is_swallowed, _state.received = False, None
            signal.pthread_kill(threading.main_thread().ident or 0, number)
    _end(CODES[_state.received or number])


def _end(code: int) -> NoReturn:
    _report()
    for process in _embedded_servers():
        process.terminate()
    os._exit(code)  # worker processes notice and end themselves


def _report() -> None:
    with _reporting:
        if not _state.is_reported:
            _state.is_reported = True
            # The terminal may show a moving line of progress.
            sys.stderr.write(("\n" if sys.stderr.isatty() else "") + MESSAGE + "\n")
            sys.stderr.flush()


def _embedded_servers() -> list[subprocess.Popen[bytes]]:
    module = sys.modules.get("prefect.server.api.server")
    instances = getattr(getattr(module, "SubprocessASGIServer", None), "_instances", {})
    return [s.server_process for s in instances.values() if getattr(s, "server_process", None) is not None]


@contextmanager
def ends_promptly() -> Iterator[None]:
    """Ends a run that Prefect or systemd terminates within ten seconds.

    Prefect turns SIGTERM into an exception, but then waits for task threads, and a thread that trains cannot be
    interrupted. Everything that a run makes survives a kill. So after a grace period the server is notified and the
    process ends. Worker processes notice that and end themselves.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can have signal handlers
        return
    before = signal.getsignal(signal.SIGTERM)
    flow_run_id = _flow_run_id()

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not disturb the clean end
        threading.Thread(target=_end_flow_after_grace, args=(flow_run_id,), daemon=True).start()
        if callable(before):
            before(number, frame)
        raise SystemExit(TERMINATED)

    signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is handle:
            signal.signal(signal.SIGTERM, before)


def _flow_run_id() -> UUID | None:
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    return context.flow_run.id if context and context.flow_run else None


def _end_flow_after_grace(flow_run_id: UUID | None) -> None:
    time.sleep(GRACE_SECONDS)
    if flow_run_id is not None and on_server():
        notifier = threading.Thread(target=_notify_server, args=(flow_run_id,), daemon=True)
        notifier.start()
        notifier.join(_REPORT_SECONDS)
    os._exit(TERMINATED)


def _notify_server(flow_run_id: UUID) -> None:
    from prefect import get_client
    from prefect.states import Cancelled, Crashed

    with get_client(sync_client=True) as client:
        state = client.read_flow_run(flow_run_id).state
        if state is None or state.is_final():
            return
        ended = Cancelled if state.is_cancelling() else Crashed
        message = "Stopped by SIGTERM. What was finished is kept; the next run goes on from there."
        client.set_flow_run_state(flow_run_id, ended(message=message), force=True)
