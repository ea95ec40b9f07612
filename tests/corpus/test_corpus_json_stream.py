"""Parts of JSON files of any size."""

from __future__ import annotations

import io
import json
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.items import BadRow
from pipelines.corpus.json_stream import json_parts

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4),
    max_leaves=12,
)


def parts(value: str, wants, limit: int = 1 << 20):
    return list(json_parts(io.BytesIO(value.encode()), wants, limit_bytes=limit))


@given(st.lists(VALUES, max_size=6))
def test_elements_of_an_array_are_those_that_json_reads(values):
    assert parts(json.dumps(values), lambda place: place == "item") == [("item", value) for value in values]


@given(VALUES)
def test_the_whole_value_is_one_part(value):
    assert parts(json.dumps(value), lambda place: place == "") == [("", value)]


def test_scalars_and_lists_of_several_places_come_in_order():
    text = json.dumps({"name": "x", "chats": [{"id": 1, "messages": [{"a": 1}, {"a": 2}]}]})
    wanted = {"name", "chats.item.id", "chats.item.messages.item"}
    assert parts(text, wanted.__contains__) == [
        ("name", "x"), ("chats.item.id", 1), ("chats.item.messages.item", {"a": 1}),
        ("chats.item.messages.item", {"a": 2}),
    ]  # fmt: skip


def test_a_truncated_file_keeps_what_came_before():
    (first, second) = parts('[{"a": 1}, {"b": ', lambda place: place == "item")
    assert first == ("item", {"a": 1})
    assert isinstance(second[1], BadRow)
    assert second[1].reason == "bad_json"


def test_a_long_element_is_rejected_and_its_neighbours_are_read():
    long = [["x" * 50_000] * 10]
    found = parts(json.dumps([1, long, 2]), lambda place: place == "item", limit=100_000)
    assert [value if isinstance(value, int) else value.reason for _, value in found] == [1, "over_long", 2]


def test_a_deep_element_is_rejected_and_its_neighbours_are_read():
    found = parts(f"[1, {'[' * 5000}{']' * 5000}, 2]", lambda place: place == "item")
    assert [value if isinstance(value, int) else value.reason for _, value in found] == [1, "over_long", 2]


def test_one_endless_string_takes_no_more_memory_than_the_limit():
    class Endless(io.RawIOBase):
        num_bytes = 0

        def read(self, size=-1):
            assert self.num_bytes < 1 << 28
            data = (b'["' if self.num_bytes == 0 else b"").ljust(size, b"x")[:size]
            self.num_bytes += size
            return data

    file = Endless()
    tracemalloc.start()
    found = list(json_parts(file, lambda place: place == "item", limit_bytes=1 << 20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[-1][1].reason == "over_long"
    assert peak < 20 << 20
    assert file.num_bytes < 4 << 20
