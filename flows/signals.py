"""Ending a run on SIGINT or SIGTERM within seconds, and leaving no process behind.

Prefect's task threads cannot be interrupted, and its embedded server is a process of its own. Everything that a run
makes survives a kill at any moment, so after a short grace the process simply ends.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import FrameType

GRACE_SECONDS = 4.0
INTERRUPTED = 130
TERMINATED = 143


_open_pipes: list[int] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised in the main thread."""


def install() -> None:
    """Makes SIGINT and SIGTERM raise in the main thread, and end the process for certain after the grace.

    Prefect replaces the handlers while a flow runs, and its own can wait for ever. So the grace does not hang on a
    handler: the interpreter writes the number of every signal to a socket, and a thread reads it.
    """
    signal.signal(signal.SIGINT, _raise)
    signal.signal(signal.SIGTERM, _raise)
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader, writer), daemon=True).start()


def _raise(number: int, frame: FrameType | None) -> None:
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _watch(reader: socket.socket, writer: socket.socket) -> None:
    codes: dict[int, int] = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
    while received := reader.recv(1):
        if received[0] in codes:
            _end_after_grace(codes[received[0]])


def _end_after_grace(code: int) -> None:
    time.sleep(GRACE_SECONDS)
    sys.stderr.write("reticent: interrupted; what was finished is kept, run again to go on\n")
    sys.stderr.flush()
    stop_embedded_server()
    os._exit(code)  # worker processes notice and end themselves


def _embedded_servers() -> list[subprocess.Popen[bytes]]:
    module = sys.modules.get("prefect.server.api.server")
    instances = getattr(getattr(module, "SubprocessASGIServer", None), "_instances", {})
    return [s.server_process for s in instances.values() if getattr(s, "server_process", None) is not None]


def stop_embedded_server() -> None:
    """Ends Prefect's embedded server, if this process started one."""
    for process in _embedded_servers():
        process.terminate()


def guard_embedded_server() -> None:
    """Sees to it that the embedded server does not outlive this process even if that is killed outright.

    A small shell process, in a session of its own, reads from a pipe that only this process can write to. The read
    ends when this process does, however it ends.
    """

    def wait_for_server() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for process in _embedded_servers():
                reader, writer = os.pipe()  # the writing end is never closed, nor inherited
                _open_pipes.append(writer)
                subprocess.Popen(
                    ["/bin/sh", "-c", f"read _; kill {process.pid} 2>/dev/null"],
                    stdin=reader,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
                os.close(reader)
                return
            time.sleep(0.2)

    threading.Thread(target=wait_for_server, daemon=True).start()
