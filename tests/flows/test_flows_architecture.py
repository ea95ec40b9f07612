"""The tables of the rooms are those of the code."""

from __future__ import annotations

import re

from support import REPOSITORY

from flows.docs.architecture import PAGE, direct_imports, imports, room_of, sizes


def test_the_table_of_imports_is_that_of_the_code() -> None:
    """Sizes may be those of the last `make docs`; an import that is new, or gone, may not be missing."""
    assert direct_imports(imports()) in PAGE.read_text("utf-8"), "run `make docs`"


def test_what_is_reached_through_another_room_is_not_listed() -> None:
    found = {"a": {"b", "c", "base"}, "b": {"c"}, "c": {"base"}, "base": set()}
    assert direct_imports(found).splitlines()[2:] == ["| `a` | `b` |", "| `b` | `c` |"]


def test_every_picture_shows_without_a_script():
    """Mermaid needs a script of others on the site, and shows as code without it."""
    pages = [*(REPOSITORY / "docs").rglob("*.md"), *REPOSITORY.glob("*.md")]
    assert not [path.name for path in pages if "```mermaid" in path.read_text("utf-8")]


def test_no_room_is_a_drawer_for_everything() -> None:
    shares = {row[1].strip(): float(row[3].strip(" %")) for row in rows_of(sizes()) if row[3].strip()}
    assert len(shares) > 20
    assert max(shares.values()) <= 15


def rows_of(table: str) -> list[list[str]]:
    return [line.split("|") for line in table.splitlines()[2:]]


def test_the_files_to_touch_are_there() -> None:
    section = PAGE.read_text("utf-8").split("## Where do I")[1].split("## The rooms")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("| a")]
    assert len(rows) == 11
    places = re.findall(r"`((?:\w+/)+[\w.]*|\w+\.toml)`", section)
    missing = [place for place in places if not (PAGE.parents[1] / place).exists()]
    assert missing == []


def test_rooms() -> None:
    assert [room_of(m) for m in ("flows.cli", "pipelines.store.objects.keys", "pipelines.graph", "pipelines")] == [
        "flows",
        "store",
        "base",
        "base",
    ]
