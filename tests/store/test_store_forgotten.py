"""The list of what was forgotten is anchored in the ledger: without it, or with an older one, nothing is read again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.patches import patching
from test_store_ledger import roots

from pipelines.store.ledger.recovery import acknowledge_damage
from pipelines.store.objects.forgotten import (
    Subject,
    add_forgotten,
    enter_list,
    forgotten_path,
    read_forgotten,
)
from pipelines.store.objects.ledger_lines import ledger_dir
from pipelines.store.place.ledger_file import FILE, LedgerError
from pipelines.store.place.roots import Roots
from pipelines.store.upkeep.maintenance import verify

__all__ = ["roots"]
FIRST, SECOND = Subject("a.txt"), Subject("b.jsonl", "17")


def is_noticed(roots: Roots) -> bool:
    return any(c.stage == "ledger" and c.problem for c in verify(roots))


@pytest.mark.parametrize("damage", ["removed", "older"])
def test_a_removed_or_older_list_is_noticed_and_nothing_is_read(roots: Roots, tmp_path: Path, damage: str) -> None:
    add_forgotten(roots, [FIRST], [])
    shutil.copy(forgotten_path(roots), tmp_path / "backup")
    add_forgotten(roots, [SECOND], ["key"])
    assert not is_noticed(roots)
    if damage == "removed":
        forgotten_path(roots).unlink()
    else:
        shutil.copy(tmp_path / "backup", forgotten_path(roots))
    assert is_noticed(roots)
    for attempt in (read_forgotten, lambda r: add_forgotten(r, [FIRST], [])):
        with pytest.raises(LedgerError, match="Restore the newest copy") as stopped:
            attempt(roots)
        assert stopped.value.exit_code == 4
    acknowledge_damage(roots, "no backup")
    assert not is_noticed(roots)
    assert read_forgotten(roots).holds(roots.secret, FIRST) == (damage == "older")
    add_forgotten(roots, [FIRST, SECOND], [])
    assert read_forgotten(roots).holds(roots.secret, SECOND)


def test_a_kill_between_the_list_and_its_line_is_made_good(roots: Roots) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for subject in (FIRST, SECOND):
        with patching() as patch:
            patch("pipelines.store.objects.forgotten", "append", killed)
            with pytest.raises(KeyboardInterrupt):
                add_forgotten(roots, [subject], [])
        assert read_forgotten(roots).holds(roots.secret, subject)
        for _ in range(2):
            enter_list(roots)
    assert (ledger_dir(roots) / FILE).read_text().count('"type":"forgot"') == 2
    assert not is_noticed(roots)
