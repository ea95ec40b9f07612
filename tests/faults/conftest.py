from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _graph_as_declared() -> Iterator[None]:
    """The toy graph's tests put the real stages back in another order; stages must stay in topological order."""
    from pipelines.graph import GRAPH

    declared = dict(GRAPH)
    yield
    GRAPH.clear()  # type: ignore[attr-defined]
    GRAPH.update(declared)  # type: ignore[attr-defined]
