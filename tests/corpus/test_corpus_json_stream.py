"""Parts of JSON files of any size."""

from __future__ import annotations

import io
import json

from corpus_files import peak_of
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.items import BadRow
from pipelines.corpus.json_stream import begun_values, json_parts

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
    found, peak = peak_of(lambda: list(json_parts(file, lambda place: place == "item", limit_bytes=1 << 20)))
    assert found[-1][1].reason == "over_long"
    assert peak < 20 << 20
    assert file.num_bytes < 4 << 20


def test_a_value_that_is_no_json_costs_only_itself():
    values = {
        "1": 'NaN', "2": '"\\ud800"', "3": '{"a": [}', "4": '{"a" "b"}', "5": "[1, }]", "6": "truth", "7": '"\\x"',
        "8": "[" * 3_000 + "]" * 3_000, "9": '{"a": {"b": "}"}}',
    }  # fmt: skip
    text = "{" + ",".join(f'"{key}": {value}' for key, value in values.items()) + ', "last": 1}'
    found = dict(parts(text, lambda place: place != ""))
    reasons = {key: value.reason for key, value in found.items() if isinstance(value, BadRow)}
    assert reasons == {
        "3": "bad_json", "4": "bad_json", "5": "bad_json", "6": "bad_json", "7": "bad_json", "8": "over_long"
    }  # fmt: skip
    assert found["9"] == {"a": {"b": "}"}}
    assert found["last"] == 1


def test_keys_that_are_nested_without_end_take_no_memory():
    found, peak = peak_of(lambda: parts('{"key":' * 100_000, lambda place: place.endswith("item")))
    assert [value.reason for _, value in found] == ["over_long"]
    assert peak < 4 << 20


@given(
    st.recursive(VALUES, lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=5), st.data()
)
def test_a_file_that_ends_anywhere_ends_with_a_reason(value, data):
    text = json.dumps({"a": value, "b": [value]}).encode()
    end = data.draw(st.integers(0, len(text) - 1))
    whole = parts(text.decode(), lambda place: place in ("a", "b.item"))
    found = list(json_parts(io.BytesIO(text[:end]), lambda place: place in ("a", "b.item"), limit_bytes=1 << 20))
    assert isinstance(found[-1][1], BadRow)
    assert found[:-1] == whole[: len(found) - 1] or not isinstance(value, dict | list)  # a number may be cut in two


@given(VALUES, st.data())
def test_the_beginning_of_a_text_gives_what_came_before_the_cut(value, data):
    text = json.dumps([value, {"a": value}]).encode()
    assert begun_values(text * 2, 9) == [[value, {"a": value}]] * 2
    cut = data.draw(st.integers(0, len(text)))
    for found in begun_values(text[:cut], 9):
        assert isinstance(found, list)
        assert _is_beginning(found, [value, {"a": value}])
    assert begun_values(text[:1], 9) == [[]]
    assert begun_values(text[:cut] + b"}]x" + text, 9) is not None


def _is_beginning(part, whole) -> bool:
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(_is_beginning, part, whole))
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _is_beginning(inner, whole[key]) for key, inner in part.items())
    return part == whole


@given(st.binary(max_size=60) | st.text('{}[]":,\\nul 1', max_size=60).map(str.encode))
def test_any_bytes_begin_with_some_values(data):
    assert len(begun_values(data, 3)) <= 3
    assert len(begun_values(b"[" * 100_000 + data, 3)) == 1
