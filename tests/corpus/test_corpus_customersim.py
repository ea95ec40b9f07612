import functools
import json
import re
import subprocess
import sys
from collections import Counter
from itertools import islice
from statistics import mean

import pytest

from pipelines.corpus.customersim import simulate, write_customersim
from pipelines.corpus.customersim.templates import LABELS, PLACEHOLDER, TEMPLATE_SETS, Talk
from pipelines.corpus.listing import list_files
from pipelines.errors import ConfigError, InputError

N = 600


@functools.cache
def simulated(name):
    return list(simulate(N, 7, name))


@pytest.fixture
def silent(patch):
    """The same dialogues without talk."""
    for name in ("A", "B"):
        simulated(name)  # with talk, before it is taken away
    patch(Talk, "played", lambda *_: ([], []))
    return {name: list(simulate(N, 7, name)) for name in ("A", "B")}


def secrets(d: dict, *labels: str) -> list[str]:
    """The values of the spans, or of those with the labels."""
    return [d["text"][s["start"] : s["end"]] for s in d["spans"] if not labels or s["label"] in labels]


@pytest.mark.parametrize("name", ["A", "B"])
def test_without_talk_it_looks_like_the_original(silent, name):
    """The original has 8.5 turns and 73 words a dialogue."""
    turns = [d["text"].count("\n") for d in silent[name]]
    words = [len(d["text"].split()) for d in silent[name]]
    assert mean(turns) == pytest.approx(8.5, abs=1)
    assert mean(words) == pytest.approx(73, abs=10)
    assert min(turns) >= 6


@pytest.mark.parametrize("name", ["A", "B"])
def test_talk_holds_no_secret_and_seldom_repeats(silent, name):
    talk = Counter()
    for d, without in zip(simulated(name), silent[name], strict=True):
        assert secrets(d) == secrets(without)
        added = d["text"].splitlines()
        for line in without["text"].splitlines():
            added.remove(line)
        talk.update(added)
    assert talk.total() > 2 * N
    assert len(talk) > 0.6 * talk.total()
    assert not any(PLACEHOLDER.search(line) or "  " in line or line.endswith(" ") for line in talk)


@pytest.mark.parametrize("name", ["A", "B"])
def test_turns_alternate(name):
    for d in simulated(name):
        lines = d["text"].split("\n")
        assert lines.pop() == ""
        assert [line[:5] for line in lines] == [("SYS: ", "USR: ")[i % 2] for i in range(len(lines))]


@pytest.mark.parametrize("name", ["A", "B"])
def test_spans_are_every_occurrence_of_every_secret(name):
    seen = Counter()
    for d in simulated(name):
        spans = {(s["start"], s["end"]) for s in d["spans"]}
        assert len(spans) == len(d["spans"])
        assert [s["start"] for s in d["spans"]] == sorted(s["start"] for s in d["spans"])
        seen.update(s["label"] for s in d["spans"])
        for value in secrets(d):
            assert value == value.strip()
            assert "\n" not in value
            found = {m.span() for m in re.finditer(re.escape(value), d["text"])}
            assert found <= spans
    assert set(seen) == set(LABELS)
    assert min(seen.values()) > N / 5


def without_secrets(d: dict) -> list[str]:
    text = d["text"]
    for s in reversed(d["spans"]):
        text = text[: s["start"]] + "_" + text[s["end"] :]
    return text.splitlines()


def test_the_two_sets_share_no_turn_and_no_format():
    turns = {name: Counter(t for d in simulated(name) for t in without_secrets(d)) for name in ("A", "B")}
    shared = set(turns["A"]) & set(turns["B"])
    assert shared <= {"USR: _"}  # a bare answer
    talk = {name: TEMPLATE_SETS[name].talk for name in ("A", "B")}
    for field in ("opening", "closing"):
        said = {name: {turn for exchange in getattr(talk[name], field) for turn in exchange} for name in talk}
        assert not said["A"] & said["B"], field
    lines = {name: {line for lines in talk[name].words.values() for line in lines} for name in talk}
    assert lines["A"] & lines["B"] <= {""}
    for field in ("greetings", "hellos", "items", "requests", "resolutions", "more", "dones", "byes", "farewells"):
        assert not set(getattr(TEMPLATE_SETS["A"], field)) & set(getattr(TEMPLATE_SETS["B"], field)), field
    shapes = {}
    for name in ("A", "B"):
        dialogues = simulated(name)
        shapes[name] = {
            (label, re.sub(r"[0-9]", "0", re.sub(r"[A-Z0-9]{10}", "T" * 10, value)))
            for d in dialogues
            for label in ("PHONE", "ORDER", "TRACKING")
            for value in secrets(d, label)
        }
    assert not shapes["A"] & shapes["B"]
    assert {s for s in shapes["A"] if s[0] == "ORDER"} == {("ORDER", "000-00000-0000")}
    assert {s for s in shapes["A"] if s[0] == "PHONE"} == {
        ("PHONE", f) for f in ("000-000-0000", "000.000.0000", "T" * 10)
    }
    assert {s for s in shapes["A"] if s[0] == "TRACKING"} == {("TRACKING", "T" * 10)}


