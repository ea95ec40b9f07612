"""Any file of a store's bookkeeping is removed, or has a flipped byte: `verify` notices."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.toy import Toy, drive, use_toy_graph

from pipelines.errors import PrivacyGateError
from pipelines.store.ledger.recovery import acknowledge_damage
from pipelines.store.ledger.relocation import register_location
from pipelines.store.objects import runs
from pipelines.store.objects.session import save_spec
from pipelines.store.place.identity import check_identity
from pipelines.store.place.roots import Roots, open_roots, private_umask
from pipelines.store.place.statcache import StatCache
from pipelines.store.upkeep.maintenance import verify


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Roots:
    toy: Toy = use_toy_graph(monkeypatch, tmp_path)
    toy.write("a.txt", "hello")
    toy.write("b.txt", "world")
    session = toy.session()
    register_location(session.roots)
    save_spec(session)
    with private_umask():
        outcomes = drive(session)
    runs.record(session, outcomes, {"state": "completed", "outputs": {}, "metrics": {}})
    cache = StatCache(session.roots.cache / "inputs.json", session.roots.secret)
    cache.get(toy.input / "a.txt", "digest", lambda path: path.read_text())
    cache.save()
    session.stat_cache.save()
    return session.roots


def problems(roots: Roots) -> list[str]:
    """What the command finds; opening the store is a part of it."""
    try:
        again = open_roots(roots.private, roots.public, create=False)
        return [str(c.problem) for c in verify(again) if c.problem]
    except PrivacyGateError as error:
        return [str(error)]


def one(roots: Roots, pattern: str) -> Path:
    found = sorted(path for path in roots.private.glob(pattern) if path.is_file())
    assert found, pattern
    return found[0]


REMOVED = ("manifests/letters/*.json", "manifests/upper/*.json", "manifests/join/*.json", "runs/*/record.json")
REMOVED += ("runs/*/spec.json", "latest.json", "store.json", "home")
FLIPPED = (*REMOVED, "cache/inputs.json", "cache/code.json")


@pytest.mark.parametrize("pattern", REMOVED)
def test_a_removed_file_is_noticed(roots: Roots, pattern: str) -> None:
    assert problems(roots) == []
    one(roots, pattern).unlink()
    assert problems(roots)


@pytest.mark.parametrize("pattern", FLIPPED)
def test_a_flipped_byte_is_noticed(roots: Roots, pattern: str) -> None:
    path = one(roots, pattern)
    data = path.read_bytes()
    for at in sorted({1, len(data) // 3, len(data) // 2, len(data) - 2}):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x04]) + data[at + 1 :])
        try:
            assert problems(roots), at
        except Exception as error:  # a store that cannot be read
            assert "store.json" in str(error), at
    path.write_bytes(data)
    assert problems(roots) == []


def test_a_removed_store_json_is_not_made_anew_unless_that_is_acknowledged(roots: Roots) -> None:
    """It would forget how long the ledger was, and that this is a copy."""
    (roots.private / "store.json").unlink()
    for create in (True, False):
        with pytest.raises(PrivacyGateError, match=r"store\.json is missing"):
            open_roots(roots.private, roots.public, create=create)
    acknowledge_damage(open_roots(roots.private, roots.public, is_checked=False), "the disk failed")
    check_identity(roots.private, roots.secret)
    register_location(open_roots(roots.private, roots.public))
    assert problems(roots) == []


def test_what_a_kill_leaves_on_its_way_is_no_damage(roots: Roots) -> None:
    path = one(roots, "manifests/join/*.json")
    roots.work_dir("private", path.stem).mkdir()
    path.unlink()
    assert problems(roots) == []
    roots.work_dir("private", path.stem).rmdir()
    assert problems(roots)
    verify(roots, repair=True)
    assert problems(roots) == []


def test_a_damaged_cache_is_as_none_and_removed_by_repair(roots: Roots) -> None:
    path = one(roots, "cache/inputs.json")
    path.write_bytes(path.read_bytes().replace(b"hello", b"jello"))
    assert StatCache(path, roots.secret).peek(roots.private.parent / "input/a.txt", "digest") is None
    verify(roots, repair=True)
    assert not path.exists()


def test_a_run_folder_may_be_removed_whole(roots: Roots) -> None:
    """It is how a run is forgotten whose record was changed."""
    for path in sorted(roots.runs.glob("*/*")):
        path.unlink()
    for folder in roots.runs.iterdir():
        folder.rmdir()
    (roots.private / "latest.json").unlink()
    assert problems(roots) == []
