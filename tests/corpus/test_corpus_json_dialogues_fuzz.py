"""Damaged and hostile dialogues in JSON: nothing crashes, good neighbours are kept, memory is bounded."""

from __future__ import annotations

import copy
import json
import random
import time
from functools import partial
from pathlib import Path

import pytest
from corpus_files import documents, head_of, peak_of, read, rejections
from format_examples_json import CHATGPT, EXAMPLES, FORMATS, OPENAI, chat, lines, whole

from pipelines.corpus.items import Document, Rejected
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.recognise_json import recognise
from pipelines.corpus.recognition import Reading
from pipelines.corpus.scan import scan
from pipelines.errors import InputError

ODD = [
    None, True, 0, -1, 1.5, 10**400, "", " ", "x", "\ud800", "a\x00b", "Ann: a\nBob: b", [], {}, [[]], [None],
    ["a", "b"],
    {"": ""}, {"text": {"text": {"text": []}}}, [{"type": 5}], {"a": [1], "b": [2]}, {"type": "text"}, float("nan"),
]  # fmt: skip
BOMBS = [
    b"[" * 30_000,
    b'{"turns":' * 10_000,
    b'"' + b"x" * 3_000_000,
    b'[{"turns": ["' + b"\\u0041" * 40_000,
    b"\xff" * 9_999,
]


def reading(file_name: str, data: bytes) -> Reading | None:
    return recognise(head_of(file_name, data))


def settings(name: str) -> dict[str, str]:
    return dict(reading(EXAMPLES[name].file_name, EXAMPLES[name].data).fields)


def items_of(path: Path, format: str, **fields: object) -> list[Document | Rejected]:
    try:
        return read(path, format, **fields)
    except InputError:  # no row at all, such as brackets alone
        return []


def read_bytes(path: Path, data: bytes, name: str) -> list[Document | Rejected]:
    path.write_bytes(data)
    return items_of(path, FORMATS[name], max_document_chars=100_000, **settings(name))


