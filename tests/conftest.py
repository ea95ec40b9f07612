"""Shared by all tests: no telemetry, no hub, and where the real corpora are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No test is timed: a first call that compiles or loads a library is no failure.
settings.register_profile("reticent", deadline=None)
settings.load_profile("reticent")

os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")

REPOSITORY = Path(__file__).parent.parent
SHARED = REPOSITORY.parent / "shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora, which is not part of the project."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"no real corpora at {folder}")
    return folder


@pytest.fixture(scope="session")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of small models with random weights, by family."""
    from support.small_models import FAMILIES, save_family

    root = tmp_path_factory.mktemp("families")
    return {family: save_family(family, root / family) for family in FAMILIES}
