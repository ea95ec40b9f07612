"""The tutorials run from top to bottom as they stand. (`improve.py`: tests/miss_rate/test_miss_rate_improve.py.)"""

from __future__ import annotations

import pytest
from support import REPOSITORY
from support.tutorial import blocks, run_page

FOLDER = REPOSITORY / "docs" / "tutorials"
ELSEWHERE = {"README.md", "improve.md"}
ALONE = {"policy.md"}
"""The page whose commands are processes of their own, with a server each. Most of what these cost is loading."""
PAGES = sorted(page.name for page in FOLDER.glob("*.md") if page.name not in ELSEWHERE)


def test_a_page_that_fails_is_found_and_variables_stay(tmp_path):
    page = REPOSITORY / "docs" / "none.md"

    class Page(type(page)):
        def read_text(self, *_):
            first = "```sh\nexport WHO=me\n```\n```python\nx = 1\n```\n```toml\nno\n```\n"
            return f"{first}```sh\necho $WHO $(reticent --help | wc -l)\nfalse\n```\n"

    with pytest.raises(AssertionError, match=r"(?s)none.md, block 3 ended with 1:\nme [1-9]"):
        run_page(Page(page), tmp_path / "a")


def test_every_tutorial_has_code_and_a_place_in_the_list():
    listed = (FOLDER / "README.md").read_text("utf-8")
    assert len(PAGES) > 5
    for name in PAGES:
        assert blocks((FOLDER / name).read_text("utf-8"))
        assert f"({name})" in listed


@pytest.mark.slow
def test_from_opacus(tmp_path):
    run_page(FOLDER / "opacus.md", tmp_path / "opacus")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PAGES if name != "opacus.md"])
def test_the_tutorial_runs(name, tmp_path):
    run_page(FOLDER / name, tmp_path / "tour", is_alone=name in ALONE)
