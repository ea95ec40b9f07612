"""What a run has published others in the place of leaves the public root; models, and what is shown, stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.toy import publishing

from pipelines.store.objects.publish import quarantine
from pipelines.store.place.disk import replace_link
from pipelines.store.place.locks import store_lock
from pipelines.store.place.roots import Roots, open_roots, private_umask
from pipelines.store.upkeep.public_cleanup import remove_superseded, superseded


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return open_roots(tmp_path / "private", tmp_path / "public")


def make(roots: Roots, stage: str, key: str) -> tuple[str, str]:
    with publishing(roots, stage, key) as folders:
        for root, folder in folders.items():
            (folder / "file").write_text(f"{root} {key}")
    return stage, key


def public_keys(roots: Roots, stage: str) -> set[str]:
    return {path.name for path in (roots.public / "objects" / stage).glob("*")}


def test_what_a_run_supersedes_leaves_the_public_root_and_models_stay(roots: Roots) -> None:
    """Guards tables under an older policy, and older reports, that lie beside claims which do not cover them."""
    used = [make(roots, "publish", "new"), make(roots, "report", "new"), make(roots, "train", "new")]
    for stage in ("publish", "report", "train"):
        make(roots, stage, "old")
    make(roots, "publish", "shown")
    replace_link(roots.public / "latest" / "public", roots.object_dir("public", "publish", "shown"))
    (roots.public / "objects" / "shard" / "first-version").mkdir(parents=True)  # which published its shards
    make(roots, "publish", "damaged")
    with private_umask():
        quarantine(roots, "publish", "damaged")
        quarantine(roots, "train", "old")
    assert len(list(superseded(roots, used))) == 4
    assert remove_superseded(roots, used) == 4
    assert public_keys(roots, "publish") == {"new", "shown"}
    assert public_keys(roots, "report") == {"new"}
    assert public_keys(roots, "shard") == set()
    assert public_keys(roots, "train") == {"new"}
    assert [path.name.split("-")[0] for path in (roots.public / "quarantine").iterdir()] == ["train"]
    assert not roots.manifest_path("publish", "old").exists()  # so that it is made again where it is needed
    assert not roots.object_dir("private", "publish", "old").exists()
    assert remove_superseded(roots, used) == 0


def test_nothing_is_removed_while_another_run_holds_the_store(roots: Roots) -> None:
    make(roots, "publish", "old")
    with store_lock(roots.private):
        assert remove_superseded(roots, []) is None
    assert public_keys(roots, "publish") == {"old"}
