"""Worker processes that do not outlive the process that started them."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading


def die_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever; its locks are freed when it exits.

    An interrupt from the keyboard reaches workers too; the parent alone decides, or each would print its traceback.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
