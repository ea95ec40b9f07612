"""Marks of what is filled into our own sentences: where they are, and what they are left off from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines import filled_in
from pipelines.filled_in import END, START, FilledIn, fill, filled_ranges, mark_document, without_marks


@given(st.lists(st.tuples(st.text("ab \n"), st.booleans())))
def test_ranges_are_those_of_the_values(pieces: list[tuple[str, bool]]) -> None:
    text = "".join(f"{START}{piece}{END}" if is_filled else piece for piece, is_filled in pieces)
    expected = [is_filled for piece, is_filled in pieces for _ in piece]
    ranges = filled_ranges(text)
    assert [any(a <= at < b for a, b in ranges) for at in range(len(without_marks(text)))] == expected


def test_a_marked_string_is_compared_as_the_plain_one() -> None:
    name: Any = mark_document("zebulon")
    assert isinstance(name, FilledIn)
    assert name == "zebulon"
    assert name != "other"
    assert {"zebulon": 1}[name] == {name: 1}["zebulon"] == 1
    for names in (
        ["ab", "abc", "b"],
        ["ab", mark_document("abc"), "b"],
        [mark_document("ab"), "abc", mark_document("b")],
    ):
        assert sorted(names, reverse=True)[::-1] == ["ab", "abc", "b"]
    assert f"{name}" == f"{START}zebulon{END}"
    assert str.__str__(fill("at most {n} of {name}", n=128, name="zebulon")) == f"at most 128 of {START}zebulon{END}"


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        (
            "the unit of privacy is one sentence. A person or a fact may be spread over many of them, and is then "
            "protected less",
            "sentence",
        ),
        ("validation and test folds are public", ""),
        (
            "sentences of fewer than 123 tokens are not deduplicated. A secret in k copies of such a sentence is a "
            "group of k",
            "",
        ),
        *(
            (f"The noise of this training is calibrated for ε = 3 at δ = {delta} (one private record replaced). ", "")
            for delta in ("0.01", "10⁻⁵", "1.5 × 10⁻⁵")
        ),
        ("call 123", "call 123"),
        ("call 10⁻⁵", "call 10⁻⁵"),
        ("validation and test folds are public 123", " 123"),
        ("", ""),
    ],
)
def test_only_what_the_source_does_not_say_is_filled_in(value: str, filled: str) -> None:
    text = str.__str__(mark_document(value))
    plain = without_marks(text)
    assert plain == value
    assert "".join(plain[a:b] for a, b in filled_ranges(text)) == filled


def test_docstrings_and_comments_are_no_wording_of_ours() -> None:
    """The author of a paper who is named in one would pass for a word of ours."""
    docstring = (filled_in.__doc__ or "").split("\n")[0]
    assert filled_ranges(mark_document(docstring)) == [(0, len(docstring))]
