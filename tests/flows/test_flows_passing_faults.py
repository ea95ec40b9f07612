"""Which faults a task is tried again for."""

from __future__ import annotations

import errno
import pickle
from concurrent.futures.process import BrokenProcessPool

import cloudpickle
import pytest

from pipelines.errors import ConfigError, InputError, PrivacyGateError, StageError, StoreError
from pipelines.processes import worker_pool
from pipelines.store.place.disk import disk_error


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (disk_error(OSError(errno.EIO, "x")), True),
        (disk_error(OSError(errno.ESTALE, "x")), True),
        (disk_error(OSError(errno.ENOSPC, "x")), False),
        (disk_error(OSError(errno.EROFS, "x")), False),
        (disk_error(OSError(errno.EACCES, "x")), False),
        (disk_error(OSError("a fault without a number")), True),
        (disk_error(OSError(99_999, "a number without a name")), True),
        (OSError(errno.EIO, "x"), True),
        (FileNotFoundError(errno.ENOENT, "x"), False),
        (BrokenProcessPool(), True),
        (ConnectionResetError(), True),
        (StoreError("the artifact vanished"), False),
        (StoreError("(EIO); what was finished is kept"), False),
        (ConfigError("(EIO); what was finished is kept"), False),
        (InputError("(EIO); what was finished is kept"), False),
        (PrivacyGateError("(EIO); what was finished is kept"), False),
        (StageError("(EIO); what was finished is kept"), False),
        (ValueError("x"), False),
        (None, False),
    ],
    ids=repr,
)
def test_which_faults_pass(error: object, passing: bool) -> None:
    from tasks.base import is_passing

    assert is_passing(error) is passing
    assert is_passing(pickle.loads(pickle.dumps(error))) is passing  # as it comes from a worker process
    assert is_passing(cloudpickle.loads(cloudpickle.dumps(error))) is passing  # as from Dask or Ray


def test_a_fault_passes_in_a_worker_process_too() -> None:
    from tasks.base import is_passing

    with worker_pool(1, []) as pool:
        told = [pool.submit(_fail_as_a_disk, number).exception() for number in (errno.EIO, errno.ENOSPC)]
    assert [type(error) for error in told] == [StoreError, StoreError]
    assert [is_passing(error) for error in told] == [True, False]
    assert [str(error) for error in told] == [
        "the store or an input could not be read or written (EIO); what was finished is kept",
        "the disk is full; free some space (reticent gc) and run again (ENOSPC); what was finished is kept",
    ]


def _fail_as_a_disk(number: int) -> None:
    raise disk_error(OSError(number, "x"))
