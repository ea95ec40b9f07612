from __future__ import annotations

from pathlib import Path

import pytest
from support.toy import Toy, use_toy_graph


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """Three input files, default settings."""
    made = use_toy_graph(monkeypatch, tmp_path)
    made.write("a.txt", "alpha text")
    made.write("b.txt", "beta")
    made.write("c.txt", "gamma text here")
    return made
