"""Shared by the tests of commands: a finished run that a test may change."""

from __future__ import annotations

from pathlib import Path

import pytest
from looked_at import finished_run
from support.copies import copied


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The settings file of a copy of the finished run."""
    return copied(finished_run().parent, tmp_path / "project") / "reticent.toml"
