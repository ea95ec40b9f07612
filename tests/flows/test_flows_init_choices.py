"""`reticent init` ranks readings, asks or says what it took, and its settings read these files and no others."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.patches import Patch
from typer.testing import CliRunner

from flows.arguments import app
from flows.commands.decisions import ask, refuse
from flows.commands.patterns import matches, patterns_for
from flows.commands.survey import Survey, survey
from pipelines.corpus import recognisers
from pipelines.corpus.listing import list_files
from pipelines.corpus.options import SourceOptions, source_of
from pipelines.corpus.recognition import Head, Reading
from pipelines.errors import ConfigError, InputError

PROSE = "The parcel that we sent to you is late, and we are sorry for this."
TEXT = "we have seen that the order you sent was not in the list of the shop and it is late"
WORDS = TEXT.split()


def sentence(number: int, length: int = 12) -> str:
    drawn = random.Random(number)
    return " ".join(drawn.choice(WORDS) for _ in range(length)) + f" {number}."


def written(folder: Path, files: dict[str, str | bytes]) -> str:
    for name, data in files.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(folder / "in")


def found(folder: Path, files: dict[str, str | bytes], **options: Any) -> Survey:
    return survey([written(folder, files)], **options)


def command(folder: Path, files: dict[str, str | bytes], *more: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Exit code, document and settings of `reticent init --yes --json`."""
    given = written(folder, files)
    done = CliRunner().invoke(app, ["init", str(folder / "out"), "--input", given, "--json", *(more or ("--yes",))])
    path = folder / "out" / "reticent.toml"
    made = tomllib.loads(path.read_text())["corpus"] if path.exists() else {}
    line = done.stdout.splitlines()[-1] if done.exit_code == 0 else "{}"
    return getattr(done.exception, "exit_code", done.exit_code), json.loads(line), made


def csv(header: str, rows: Sequence[Sequence[object]]) -> str:
    lines = [header, *(",".join(f'"{cell}"' if " " in str(cell) else str(cell) for cell in row) for row in rows)]
    return "\n".join(lines) + "\n"


# --- what is asked ----------------------------------------------------------------------------------------------


def test_the_longest_prose_is_the_text(tmp_path: Path) -> None:
    rows = [[i, sentence(i, 6), "Allergy", sentence(i + 99, 200), "a, b"] for i in range(30)]
    code, document, made = command(tmp_path, {"notes.csv": csv(",description,kind,transcription,keywords", rows)})
    assert code == 0
    assert made["text_field"] == "transcription"
    (source,) = document["sources"]
    assert (source["documents"], source["text_field"], source["format"]) == (30, "transcription", "csv")
    assert source["sample"] == [row[3] for row in rows[:3]]
    assert source["rows"] >= 30
    assert not source["has_speakers"]
    assert "is_estimate" not in source