def paths(value, path=()):
    """All places in a value of JSON."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths(value[key], (*path, key))


def changed(value, rng: random.Random):
    """A copy with an odd value somewhere, or another key."""
    value = copy.deepcopy(value)
    path = rng.choice([p for p in paths(value) if p])
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    if rng.random() < 0.15 and isinstance(inner, dict):
        inner[rng.choice(["", ".", "*", "text", "a.b"])] = inner.pop(path[-1])
    else:
        inner[path[-1]] = rng.choice(ODD)
    return value


@pytest.mark.parametrize("places", [10, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_file_that_ends_anywhere_keeps_what_came_before(tmp_path, name, places):
    example = EXAMPLES[name]
    path = tmp_path / example.file_name
    full = [document.text for document in documents(read_bytes(path, example.data, name))]
    rng = random.Random(name)
    for end in sorted(rng.sample(range(len(example.data)), min(places, len(example.data)))):
        items = read_bytes(path, example.data[:end], name)
        kept = [document.text for document in documents(items)]
        assert kept == full[: len(kept)]
        visible = example.data[:end].strip(b" \n\r\t[")
        assert (
            len(kept) == len(full) or rejections(items) or not visible or visible.endswith((b"}", b"},", b"],", b"]"))
        )
        reading(example.file_name, example.data[:end])


@pytest.mark.parametrize("rounds", [15, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EXAMPLES)
def test_odd_values_anywhere_are_read_or_rejected(tmp_path, name, rounds):
    rng = random.Random(name)
    example = EXAMPLES[name]
    is_lines = example.file_name.endswith("l")
    value = [json.loads(line) for line in example.data.splitlines()] if is_lines else json.loads(example.data)
    path = tmp_path / example.file_name
    for _ in range(rounds):
        odd = changed(value, rng)
        for _ in range(rng.randrange(3)):
            odd = changed(odd, rng) if isinstance(odd, dict | list) and odd else odd
        data = lines(*odd) if is_lines and isinstance(odd, list) else whole(odd)
        read_bytes(path, data, name)
        found = reading(example.file_name, data)
        assert found is None or 0 <= found.score <= 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_good_dialogues_beside_odd_ones_are_kept(tmp_path, name):
    rng = random.Random(name)
    example = EXAMPLES[name]
    is_lines = example.file_name.endswith("l")
    value = [json.loads(line) for line in example.data.splitlines()] if is_lines else json.loads(example.data)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    if len(keys) < 2 or isinstance(value, dict) != (name == "multiwoz") or name == "segments_only":
        return  # one dialogue, or not at the top
    path = tmp_path / example.file_name
    full = {d.row: d.text for d in documents(read_bytes(path, example.data, name))}
    for _ in range(40):
        at = rng.randrange(len(keys))
        one = value[keys[at]]
        odd = {**value} if isinstance(value, dict) else [*value]
        odd[keys[at]] = changed(one, rng) if rng.random() < 0.7 else rng.choice(ODD[:6])
        items = documents(read_bytes(path, lines(*odd) if is_lines else whole(odd), name))
        texts = [document.text for document in items]
        assert all(text in texts for row, text in full.items() if row != at + 1)


def test_junk_between_rows_costs_only_itself(tmp_path):
    rng = random.Random(7)
    good = json.dumps({"messages": OPENAI}).encode()
    marks = [b"a", b'"', b"{", b"}", b"[", b":", b"\\", b"\xff", b"\x00", b'{"messages":', b'[{"role":', b"9" * 5000]
    rows = [b"".join(rng.choices(marks, k=rng.randrange(12))) if n % 3 else good for n in range(900)]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(rows))
    items = read(path, "messages")
    assert len(documents(items)) == 300
    assert len(rejections(items)) == sum(bool(row.strip()) for n, row in enumerate(rows) if n % 3)


@pytest.mark.parametrize("bomb", range(len(BOMBS)))
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@pytest.mark.slow
def test_bombs_are_rejected(tmp_path, bomb, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(BOMBS[bomb])
    for format in ("turns", "diarised", "chatgpt", "instructions"):
        for place in ("", "*.turns", "a.*", ".") if suffix == ".json" and format == "turns" else ("",):
            started = time.process_time()
            items, peak = peak_of(partial(items_of, path, format, max_document_chars=1000, turns_field=place))
            assert documents(items) == []
            assert peak < 40 << 20
            assert time.process_time() - started < 30
    assert reading(path.name, BOMBS[bomb][: 1 << 20]) is None


def test_deep_parts_and_long_branches_end(tmp_path):
    deep: object = "x"
    for _ in range(400):
        deep = (
            [{"type": "text", "text": deep, "content": deep, "display": deep}] if not isinstance(deep, str) else [deep]
        )
        deep = deep if len(str(deep)) < 10_000 else deep[:1] and [{"type": "text", "text": deep[0]}]
        if len(str(deep)) > 100_000:
            break
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines({"messages": [*OPENAI, {"role": "user", "content": deep}], "utterances": [{"text": deep}]}))
    assert len(documents(read(path, "messages"))) == 1
    assert rejections(read(path, "messages")) == [(1, "wrong_type")]
    read(path, "diarised")
    node = CHATGPT["mapping"]["n1"]
    nodes = {str(n): {**node, "parent": str(n - 1)} for n in range(20_000)}
    path.write_bytes(lines({"mapping": nodes, "current_node": "19999"}))
    (found,) = documents(read(path, "chatgpt"))
    assert found.num_rows == 20_000


@pytest.mark.slow
def test_an_object_of_many_dialogues_is_read_in_bounded_memory(tmp_path):
    path = tmp_path / "a.json"
    record = json.dumps({"log": chat("speaker", "text", ("USER", "SYSTEM"), meta=["x" * 50] * 20)})
    with path.open("w") as file:
        file.write("{" + ",".join(f'"d{n}.json": {record}' for n in range(1_500)) + "}")

    def number_of_documents():
        options = ReadOptions(turns_field="*.log")
        (part,) = scan([path], base_dir=tmp_path, format="turns", options=options, secret=b"k")
        return sum(isinstance(item, Document) for item in read_documents(part.pieces[0], options))

    number, peak = peak_of(number_of_documents)
    assert number == 1_500
    assert path.stat().st_size > 4 << 20
    assert peak < 3 << 20


def test_random_bytes_are_recognised_as_nothing():
    rng = random.Random(11)
    for _ in range(300):
        data = rng.choice([b"{", b"[", b'[{"', b"\xef\xbb\xbf{"]) + rng.randbytes(rng.randrange(400))
        assert reading(rng.choice(["a.json", "a.jsonl", "a.txt"]), data) is None
