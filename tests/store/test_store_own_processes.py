"""How many processes one execution of a stage may use for itself."""

import multiprocessing
from types import SimpleNamespace

import pytest

from pipelines.store.building import execute


@pytest.mark.parametrize(("workers", "partitions", "expected"), [(8, 1, 8), (8, 3, 2), (2, 5, 1), (1, 1, 1), (4, 0, 4)])
def test_partitions_share_the_workers(workers, partitions, expected):
    session = SimpleNamespace(
        spec=SimpleNamespace(runtime=SimpleNamespace(workers=workers)),
        partition_names=lambda stage: ("p",) * partitions,
    )
    assert execute._own_processes(session, "redact") == expected


def test_a_process_that_may_have_no_children_gets_none(patch):
    patch.constant(multiprocessing.current_process(), "_config", {"daemon": True})
    assert execute._own_processes(None, "redact") == 1
