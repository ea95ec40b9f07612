"""What a store asks of its file system is tried before a run; kinds that machines cannot share are known."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.patches import Patch, patching
from support.project import small_project

from flows.running.spec import begin
from pipelines.errors import StoreError
from pipelines.store.place import file_system
from pipelines.store.place.file_system import Mount, mount_of, require_usable

SHARED = "lookupcache=pos,"


def mounted(folder: Path, *lines: str) -> Mount:
    """The mount of ``/data`` on a machine with this table."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/mounts").write_text("".join(f"{line} 0 0\n" for line in ("/dev/sda / ext4 rw", *lines)))
    return mount_of(Path("/data"), folder)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("/dev/sdb /data xfs rw", None),
        ("server:/x /data fuse.glusterfs rw,allow_other", None),
        ("server:/x /data ceph rw", None),
        (f"server:/x /data nfs4 rw,{SHARED}local_lock=none", None),
        (f"server:/x /data nfs rw,vers=3,{SHARED}local_lock=all", "one machine only"),
        (f"server:/x /data nfs rw,vers=3,nolock,{SHARED}local_lock=none", "one machine only"),
        (f"server:/x /data nfs4 rw,{SHARED}local_lock=flock", "one machine only"),
        (f"server:/x /data nfs4 rw,{SHARED}local_lock=posix", None),  # no lock of that kind is used
        ("server:/x /data nfs4 rw,local_lock=none", "lookupcache"),
        ("server:/x /data nfs4 rw,noac,local_lock=none", None),
        ("me@server: /data fuse.sshfs rw", "one machine only"),
        ("s3fs /data fuse.s3fs rw", "object store"),
        ("mountpoint-s3 /data fuse.mountpoint-s3 rw", "object store"),
        ("bucket /data fuse.gcsfuse rw", "object store"),
    ],
)
def test_what_machines_can_share(tmp_path: Path, line: str, reason: str | None) -> None:
    found = mounted(tmp_path, line).unshared()
    assert found is None if reason is None else reason in str(found)


def test_the_mount_that_is_seen_counts(tmp_path: Path) -> None:
    lines = ("a /data fuse.sshfs rw", "b /data/deeper xfs rw", "c /data ext4 ro,noatime", "d /database xfs rw")
    assert mounted(tmp_path, *lines) == ("c", "ext4", {"ro", "noatime"})


def test_a_disk_that_does_it_all_is_left_as_it_was(tmp_path: Path) -> None:
    require_usable(tmp_path)
    assert list(tmp_path.iterdir()) == []


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("name", "does", "cannot"),
    [
        ("pathlib.Path.replace", failing(errno.EPERM), "replace a file"),
        ("pathlib.Path.rename", failing(errno.ENOTSUP), "rename a folder"),
        ("pathlib.Path.symlink_to", failing(errno.EPERM), "hold links"),
        ("os.link", failing(errno.ENOSYS), "hold links"),
        ("pipelines.store.place.file_system.fsync_path", failing(errno.EINVAL), "flush"),
        ("fcntl.flock", failing(errno.ENOLCK), "flock"),
        ("fcntl.flock", lambda *_: None, "flock"),  # as some network disks answer
        ("os.link", failing(errno.ENOSPC), "disk is full"),
        ("os.link", failing(errno.EACCES), "accessed by this user"),
    ],
)
def test_what_a_disk_cannot_is_said(tmp_path: Path, name: str, does: Callable[..., Any], cannot: str) -> None:
    with patching() as patched:
        patched(*name.rsplit(".", 1), does)
        with pytest.raises(StoreError, match=cannot):
            require_usable(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("root", ["private", "public"])
def test_a_run_does_not_begin_on_such_a_disk(tmp_path: Path, patch: Patch, root: str) -> None:
    config = small_project(tmp_path, dialogues=2)

    def is_elsewhere(folder: Path) -> bool:
        return root not in folder.parts

    patch.constant(file_system, "_TRIALS", {"do so": is_elsewhere})
    with pytest.raises(StoreError, match=r"cannot do so.*choose another disk") as told:
        begin(config, {})
    assert f"reticent-store/{root}" in str(told.value)
    assert not list(tmp_path.glob("reticent-store/private/runs/*"))
