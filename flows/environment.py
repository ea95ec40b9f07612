"""Default environment of every process of a run: no telemetry, no model hub, lean memory."""

from __future__ import annotations

import os

DEFAULTS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # 20 are too few on a busy machine
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Arrow's own default, mimalloc, keeps several times the memory that it needs. jemalloc returns memory.
    "ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
}

HEARTBEAT = "PREFECT_FLOWS_HEARTBEAT_FREQUENCY"
HEARTBEAT_SECONDS = 30


def apply_defaults() -> None:
    """Sets the defaults in a process that did not start as ``reticent``. Call it before importing heavy libraries."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


def on_server() -> bool:
    """Checks if a separate Prefect server is used instead of the embedded one."""
    return bool(os.environ.get("PREFECT_API_URL"))
