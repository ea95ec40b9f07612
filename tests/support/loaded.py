"""Loads the library with what it imports late, for processes whose forked children would each do it anew."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pkgutil
from pathlib import Path

import pipelines
from pipelines.store.objects import code
from pipelines.store.place.statcache import StatCache
from support.losses import remember_losses

_IMPORTED_LATE = ("spacy", "tokenizers", "transformers.models.gpt2.modeling_gpt2", "scipy.stats")


def load_library() -> None:
    """Imports every module, and what those only name; reads the code; and loads the language model."""
    modules = [module.name for module in pkgutil.walk_packages(pipelines.__path__, "pipelines.")]
    for name in (*modules, *_IMPORTED_LATE):
        with contextlib.suppress(ImportError):  # of an extra that is not installed; the run that needs it will say so
            importlib.import_module(name)
    remember_losses()
    code.scan_source = functools.cache(code.scan_source)
    code.CodeDigests(StatCache(Path(os.devnull))).of(modules)

    from pipelines.settings.redact import RedactConfig

    RedactConfig(policies=["high_entity"]).redactor_spec().make()
