"""A copy of a private root is noticed before it spends; a store that was not copied never is."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.patches import Patch, killed_at
from test_store_ledger_edits import make_release, reopen

from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.store.ledger import relocation as moving
from pipelines.store.ledger.ledger import copies_of, read_ledger
from pipelines.store.ledger.recovery import acknowledge_damage
from pipelines.store.ledger.relocation import accept_retired, acknowledge_copy, register_location, retire
from pipelines.store.place import location as home
from pipelines.store.place.ledger_file import FILE
from pipelines.store.place.location import MARKER, is_here, location_of, location_problem


@pytest.fixture
def folder(tmp_path: Path, patch: Patch) -> Path:
    """A store that has released one model, on a machine called alpha; the test itself runs on beta."""
    (tmp_path / "store").mkdir()
    roots = reopen(tmp_path / "store")
    patch(home.platform, "node", lambda: "alpha", read_by=home)
    register_location(roots)
    make_release(roots, 0)
    patch(home.platform, "node", lambda: "beta", read_by=home)
    time.sleep(0.02)  # the clock of the disk: a copy is not made in the tick that the first one was
    return tmp_path / "store"


def copy(folder: Path, name: str = "copy") -> Path:
    return shutil.copytree(folder, folder.with_name(name), symlinks=True)


def test_a_copy_stops_before_anything_is_charged_and_says_what_to_do(folder: Path) -> None:
    roots = reopen(copy(folder))
    ledger = (roots.private / "ledger" / FILE).read_bytes()
    for attempt in (lambda: register_location(roots), lambda: make_release(roots, 1)):
        with pytest.raises(PrivacyGateError, match=r"is a copy; the first one lived in .* on alpha") as no:
            attempt()
        assert "reticent retire" in str(no.value)
        assert "--acknowledge-copy REASON" in str(no.value)
    assert (roots.private / "ledger" / FILE).read_bytes() == ledger
    assert len(read_ledger(roots)) == 1  # to look at it is nobody's loss
    make_release(reopen(folder), 1)  # the first one goes on


def test_a_copy_of_a_retired_root_takes_over_and_the_old_one_trains_no_more(folder: Path) -> None:
    first = reopen(folder)
    assert retire(first) == retire(first)
    second = reopen(copy(folder))
    for _ in range(2):
        register_location(second)
    make_release(second, 1)
    with pytest.raises(PrivacyGateError, match="was retired"):
        register_location(first)
    with pytest.raises(PrivacyGateError, match="was retired"):
        make_release(first, 1)
    assert not copies_of(second)
    assert location_problem(reopen(copy(folder.with_name("copy"), "third")))


def test_a_copy_that_was_made_before_takes_over_with_the_proof(folder: Path) -> None:
    first, second = reopen(folder), reopen(copy(folder))
    with pytest.raises(ConfigError, match=r"is a copy: retire the store in .* on alpha"):
        retire(second)
    proof = retire(first)["proof"]
    for wrong in ("", "0" * len(proof)):
        with pytest.raises(PrivacyGateError, match="not the proof"):
            accept_retired(second, wrong)
    accept_retired(second, f" {proof}\n")
    make_release(second, 1)
    assert len(read_ledger(second)) == 2
    with pytest.raises(ConfigError, match="is no copy"):
        accept_retired(second, proof)


def test_a_proof_does_not_hold_for_a_copy_that_lacks_a_release(folder: Path) -> None:
    """It would forget what the old root released after the copy was made."""
    second = reopen(copy(folder))
    make_release(reopen(folder), 1)
    with pytest.raises(PrivacyGateError, match="something was released after the copy"):
        accept_retired(second, retire(reopen(folder))["proof"])
    assert location_problem(second)


@pytest.mark.parametrize("is_retired", [False, True])
def test_two_that_both_spend_are_acknowledged_in_the_ledger(folder: Path, is_retired: bool) -> None:
    if is_retired:
        retire(reopen(folder))
    roots = reopen(folder if is_retired else copy(folder))
    with pytest.raises(ConfigError, match="needs a reason"):
        acknowledge_copy(roots, " ")
    acknowledge_copy(roots, "the old disk died")
    register_location(roots)
    make_release(roots, 1)
    assert [copy["reason"] for copy in copies_of(roots)] == ["the old disk died"]
    acknowledge_copy(roots, "and at home")
    assert [copy["reason"] for copy in copies_of(roots)] == ["the old disk died", "and at home"]


def _as_it_is(folder: Path) -> Path:
    return folder


def _moved(folder: Path) -> Path:
    return folder.rename(folder.with_name("elsewhere"))


def _under_another_name(folder: Path) -> Path:
    folder.with_name("mounted").symlink_to(folder)
    return folder.with_name("mounted")


def _with_other_owner_or_mode(folder: Path) -> Path:
    (folder / "private" / MARKER).chmod(0o640)
    os.utime(folder / "private" / MARKER)
    return folder


def _with_other_inodes(folder: Path) -> Path:
    """As some network disks give after each mount; the change time stays."""
    document = location_of(reopen(folder))
    assert document is not None
    assert is_here(reopen(folder), replace(document, inode=1))
    assert not is_here(reopen(folder), replace(document, inode=1, changed_ns=1))
    return folder


@pytest.mark.parametrize(
    "change", [_as_it_is, _moved, _under_another_name, _with_other_owner_or_mode, _with_other_inodes]
)
def test_a_store_that_is_the_only_one_goes_on(folder: Path, change: Callable[[Path], Path]) -> None:
    """On any machine or container that mounts it; an upgrade of an older store is one of `test_store_upgrades`."""
    roots = reopen(change(folder))
    ledger = (roots.private / "ledger" / FILE).read_bytes()
    register_location(roots)
    assert (roots.private / "ledger" / FILE).read_bytes() == ledger
    make_release(roots, 1)


def test_a_store_of_a_version_that_did_not_note_it_lives_where_it_runs_first(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    roots = reopen(tmp_path / "store")
    make_release(roots, 0)
    assert location_of(roots) is None
    register_location(roots)
    assert is_here(roots, location_of(roots))  # type: ignore[arg-type]
    assert location_problem(roots) is None
    time.sleep(0.02)
    assert location_problem(reopen(copy(tmp_path / "store")))


def test_a_marker_that_a_backup_left_out_is_a_copy(folder: Path) -> None:
    target = copy(folder)
    (target / "private" / MARKER).unlink()
    assert location_problem(reopen(target))


@pytest.mark.parametrize("step", ["append", "location.record_location"])
def test_a_kill_while_a_copy_takes_over_is_made_good_by_the_next_run(folder: Path, step: str) -> None:
    retire(reopen(folder))
    roots = reopen(copy(folder))
    with killed_at(*f"pipelines.store.ledger.relocation.{step}".rsplit(".", 1)):
        register_location(roots)
    register_location(roots)
    make_release(roots, 1)


def test_a_kill_while_a_root_is_retired_leaves_none_that_trains(folder: Path) -> None:
    roots = reopen(folder)
    with killed_at(moving, "append"):
        retire(roots)
    with pytest.raises(PrivacyGateError, match="was retired"):
        make_release(roots, 1)
    assert retire(roots)["num_lines"] == 2


def test_acknowledged_damage_forgets_no_copy(folder: Path) -> None:
    roots = reopen(folder)
    acknowledge_copy(roots, "taken to beta")
    path = roots.private / "ledger" / FILE
    path.write_bytes(path.read_bytes().replace(b'"noise_multiplier":4.0', b'"noise_multiplier":9.0'))
    acknowledge_damage(roots, "edited by hand")
    assert [copy["reason"] for copy in copies_of(roots)] == ["taken to beta"]
    assert location_problem(roots) is None
