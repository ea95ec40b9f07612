from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.toy import Toy, use_toy_graph


@pytest.fixture(autouse=True)
def _graph_as_declared() -> Iterator[None]:
    """The toy graph's tests put the real stages back in another order; stages must stay in topological order."""
    from pipelines.graph import GRAPH

    declared = dict(GRAPH)
    yield
    GRAPH.clear()  # type: ignore[attr-defined]
    GRAPH.update(declared)  # type: ignore[attr-defined]


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """One input file."""
    made = use_toy_graph(monkeypatch, tmp_path)
    made.write("a.txt", "alpha text")
    return made
