"""The list of what was forgotten is anchored in the ledger: without it, or with an older one, nothing is read again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.patches import killed_at
from test_store_ledger import roots

from pipelines.context import Piece
from pipelines.corpus.forgotten import is_forgotten
from pipelines.corpus.items import Document
from pipelines.store.ledger.recovery import acknowledge_damage
from pipelines.store.objects.forgotten import Subject, add_forgotten, enter_list, forgotten_path, read_forgotten
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
    for subject in (FIRST, SECOND):
        with killed_at("pipelines.store.objects.forgotten", "append"):
            add_forgotten(roots, [subject], [])
        assert read_forgotten(roots).holds(roots.secret, subject)
        for _ in range(2):
            enter_list(roots)
    assert (ledger_dir(roots) / FILE).read_text().count('"type":"forgot"') == 2
    assert not is_noticed(roots)


def test_a_document_is_known_by_the_place_of_its_file_as_well(roots: Roots, tmp_path: Path) -> None:
    """A file has another name in the corpus where `corpus.inputs` says another folder or pattern."""

    def leaves_out(name: str, source_id: str, path: Path) -> bool:
        piece = Piece(path=str(path), name=name, format="jsonl", start_byte=0, end_byte=1, first_row=1, digest="d")
        (marked,) = read_forgotten(roots).marked(roots.secret, [piece])
        document = Document(name=name, row=1, text="text", source_id=source_id)
        return is_forgotten(roots.secret, marked, document)

    path, other = tmp_path / "b.jsonl", tmp_path / "other" / "b.jsonl"
    add_forgotten(roots, [SECOND], [], {SECOND.file: path})
    add_forgotten(roots, [Subject("nights/b.jsonl", "18")], [], {"nights/b.jsonl": path})
    for name in (SECOND.file, "nights/b.jsonl", "all/nights/b.jsonl"):
        assert leaves_out(name, "17", path)
        assert leaves_out(name, "18", path)
        assert not leaves_out(name, "19", path)
    assert leaves_out(SECOND.file, "17", other)  # moved
    assert not leaves_out("all/b.jsonl", "17", other)
