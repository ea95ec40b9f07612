"""A check whether a folder lies on an encrypted file system, as far as the system says so (Linux).

Recognised are dm-crypt (LUKS) below partitions, LVM and md, fscrypt folders of ext4 and f2fs, ZFS's native encryption,
and eCryptfs, gocryptfs and CryFS mounts. Everything else counts as not known: disks that encrypt by themselves,
encryption by a hypervisor or a file server, overlays of containers, and memory, whose pages may be swapped out.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path
from typing import Final

from pipelines.errors import PrivacyGateError
from pipelines.store.place.file_system import mount_of, nearest

_STACKED: Final = {"ecryptfs": "eCryptfs", "fuse.gocryptfs": "gocryptfs", "fuse.cryfs": "CryFS"}
_GET_FLAGS: Final = 0x80086601  # FS_IOC_GETFLAGS of Linux, <linux/fs.h>
_IS_ENCRYPTED: Final = 0x00000800  # FS_ENCRYPT_FL, likewise


def encryption_of(folder: Path, system: Path = Path("/")) -> str | None:
    """Returns the name of what encrypts the file system of a folder; None if it is not known to be encrypted.

    Args:
        folder: folder to check. If it does not exist yet, its nearest existing parent is checked.
        system: see `mount_of`.
    """
    folder = nearest(folder)
    mount = mount_of(folder, system)
    if mount.kind in _STACKED:
        return _STACKED[mount.kind]
    if mount.kind == "zfs":
        return "ZFS" if _is_encrypted_data_set(mount.device) else None
    if mount.kind in ("ext4", "f2fs") and _has_policy(folder):
        return "fscrypt"
    return "dm-crypt" if _lies_on_crypt(Path(mount.device).resolve().name, system) else None


def require_encrypted(private: Path) -> None:
    """Refuses a private root that is not known to lie on an encrypted file system.

    Raises:
        PrivacyGateError: the file system is not encrypted, or it is not known to be.
    """
    if encryption_of(private) is None:
        kind = mount_of(nearest(private)).kind
        raise PrivacyGateError(
            f"store.require_encrypted_fs: {private} is on a file system ({kind}) that is not known to be encrypted. "
            "What is looked for: dm-crypt (LUKS), fscrypt, ZFS, eCryptfs, gocryptfs, CryFS. Choose another folder with "
            "store.private_root; where the disk or a server encrypts unseen by this machine, leave the setting out"
        )


def _lies_on_crypt(name: str, system: Path) -> bool:
    """Returns True if a block device is dm-crypt's, or if all devices that it is made of are."""
    block = system / "sys/class/block" / name
    if not name or not block.is_dir():
        return False
    try:
        if (block / "dm/uuid").read_text("ascii").startswith("CRYPT-"):
            return True
    except OSError:
        pass  # no device of the device mapper
    below = [path.name for path in block.glob("slaves/*")]
    return bool(below) and all(_lies_on_crypt(one, system) for one in below)


def _has_policy(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        flags = fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(int.from_bytes(flags[:4], "little") & _IS_ENCRYPTED)


def _is_encrypted_data_set(name: str) -> bool:
    command = ["zfs", "get", "-H", "-o", "value", "encryption", name]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return False
    return answer not in ("", "-", "off")
