"""Rules for every process: a worker does not outlive its parent, and libraries cannot quote text."""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_OUR_LOGGERS = frozenset({"prefect", "reticent"})
_WITHHELD = "a message of this library is withheld: it may quote private text"


def die_with_parent() -> None:
    """Ends this worker when its parent dies, because it would otherwise wait for work for ever and keep its locks.

    Ignores interrupts from the keyboard, which reach workers too. Only the parent decides, or each worker would print
    its traceback.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Hides interrupts from the keyboard from processes that are started inside the ``with`` block.

    Only the parent decides. Until a process ignores interrupts itself, it would print its traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def worker_pool(
    workers: int, preload: Sequence[str], start: Callable[..., None] = die_with_parent, arguments: tuple[Any, ...] = ()
) -> ProcessPoolExecutor:
    """Starts worker processes that load the heavy modules once, together."""
    from concurrent.futures import ProcessPoolExecutor  # status imports this module, and starts no process
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")  # plain fork hangs after polars or torch ran in the parent
    context.set_forkserver_preload(list(preload))
    with ignore_interrupts():
        forkserver.ensure_running()
    return ProcessPoolExecutor(workers, mp_context=context, initializer=start, initargs=arguments)


def withhold_library_messages() -> None:
    """Removes the text from log records and warnings of libraries, for the rest of this process.

    spaCy and others quote the sentence that caused an error, and a handler may send a record to the terminal, to a log
    file, or to the orchestrator's database. The text is removed where records are made, so this holds for all handlers.
    """
    if getattr(logging.getLogRecordFactory(), "withholds", False):
        return
    make = logging.getLogRecordFactory()

    def withholding(name: str, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(name, *args, **kwargs)
        if name.partition(".")[0] not in _OUR_LOGGERS:
            record.msg, record.args, record.exc_info, record.stack_info = _WITHHELD, (), None, None
        return record

    withholding.withholds = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(withholding)
    warnings.showwarning = lambda *_, **__: None  # a warning may quote private text
