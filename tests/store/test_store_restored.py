"""An older copy that is put back over a store is noticed, also where it keeps the inode of the file ``home``."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from test_store_ledger_edits import make_release, reopen

from pipelines.errors import PrivacyGateError
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.ledger.recovery import acknowledge_damage
from pipelines.store.ledger.relocation import acknowledge_copy, register_location
from pipelines.store.place.ledger_file import LedgerError
from pipelines.store.place.location import is_here, location_of
from pipelines.store.place.roots import Roots
from pipelines.store.upkeep.maintenance import verify


def opened(folder: Path, state: str | None = "state") -> Roots:
    return reopen(folder, state=folder.parent / state if state else None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with one release, a backup of it, and one more release."""
    (tmp_path / "store").mkdir()
    register_location(opened(tmp_path / "store"))
    make_release(opened(tmp_path / "store"), 0)
    shutil.copytree(tmp_path / "store", tmp_path / "backup", symlinks=True)
    time.sleep(0.02)
    make_release(opened(tmp_path / "store"), 1)
    return tmp_path / "store"


def by_rsync(backup: Path, store: Path) -> None:
    """As ``rsync -a --delete``: a file of equal size and time stays, any other is written beside it and renamed."""
    remove_others(backup, store)
    for source in (p for p in backup.rglob("*") if p.is_file() and not p.is_symlink()):
        target = store / source.relative_to(backup)
        is_equal = target.exists() and (target.stat().st_size, target.stat().st_mtime_ns) == (
            source.stat().st_size,
            source.stat().st_mtime_ns,
        )
        if not is_equal:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target.with_name(".new"))
            target.with_name(".new").replace(target)


def remove_others(backup: Path, store: Path) -> None:
    for path in sorted(store.rglob("*"), reverse=True):
        if not (backup / path.relative_to(store)).exists() and not path.is_symlink():
            path.rmdir() if path.is_dir() else path.unlink()


def in_place(backup: Path, store: Path) -> None:
    """As ``cp -a`` and ``rsync --inplace`` do: every file keeps its inode."""
    remove_others(backup, store)
    for path in (p for p in store.rglob("*") if p.is_file() and not p.is_symlink()):
        path.write_bytes((backup / path.relative_to(store)).read_bytes())


def private_ledger_alone(backup: Path, store: Path) -> None:
    for name in ("ledger/releases.jsonl", "store.json"):
        shutil.copy(backup / "private" / name, store / "private" / name)


@pytest.mark.parametrize("restore", [by_rsync, in_place, private_ledger_alone])
def test_a_release_that_a_restored_backup_forgets_stops_training(folder: Path, restore) -> None:  # type: ignore[no-untyped-def]
    restore(folder.with_name("backup"), folder)
    roots = opened(folder)
    if restore is in_place:
        assert is_here(roots, location_of(roots))  # type: ignore[arg-type]
    for attempt in (register_location, lambda r: make_release(r, 2)):
        with pytest.raises((LedgerError, PrivacyGateError)) as stopped:
            attempt(roots)
        assert stopped.value.exit_code == 4
    with pytest.raises(LedgerError, match=r"has 2 lines, and .* says that it had 4.*--acknowledge-damage"):
        register_location(roots)
    assert any(c.stage == "ledger" and c.problem for c in verify(roots))
    told = acknowledge_damage(reopen(folder, is_checked=False, state=folder.parent / "state"), "restored")
    assert told["num_lost"] >= 2  # counted as a release without noise
    register_location(opened(folder))
    make_release(opened(folder), 2)


def test_without_a_witness_a_restored_home_is_another_one(folder: Path) -> None:
    by_rsync(folder.with_name("backup"), folder)
    roots = opened(folder, None)
    with pytest.raises(PrivacyGateError, match="put there from a backup"):
        register_location(roots)
    acknowledge_copy(roots, "restored")
    register_location(roots)


def test_machines_that_share_a_store_are_never_locked_out(folder: Path) -> None:
    """The witness of each is behind after the other trained, and is brought up to date."""
    for number, state in enumerate(["other", "state", "other", None, "state"], 2):
        register_location(opened(folder, state))
        make_release(opened(folder, state), number)
    (witness,) = (folder.parent / "state").iterdir()
    assert witness.stat().st_mode & 0o777 == 0o600
    assert folder.name not in witness.read_text()


def test_a_copy_elsewhere_is_not_taken_for_a_restored_store(folder: Path) -> None:
    copy = folder.with_name("copy")
    shutil.copytree(folder.with_name("backup"), copy, symlinks=True)
    with pytest.raises(PrivacyGateError, match="is a copy; the first one lived in"):
        register_location(opened(copy))
    acknowledge_copy(opened(copy), "both go on")
    for number, store in enumerate([copy, folder, copy], 5):
        register_location(opened(store))
        make_release(opened(store), number)


def test_a_state_folder_that_cannot_be_written_costs_the_witness_only(folder: Path) -> None:
    (folder.parent / "file").write_text("")
    register_location(opened(folder, "file"))
    make_release(opened(folder, "file"), 2)
    assert len(read_ledger(opened(folder, "file"))) == 3
    assert (folder.parent / "file").read_text() == ""
