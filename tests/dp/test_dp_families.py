"""The table of model families in docs/engine.md is what the engine does."""

import pytest
from families import FAMILIES, MODES, outcome
from support import REPOSITORY


def documented():
    """The cells of the table, by family and mode."""
    page = (REPOSITORY / "docs" / "engine.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    start = rows.index(["family", *MODES])
    return {row[0]: dict(zip(MODES, row[1:], strict=True)) for row in rows[start + 2 : start + 2 + len(FAMILIES)]}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_as_documented(name):
    modes = [mode for mode in MODES if mode != "torch.compile" or name in ("GPT-2", "T5")]  # compiling takes longest
    assert {mode: outcome(name, mode) for mode in modes} == {mode: documented()[name][mode] for mode in modes}


def test_every_family_is_documented_and_none_is_wrong():
    cells = documented()
    assert list(cells) == list(FAMILIES)
    assert not any("wrong" in cell for row in cells.values() for cell in row.values())
    assert sum(not row["full"].startswith("refused") for row in cells.values()) >= 14
