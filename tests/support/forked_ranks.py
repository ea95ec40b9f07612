"""Training processes that are forked from one that has loaded torch: loading it is most of what a small training costs.

A test of what a process inherits, or of how it ends, starts them as they are started in use.
"""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager

from support.patches import patching

LOADED = ["pipelines.stages.train.train", "pipelines.stages.train.phase1", "transformers.models.gpt2.modeling_gpt2"]


@contextmanager
def forked_ranks() -> Iterator[None]:
    """Meanwhile ``spawn`` is ``forkserver``."""
    usual = multiprocessing.get_context
    forking = usual("forkserver")
    forking.set_forkserver_preload(LOADED)
    with patching() as patch:
        patch(multiprocessing, "get_context", lambda kind=None: forking if kind == "spawn" else usual(kind))
        yield
