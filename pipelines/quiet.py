"""Keeps ``transformers`` from writing progress bars and loading reports between our own lines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from transformers.utils import logging as transformers_logging


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silences everything below an error while the body runs."""
    bars, level = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