def test_generic_turns_and_some_customers_come_again():
    turns = Counter(t for d in simulated("A") for t in d["text"].splitlines())
    assert turns.total() > 2 * len(turns)
    names = Counter(set(secrets(d, "NAME")).pop() for d in simulated("A"))
    again = sum(count - 1 for count in names.values()) / N
    assert 0.15 < again < 0.3
    assert max(Counter(a for d in simulated("A") for a in set(secrets(d, "ADDRESS"))).values()) > 1


def test_a_dialogue_depends_on_seed_set_and_number_alone():
    assert list(simulate(20, 7, "A")) == simulated("A")[:20]
    assert list(islice(simulate(10**9, 7, "B"), 5)) == simulated("B")[:5]
    assert [d["text"] for d in simulate(20, 8, "A")] != [d["text"] for d in simulated("A")[:20]]
    assert len({d["id"] for d in simulated("A")}) == N
    code = "from pipelines.corpus.customersim import simulate; print([d['text'] for d in simulate(3, 7)])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == str([d["text"] for d in simulated("A")[:3]])


def test_unknown_sets_and_numbers_are_refused():
    with pytest.raises(ConfigError, match="template set 'C'"):
        simulate(1, 0, "C")
    with pytest.raises(ConfigError):
        simulate(-1, 0)


def test_files_are_complete_repeatable_and_readable_by_the_scanner(tmp_path):
    out = tmp_path / "new" / "sim"
    files = write_customersim(out, 25, 7, "A", file_dialogues=10)
    assert files == [out / f"dialogues-{i:05d}.jsonl" for i in range(3)]
    first = {p.name: p.read_bytes() for p in out.iterdir()}
    assert sorted(first) == ["README.txt"] + [f"dialogues-{i:05d}.jsonl" for i in range(3)]
    rows = [json.loads(line) for n in sorted(first) if n != "README.txt" for line in first[n].decode().splitlines()]
    assert rows == simulated("A")[:25]
    assert [f.name for f in list_files([out], tmp_path)] == [f"dialogues-{i:05d}.jsonl" for i in range(3)]
    # Again, and smaller: nothing of the larger run is left.
    assert write_customersim(out, 25, 7, "A", file_dialogues=10) == files
    assert {p.name: p.read_bytes() for p in out.iterdir()} == first
    write_customersim(out, 5, 7)
    assert sorted(p.name for p in out.iterdir()) == ["README.txt", "dialogues-00000.jsonl"]
    assert sorted(p.name for p in out.parent.iterdir()) == ["sim"]


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "mine.jsonl").write_text("precious")
    with pytest.raises(InputError, match="other files"):
        write_customersim(tmp_path, 5, 7)
    with pytest.raises(InputError, match="is a file"):
        write_customersim(tmp_path / "mine.jsonl", 5, 7)
    with pytest.raises(ConfigError):
        write_customersim(tmp_path / "x", 0, 7)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.jsonl"]


@pytest.mark.slow
def test_customers_with_several_dialogues_are_named_and_have_a_heavy_tail():
    plain, named = list(simulate(600, 3)), list(simulate(600, 3, dialogues_per_customer=1.25))
    assert [{k: v for k, v in row.items() if k != "customer_id"} for row in named] == plain
    many = list(simulate(3000, 3, dialogues_per_customer=4))
    counts = Counter(row["customer_id"] for row in many)
    assert 3000 / len(counts) == pytest.approx(4, rel=0.1)
    median = sorted(counts.values())[len(counts) // 2]
    assert median <= 2
    assert max(counts.values()) > 50  # a light tail, such as a geometric one, would end near 25
    names = {}
    for row in many[:300]:  # one customer keeps name and phone
        names.setdefault(row["customer_id"], set()).add(secrets(row, "NAME")[0].lower())
    assert all(len(found) == 1 for found in names.values())
    assert not any(row["customer_id"] in row["text"] for row in many)


def test_no_customer_has_several_dialogues_if_each_has_one():
    rows = list(simulate(200, 3, dialogues_per_customer=1))
    assert len({row["customer_id"] for row in rows}) == 200


@pytest.mark.parametrize("mean_number", [0.5, float("nan"), float("inf")])
def test_a_mean_below_one_is_refused(mean_number):
    with pytest.raises(ConfigError, match="at least 1"):
        simulate(1, 0, dialogues_per_customer=mean_number)


def test_the_files_say_that_customers_are_named(tmp_path):
    (path,) = write_customersim(tmp_path / "out", 5, 0, dialogues_per_customer=2.5)
    assert all("customer_id" in json.loads(line) for line in path.read_text().splitlines())
    assert "dialogues per customer (customer_id): 2.5" in (tmp_path / "out/README.txt").read_text()
