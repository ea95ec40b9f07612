"""`store.require_encrypted_fs`: what counts as an encrypted file system, and that anything else is refused."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from support.patches import Patch

from flows.commands.plan import plan_document
from flows.running.spec import begin
from pipelines.errors import PrivacyGateError
from pipelines.store.place import encrypted_fs
from pipelines.store.place.encrypted_fs import encryption_of, require_encrypted
from pipelines.store.place.file_system import Mount, mount_of


class System:
    """``/proc`` and ``/sys`` of a made-up machine, on which every test's folder is one mount."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "system"
        self.data = folder / "data at home"
        self.data.mkdir()
        (self.root / "proc/self").mkdir(parents=True)

    def mounts(self, *lines: tuple[str, Path, str]) -> None:
        text = [f"{device} {str(at).replace(' ', chr(92) + '040')} {kind} rw 0 0\n" for device, at, kind in lines]
        (self.root / "proc/self/mounts").write_text("".join(text), "utf-8")

    def block(self, name: str, uuid: str | None = None, made_of: tuple[str, ...] = ()) -> None:
        folder = self.root / "sys/class/block" / name
        (folder / "slaves").mkdir(parents=True)
        for one in made_of:
            (folder / "slaves" / one).mkdir()
        if uuid is not None:
            (folder / "dm").mkdir()
            (folder / "dm/uuid").write_text(uuid + "\n")


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def found(system: System, device: str, kind: str = "ext4") -> str | None:
    system.mounts(("/dev/sda1", Path("/"), "ext4"), (device, system.data, kind))
    return encryption_of(system.data / "not there yet", system.root)


def test_dm_crypt_is_seen_below_whatever_lies_on_it(system: System) -> None:
    system.block("sda1")
    system.block("dm-0", "CRYPT-LUKS2-0a", ("sda1",))
    system.block("dm-1", "LVM-0b", ("dm-0",))
    system.block("dm-2", "CRYPT-PLAIN-0c", ("sdb1",))
    system.block("md0", None, ("dm-1", "dm-2"))
    for device in ("dm-0", "dm-1", "dm-2", "md0"):
        assert found(system, f"/dev/{device}") == "dm-crypt", device
    assert found(system, "/dev/md0", "xfs") == "dm-crypt"


def test_half_an_encrypted_volume_is_none(system: System) -> None:
    system.block("sda1")
    system.block("dm-0", "CRYPT-LUKS2-0a", ("sda1",))
    system.block("dm-1", "LVM-0b", ("dm-0", "sda1"))
    system.block("dm-2", "LVM-CRYPT-0b")
    for device, kind in [
        ("/dev/dm-1", "ext4"), ("/dev/dm-2", "ext4"), ("/dev/sda1", "ext4"), ("tmpfs", "tmpfs"), ("overlay", "overlay"),
        ("/dev/gone", "ext4"), ("host:/export", "nfs4"), ("encfs", "fuse.encfs"),
    ]:  # fmt: skip
        assert found(system, device, kind) is None, (device, kind)


def test_the_innermost_and_latest_mount_counts(system: System) -> None:
    system.block("sda1")
    system.block("dm-0", "CRYPT-LUKS2-0a")
    inner = system.data / "inner"
    inner.mkdir()
    system.mounts(("/dev/dm-0", system.data, "ext4"), ("/dev/sda1", inner, "ext4"))
    assert encryption_of(system.data, system.root) == "dm-crypt"
    assert encryption_of(inner, system.root) is None
    system.mounts(("/dev/sda1", system.data, "ext4"), ("/dev/dm-0", system.data, "ext4"))
    assert encryption_of(system.data, system.root) == "dm-crypt"
    system.mounts(("/dev/dm-0", system.data, "ext4"), ("/dev/sda1", system.data, "ext4"))
    assert encryption_of(system.data, system.root) is None


@pytest.mark.parametrize("kind", ["ecryptfs", "fuse.gocryptfs", "fuse.cryfs"])
def test_stacked_file_systems_are_known_by_their_type(system: System, kind: str) -> None:
    assert found(system, "/home/.secret", kind) is not None


def test_zfs_and_fscrypt_are_asked(
    system: System, monkeypatch: pytest.MonkeyPatch, patch: Patch, tmp_path: Path
) -> None:
    tool = tmp_path / "bin" / "zfs"
    tool.parent.mkdir()
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    for answer, expected in (("aes-256-gcm", "ZFS"), ("off", None), ("-", None)):
        tool.write_text(f'#!/bin/sh\n[ "$6" = pool/data ] && echo {answer}\n')
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        assert found(system, "pool/data", "zfs") == expected
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert found(system, "pool/data", "zfs") is None
    flags = 0x00080000
    patch(encrypted_fs.fcntl, "ioctl", lambda *_: flags.to_bytes(8, "little"))
    assert found(system, "/dev/none") is None
    flags |= 0x800
    assert found(system, "/dev/none") == "fscrypt"
    assert found(system, "/dev/none", "xfs") is None


def test_a_system_that_says_nothing_is_not_trusted(tmp_path: Path) -> None:
    assert mount_of(tmp_path, tmp_path / "nothing") == Mount("", "unknown")
    assert encryption_of(tmp_path, tmp_path / "nothing") is None


def test_what_is_not_known_to_be_encrypted_is_refused(tmp_path: Path, patch: Patch) -> None:
    patch(encrypted_fs, "encryption_of", lambda folder: None)
    with pytest.raises(PrivacyGateError, match="not known to be encrypted"):
        require_encrypted(tmp_path / "private")
    patch(encrypted_fs, "encryption_of", lambda folder: "dm-crypt")
    require_encrypted(tmp_path / "private")


def test_a_run_is_refused_before_it_makes_anything(tmp_path: Path, patch: Patch) -> None:
    (tmp_path / "text.txt").write_text("A sentence.\n")
    settings = '[store]\nrequire_encrypted_fs = true\n[corpus]\ninputs = ["text.txt"]\n'
    (tmp_path / "reticent.toml").write_text(settings)
    patch(encrypted_fs, "encryption_of", lambda folder: None)
    config = tmp_path / "reticent.toml"
    for refused in (lambda: begin(config, {}), lambda: plan_document(config, {}, read=True)):
        with pytest.raises(PrivacyGateError, match=r"store\.require_encrypted_fs"):
            refused()
    assert not (tmp_path / "reticent-store").exists()
    plan_document(config, {"RETICENT__STORE__REQUIRE_ENCRYPTED_FS": "false"}, read=True)
