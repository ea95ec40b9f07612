"""The drawing of the rooms and their imports is that of the code."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from support import REPOSITORY

from flows.docs.architecture import BEGIN, PAGE, PICTURE, arrows, drawing, imports, page, room_of, sizes
from flows.docs.layers import svg


def test_the_drawing_is_that_of_the_code() -> None:
    """Sizes may be those of the last `make docs`; an import that is new, or gone, may not be missing."""
    assert drawing(imports()) == PICTURE.read_text("utf-8"), "run `make docs`"
    assert f"](images/{PICTURE.name})" in PAGE.read_text("utf-8")


def test_what_is_reached_through_another_room_is_not_drawn() -> None:
    found = {"a": {"b", "c", "base"}, "b": {"c"}, "c": {"base"}, "base": set()}
    assert arrows(found) == [("a", "b"), ("b", "c")]


def test_rooms_that_import_each_other_are_all_drawn() -> None:
    found = {"a": {"b"}, "b": {"a", "c"}, "c": set()}
    assert arrows(found) == [("a", "b"), ("b", "a"), ("b", "c")]


def drawn(edges):
    """Places of the boxes, and the first and last point of each arrow with its colour."""
    root = ElementTree.fromstring(svg(edges, "t"))
    rects = list(root.findall("{*}rect"))[1:]
    corners = [[float(rect.attrib[name]) for name in ("x", "y", "width", "height")] for rect in rects]
    boxes = dict(zip([text.text for text in root.findall("{*}text")], corners, strict=True))
    lines = []
    for line in root.findall("{*}polyline"):
        points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        lines.append((points[0], points[-1], line.attrib["marker-end"]))
    return boxes, lines


def touches(point, box):
    x, y, width, height = box
    return x <= point[0] <= x + width and point[1] in (y, y + height)


@pytest.mark.parametrize("edges", [arrows(imports()), [("a", "b"), ("b", "c"), ("a", "c"), ("a", "d"), ("d", "c")]])
def test_arrows_lead_down_from_box_to_box_and_boxes_do_not_overlap(edges):
    boxes, lines = drawn(edges)
    assert len(lines) == len(edges)
    for (a, b), (start, end, _) in zip(sorted(edges), lines, strict=True):
        assert touches(start, boxes[a])
        assert touches(end, boxes[b])
        assert start[1] < end[1]
    for x, y, width, _ in boxes.values():
        assert not [other for other in boxes.values() if other[1] == y and x < other[0] < x + width]


def test_what_goes_round_is_drawn_both_ways_and_red():
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
    boxes, lines = drawn(edges)
    for (a, b), (start, end, colour) in zip(edges, lines, strict=True):
        assert touches(start, boxes[a])
        assert touches(end, boxes[b])
        assert colour == ("url(#arrow)" if b == "d" else "url(#knot)")


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


def test_the_words_around_the_drawing_stay() -> None:
    text = f"before\n{BEGIN}\nold\n<!-- end -->\nafter\n"
    made = page(text)
    assert made.startswith(f"before\n{BEGIN}\n")
    assert made.endswith("<!-- end -->\nafter\n")
    assert "\nold\n" not in made
    assert page(made) == made


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