DOUBTS = {
    "two texts": (csv("question,answer", [[sentence(i), sentence(-i)] for i in range(30)]), "as well as"),
    "a longer title": (csv("comment,title", [[sentence(i, 5), sentence(i, 40)] for i in range(30)]), "is longer than"),
    "repeats": (csv("id,text", [[i, sentence(i % 4)] for i in range(30)]), "repeat"),
    "only instructions": (csv("id,instructions", [[i, sentence(i)] for i in range(30)]), "describes a text"),
    "rejected rows": (csv("id,text", [[i, sentence(i)] for i in range(30)]) + "31,a,b\n" * 2, "would be rejected"),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_doubts_need_a_decision(tmp_path: Path, name: str) -> None:
    data, doubt = DOUBTS[name]
    assert doubt in " ".join(found(tmp_path, {"a.csv": data}).kinds[0].look.doubts)
    with pytest.raises(ConfigError, match=r"how to read these files\. \(1\) 1 \.csv file as csv.*--yes") as refused:
        survey([str(tmp_path / "in")], refuse)
    assert ".." not in str(refused.value)
    code, _, made = command(tmp_path, {"a.csv": data}, "--seed", "1")
    assert (code, made) == (2, {})
    code, document, _ = command(tmp_path, {"a.csv": data})
    assert code == 0
    assert any(doubt in warning for warning in document["warnings"])


def test_a_plain_corpus_needs_no_decision(tmp_path: Path) -> None:
    data = csv("id,text", [[i, sentence(i)] for i in range(30)])
    code, document, _ = command(tmp_path, {"a.csv": data}, "--seed", "1")
    assert code == 0
    assert document["schema_version"] == 1
    assert document["not_read"] == []


def test_the_first_rows_of_the_best_two_are_shown_and_the_answer_counts(tmp_path: Path) -> None:
    data = csv("question,answer", [[sentence(i), sentence(-i, 14)] for i in range(30)])
    said: list[str] = []
    answers = iter(["9", "2"])
    seen = found(tmp_path, {"a.csv": data}, decide=ask(said.append, lambda text: next(answers)))
    shown = "\n".join(said)
    assert sentence(0) in shown
    assert sentence(0, 14) in shown
    assert dict(seen.settings.fields)["text_field"] == "question"
    assert sentence(0) not in seen.text()
    given = written(tmp_path, {"b.txt": "".join(f"{sentence(i)}\n" for i in range(30))})
    left = survey([given], ask(said.append, lambda text: "0"))
    assert [(kind.look.format, kind.suffix) for kind in left.kinds] == [("txt", ".txt"), (None, ".csv")]


def test_lists_of_turns_beside_a_text_are_not_passed_over(tmp_path: Path) -> None:
    turns = [{"speaker": "a", "text": sentence(i)} for i in range(3)]
    described = [{"id": i, "instructions": sentence(i, 20), "utterances": turns} for i in range(9)]
    asked: list[Any] = []

    def leave(kinds: Sequence[Any]) -> list[int]:
        asked.extend(kinds)
        return [-1 if kind.suffix == ".json" else 0 for kind in kinds]

    seen = found(tmp_path, {"a.json": json.dumps(described), "b.txt": f"{PROSE}\n" * 20}, decide=leave)
    best = next(kind.look for kind in asked if kind.suffix == ".json")
    assert best.format == "turns"
    assert "instructions holds text too, beside utterances" in best.doubts
    assert next(kind for kind in seen.kinds if kind.suffix == ".json").look.format is None


# --- recognisers ------------------------------------------------------------------------------------------------


def _chat(head: Head) -> Reading | None:
    return Reading("dialogue", 0.95, "a toy chat") if head.data.startswith(b"TOY") else None


def _broken(head: Head) -> Reading | None:
    raise RuntimeError(head.name)


def test_readings_of_recognisers_win_and_one_that_fails_costs_nothing(tmp_path: Path, patch: Patch) -> None:
    patch.constant(recognisers, "RECOGNISERS", (_broken, _chat, *recognisers.RECOGNISERS))
    files = {"a.txt": "TOY: yes.\nOTHER: no.\n" * 5, "build.sh": "#!/bin/sh\necho hello to everybody\n"}
    code, document, made = command(tmp_path, files)
    assert code == 0
    assert [source["format"] for source in document["sources"]] == ["dialogue"]
    assert document["sources"][0]["has_speakers"]
    assert document["sources"][0]["sample"][0].startswith("TOY: yes.")
    assert document["not_read"] == [{"name": "build.sh", "reason": "a shell script"}]
    assert made["format"] == "dialogue"


# --- tables without a header ------------------------------------------------------------------------------------

HEADERLESS = {
    "labels and tabs": ("SMSSpam", [["ham" if i % 3 else "spam", sentence(i)] for i in range(30)], "\t", "tsv"),
    "ratings": ("a.csv", [[i % 5, f"good thing {i}", sentence(i)] for i in range(30)], ",", "csv"),
    "two texts": ("a.tsv", [[sentence(i), sentence(-i, 30), i] for i in range(30)], "\t", "tsv"),
}


@pytest.mark.parametrize("name", HEADERLESS)
def test_the_first_line_is_a_row_if_it_names_no_columns(tmp_path: Path, name: str) -> None:
    file, rows, mark, form = HEADERLESS[name]
    data = "\n".join(mark.join(map(str, row)) for row in rows) + "\n"
    code, document, made = command(tmp_path, {file: data})
    assert code == 0
    (source,) = document["sources"]
    assert (source["format"], source["documents"], source["text_field"]) == (form, len(rows), "text")
    assert source["sample"][0] == max(map(str, rows[0]), key=len)
    named = made.get("column_names") or made["source"][0]["column_names"]
    assert "text" in named
    assert ("label" in named) == (name != "two texts")


def test_empty_cells_are_counted_apart(tmp_path: Path) -> None:
    rows = [[i, "" if i % 5 == 0 else sentence(i)] for i in range(50)]
    code, document, made = command(tmp_path, {"a.csv": csv("id,text", rows)})
    assert code == 0
    assert document["sources"][0]["documents"] == 40
    assert made["max_rejected_fraction"] == 0.01


# --- what is written --------------------------------------------------------------------------------------------


def test_mails_with_a_suffix_each_get_one_table(tmp_path: Path) -> None:
    drawn = random.Random(0)
    files: dict[str, str | bytes] = {
        f"{folder}/{i:05}.{drawn.randbytes(16).hex()}": f"From: a@b.c\nSubject: {i}\nDate: x\n\n{sentence(i)}\n"
        for folder in ("ham", "spam")
        for i in range(60)
    }
    files["ham/cmds"] = b"\0\1\2"
    code, document, made = command(tmp_path, files)
    assert code == 0
    (source,) = document["sources"]
    assert (source["format"], source["files"], source["documents"]) == ("mail", 120, 120)
    assert len(made["source"]) <= 3
    assert [one["name"] for one in document["not_read"]] == ["ham/cmds"]


def test_what_is_not_read_stays_unread(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        f"day{i}.jsonl": "".join(json.dumps({"text": sentence(i * 9 + j)}) + "\n" for j in range(9)) for i in range(9)
    }
    files |= {"users.jsonl": '{"id": 1, "name": "Ann"}\n', "b/users.jsonl": '{"id": 2, "name": "Bob"}\n'}
    _, document, made = command(tmp_path, files)
    sources = [SourceOptions(pattern=s["pattern"], format=s["format"]) for s in made["source"]]
    for name in files:
        source = source_of(name, sources)
        assert (source is not None and source.format == "skip") == ("users" in name), name
    assert {one["name"] for one in document["not_read"]} == {"users.jsonl", "b/users.jsonl"}


def test_a_bad_file_is_left_out_and_the_others_are_read(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {f"{i}.eml": f"Subject: {i}\n\n{sentence(i)}\n" for i in range(20)}
    files["bad.eml"] = "no mail at all"
    code, document, made = command(tmp_path, files)
    assert code == 0
    assert document["sources"][0]["documents"] == 20
    assert document["not_read"][0]["name"] == "bad.eml"
    assert {"pattern": "bad.eml", "format": "skip"} in made["source"]


NAMES = st.lists(st.text("ab0.[*/", min_size=1, max_size=8).filter(lambda t: t[0] != "/"), min_size=1, max_size=12)


@given(NAMES, NAMES)
def test_patterns_match_the_files_and_no_others(names: list[str], others: list[str]) -> None:
    names, others = sorted(set(names)), sorted(set(others) - set(names))
    patterns = patterns_for(names, others)
    assert all(matches(name, patterns) for name in names)
    sources = [SourceOptions(pattern=pattern) for pattern in patterns]
    for name in (*names, *others):
        assert matches(name, patterns) == (source_of(name, sources) is not None)
    ends = {f"*/{name}" for name in names}
    if not any(matches(other, tuple(ends)) or other.endswith(tuple(f"/{n}" for n in names)) for other in others):
        assert not any(matches(other, patterns) for other in others)


# --- large inputs, and any bytes --------------------------------------------------------------------------------


def test_large_inputs_are_estimated(tmp_path: Path, patch: Patch) -> None:
    data = "".join(json.dumps({"id": i, "text": sentence(i)}) + "\n" for i in range(5_000))
    patch.constant("flows.commands.kinds", "EXACT_BYTES", 10_000)
    patch.constant("flows.commands.measured", "HEAD_BYTES", 50_000)
    seen = found(tmp_path, {"a.jsonl": data, "b.txt": f"{PROSE}\n\n" * 3_000})
    documents = {source["format"]: source for source in seen.document()["sources"]}
    assert documents["jsonl"]["is_estimate"]
    assert documents["jsonl"]["documents"] == pytest.approx(5_000, rel=0.05)
    assert documents["txt"]["documents"] == pytest.approx(3_000, rel=0.05)
    assert seen.num_documents == pytest.approx(8_000, rel=0.05)


def test_texts_stay_out_of_settings_and_refusals(tmp_path: Path) -> None:
    data = csv("question,answer", [[sentence(i), sentence(-i)] for i in range(30)])
    command(tmp_path, {"a.csv": data})
    assert sentence(0) not in (tmp_path / "out" / "reticent.toml").read_text()
    with pytest.raises(ConfigError) as told:
        survey([str(tmp_path / "in")], refuse)
    assert sentence(0) not in str(told.value)


SUFFIXES = st.sampled_from([".txt", ".csv", ".tsv", ".json", ".jsonl", ".eml", ".mbox", ".xml", "", ".a1", ".gz"])
BYTES = st.one_of(
    st.binary(max_size=200),
    st.text("ab ,;\t|\n\"'{}[]:<>-0\r", max_size=200).map(str.encode),
    st.lists(st.dictionaries(st.sampled_from(["id", "text", "a"]), st.text(max_size=9), max_size=3), max_size=5).map(
        lambda rows: json.dumps(rows).encode()
    ),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=3), SUFFIXES, BYTES), min_size=1, max_size=5))
def test_files_of_any_bytes_are_read_as_said_or_refused(files: list[tuple[str, str, bytes]]) -> None:
    with TemporaryDirectory() as folder:
        for name, suffix, data in files:
            (Path(folder) / f"{name}{suffix}").write_bytes(data)
        try:
            seen = survey([folder])
        except InputError:
            return
        made = seen.settings
        sources = [SourceOptions(pattern=t.pattern, format=t.format, fields=t.fields) for t in made.tables]
        read = {file.name: file.format for file in list_files([folder], Path("/"), made.format, sources)}
        wanted = {file.name: kind.look.format for kind in seen.kinds for file in kind.files}
        for name, form in wanted.items():
            assert read.get(name) == form or (form is None and not (Path(folder) / name).read_bytes().strip())
