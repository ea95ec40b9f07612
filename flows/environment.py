"""Environment of every process of a run, wherever it is not set otherwise: no telemetry, no hub, lean memory."""

from __future__ import annotations

import os

DEFAULTS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Arrow's own default, mimalloc, keeps several times the memory that it needs; jemalloc gives it back.
    "ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
}

HEARTBEAT = "PREFECT_FLOWS_HEARTBEAT_FREQUENCY"
HEARTBEAT_SECONDS = 30


def apply_defaults() -> None:
    """For a process that did not start as ``reticent``; call it before heavy libraries are imported."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


def on_server() -> bool:
    """Whether a Prefect server of its own, not the embedded one, is used."""
    return bool(os.environ.get("PREFECT_API_URL"))
