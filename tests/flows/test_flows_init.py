"""What `reticent init` says of files that nobody described, and that its settings read them."""

from __future__ import annotations

import gzip
import json
import tomllib
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import REPOSITORY
from support.patches import Patch

from flows.commands.init import write_starter
from flows.commands.survey import survey
from pipelines.corpus.items import Document, Rejected
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.errors import InputError
from pipelines.settings.loading import load_settings

PROSE = "The parcel that we sent to you is late, and we are sorry for this."
GERMAN = "Das Paket ist noch nicht angekommen, und ich warte schon seit zwei Wochen auf eine Antwort."
DIALOGUE = "<|endoftext|>SYS:How may I help you?\n\nUSR: It is about a parcel.\n\nACT:Account pulled.\n\n"


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def begun(folder: Path, files: dict[str, str | bytes], *inputs: str) -> tuple[Any, list[Document], list[Rejected], str]:
    """The settings that `init` writes for files, what these read, and what it said."""
    for name, data in files.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    said: list[str] = []
    given = [str(folder / name) for name in inputs or ("in",)]
    config = write_starter(folder / "out", given, dialogues=1, seed=0, say=said.append)
    corpus: Any = load_settings(config, {}).stages["corpus"]
    options = corpus.read_options()
    parts = scan(corpus.inputs, base_dir=folder, format=corpus.format, options=options, secret=b"k")
    items = [item for part in parts for piece in part.pieces for item in read_documents(piece, options)]
    documents = [item for item in items if isinstance(item, Document)]
    return corpus, documents, [item for item in items if isinstance(item, Rejected)], "\n".join(said)


AS_PARAGRAPHS = {"txt_document": "paragraph"}
SPAN = {"entity_type": "X", "start_position": 4, "end_position": 10}
NOTES = {"text_field": "note", "id_field": "nr"}
WIKITEXT = " \n = Title = \n \n A @-@ text . \n \n \n = Two = \n \n More . \n"
CASES = {
    "dialogue": ({"test.txt": DIALOGUE * 3}, "dialogue", {}, 3),
    "dialogue without blanks": ({"a.txt": "Agent 1: Hello there.\nCustomer: Hi.\n"}, "dialogue", {}, 1),
    "speakers with names": ({"a.txt": "Ann: Hello.\nBob: Hi.\nAnn: Well?\nBob: No.\n"}, "dialogue", {}, 1),
    "dialogues apart": ({"a.txt": "SYS: Hi.\nUSR: Yes.\n\nSYS: Hello.\nUSR: No.\n"}, "auto", AS_PARAGRAPHS, 2),
    "a form": ({"a.txt": "Name: Ann Lee\nPhone: 555\n\nName: Bob Ray\nPhone: 556\n"}, "auto", AS_PARAGRAPHS, 2),
    "lines": ({"a.txt": f"{PROSE}\n" * 200}, "auto", {"txt_document": "line"}, 200),
    "paragraphs": ({"a.txt": f"{PROSE}\n{PROSE}\n\n" * 20}, "auto", AS_PARAGRAPHS, 20),
    "many small files": ({f"{i}.txt": f"{PROSE}\n\n{PROSE}" for i in range(60)}, "auto", {}, 60),
    "text of another suffix": ({"a.log": f"{PROSE}\n" * 9}, "auto", {}, 9),
    "wikitext": ({"w.raw": WIKITEXT * 5}, "wikitext", {}, 10),
    "jsonl": ({"a.jsonl": lines({"id": 7, "text": PROSE}, {"id": 8, "text": PROSE})}, "auto", {}, 2),
    "jsonl of dialogues": ({"a.jsonl": lines({"text": "SYS: Hi.\nUSR: Yes.\n"})}, "dialogue", {}, 1),
    "other fields": (
        {"a.jsonl": lines(*({"ticket": f"t{i}", "body": PROSE, "from": "Ann Lee"} for i in range(5)))},
        "auto",
        {"text_field": "body", "id_field": "ticket"},
        5,
    ),
    "json": (
        {"a.json": json.dumps([{"full_text": PROSE, "spans": [SPAN]}])},
        "json",
        {"text_field": "full_text"},
        1,
    ),
    "csv": ({"a.csv": f'nr,note,shop\n1,"{PROSE}",x\n2,"{PROSE}",y\n'}, "csv", NOTES, 2),
    "csv between semicolons": (
        {"a.csv": f'nr;note;shop\n1;"{PROSE}; yes";x\n2;Well, {PROSE};y\n'},
        "csv",
        {**NOTES, "delimiter": ";"},
        2,
    ),
    "csv between tabs": ({"a.csv": f"nr\tnote\n1\t{PROSE}\n"}, "csv", {**NOTES, "delimiter": "tab"}, 1),
    "tsv between bars": ({"a.tsv": f"nr|note\n1|{PROSE}\n2|{PROSE}\n"}, "tsv", {**NOTES, "delimiter": "|"}, 2),
    "csv with semicolons in it": ({"a.csv": f'nr,note,b;c\n1,"{PROSE}",x\n2,"{PROSE}",y\n'}, "csv", NOTES, 2),
    "csv with odd names": ({"a.csv": f'kunde,freitext\nAnn,"{GERMAN}"\n'}, "csv", {"text_field": "freitext"}, 1),
    "compressed": ({"a.tsv.gz": gzip.compress(f"text\tid\n{PROSE}\t1\n".encode())}, "tsv", {}, 1),
    "e2e": ({"dev.csv": f'mr,ref\n"name[A], area[b]","{PROSE}"\n'}, "e2e", {}, 1),
    "sentences with labels": ({"train.tsv": f"label\tsentence\n1\t{PROSE}\n"}, "glue", {}, 1),
    "conll": ({"x.conll": "Ann\tB-PER\nLee\tI-PER\ncalled\tO\n\nNo\tO\none\tO\n"}, "conll", {}, 2),
    "mails": ({f"{i}.eml": f"Subject: Parcel {i}\n\n{PROSE}\n" for i in range(3)}, "mail", {}, 3),
    "a mailbox": (
        {"Inbox": f"From a@b.c Mon Jan  5 10:00:00 2026\nSubject: x\n\n{PROSE}\n\n" * 4},
        "auto",
        {},
        4,
    ),
    "a maildir": ({f"cur/{i}:2,S": f"Date: x\nFrom: a@b.c\n\n{PROSE}\n" for i in range(30)}, "auto", {}, 30),
    "label of free text": (
        {"a.jsonl": lines(*({"text": PROSE, "label": f"a note on customer {i}"} for i in range(60)))},
        "auto",
        {"label_field": "-"},
        60,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_settings_that_are_written_read_the_files(tmp_path: Path, name: str) -> None:
    files, format, fields, number = CASES[name]
    corpus, documents, rejected, said = begun(tmp_path, files)
    assert not rejected
    assert len(documents) == number
    assert corpus.format == format
    default = type(corpus)()
    other = {f: getattr(corpus, f) for f in type(corpus).model_fields if getattr(corpus, f) != getattr(default, f)}
    assert {k: v for k, v in other.items() if k in fields or k.endswith("_field") or k == "txt_document"} == fields
    assert "NOT READ" not in said


def test_a_folder_of_several_kinds_gets_a_source_for_each(tmp_path: Path) -> None:
    files = {
        "calls/a.txt": DIALOGUE * 4,
        "orders.csv": "order_id,comment\n" + "".join(f'{i},"{PROSE}"\n' for i in range(30)),
        "people.csv": "name,city\nAnn Lee,New York\nBob Ray,Oslo\n",
        "tickets.jsonl": lines(*({"key": i, "message": GERMAN} for i in range(6))),
        "photo.png": b"\x89PNG\0\0",
        ".hidden.txt": "x",
        "README": "x",
    }
    corpus, documents, rejected, said = begun(tmp_path, files)
    assert not rejected
    assert {d.name: [e.name for e in documents].count(d.name) for d in documents} == {
        "calls/a.txt": 4,
        "orders.csv": 30,
        "tickets.jsonl": 6,
    }
    assert {(s.pattern, s.format) for s in corpus.source} == {
        ("*.txt", "dialogue"),
        ("orders.csv", "csv"),
        ("*.jsonl", "jsonl"),
    }
    for told in (
        "people.csv" not in said,
        "NOT READ: columns name, city: none is plainly text" in said,
        "German" in said,
    ):
        assert told
    assert "1 .png" in said
    assert "not looked at: 1 hidden, 1 readme or licence" in said
    assert "New York" not in said
    text = (tmp_path / "out" / "reticent.toml").read_text()
    assert '# pattern = "people.csv"' in text
    assert 'language_of = "document"' in text


@pytest.mark.slow
def test_sizes_fit(tmp_path: Path) -> None:
    seen = begun(tmp_path, {"a.txt": f"{PROSE}\n" * 60_000})[0]
    assert seen.partition_documents == 10_000
    found = survey([str(tmp_path / "in")])
    assert found.expected_items == 1_000_000
    assert found.num_documents == pytest.approx(60_000, rel=0.05)
    assert replace(found, num_words=700_000).epochs == 8
    assert [replace(found, num_words=words).epochs for words in (2_500_000, 10**9)] == [2, 2]


def test_long_text_is_read_less_often(tmp_path: Path, patch: Patch) -> None:
    patch.constant("flows.commands.survey", "_TRAINED_WORDS", 3_000)
    begun(tmp_path, {"a.txt": f"{PROSE}\n" * 60})
    lines = (tmp_path / "out" / "reticent.toml").read_text().splitlines()
    (epochs,) = (line for line in lines if line.startswith("epochs"))
    assert epochs.startswith("epochs = 3 ")
    assert "because there is much text" in epochs


def test_parquet(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"body": [PROSE] * 9, "uuid": [f"u{i}" for i in range(9)], "n": range(9)}), tmp_path / "in/a.parquet"
    )
    corpus, documents, _, said = begun(tmp_path, {})
    assert (corpus.text_field, corpus.id_field, len(documents)) == ("body", "uuid", 9)
    assert "columns body, uuid, n" in said


def test_names_of_columns_may_be_empty(tmp_path: Path) -> None:
    rows = "".join(f'{"good" if i % 2 else "bad"},"{PROSE} {i}",,,\n' for i in range(40))
    corpus, documents, _, said = begun(tmp_path, {"a.csv": f"v1,v2,,,\n{rows}"})
    assert (corpus.text_field, corpus.column_names, len(documents)) == ("v2", (), 40)
    assert "columns v1, v2; text: v2" in said


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.csv", "a;b\n1;2\n", "none is plainly text"),
        ("a.csv", "1,2\n3,4\n", "names no columns"),
        ("a.bin", b"\0\1\2", "binary"),
        ("a.csv", "name,city\nAnn,Oslo\n", "none is plainly text"),
        ("a.json", '{"a": 1}', "settings or data of a program"),
        ("a.txt", "", "empty"),
        ("a.parquet", "no parquet", "cannot be read"),
    ],
)
def test_what_nothing_can_read_is_refused_and_said(tmp_path: Path, name: str, data: str | bytes, told: str) -> None:
    with pytest.raises(InputError, match=told):
        begun(tmp_path, {name: data})
    assert not (tmp_path / "out" / "reticent.toml").exists()


def test_the_encoding_of_text_that_is_not_utf8_is_written(tmp_path: Path) -> None:
    begun(tmp_path, {"long.txt": f"{PROSE}\n" * 99, "short.txt": b"caf\xe9 is good, and tea is as well\n"})
    corpus = tomllib.loads((tmp_path / "out" / "reticent.toml").read_text())["corpus"]
    first = {
        name: next(t for t in corpus["source"] if fnmatch(name, t["pattern"])) for name in ("long.txt", "short.txt")
    }
    assert "encoding" not in first["long.txt"]
    assert first["short.txt"]["encoding"] == "windows-1252"
    assert "encoding" not in corpus


def test_a_few_documents_are_warned_of(tmp_path: Path) -> None:
    said = begun(tmp_path, {"a.txt": PROSE})[3]
    assert "only about 1 documents" in said
    assert "(corpus.txt_document)" in said


def test_lines_cut_by_a_long_separator_are_a_table_with_speakers(tmp_path: Path) -> None:
    cut = " +++$+++ "
    lines = [cut.join((f"L{i}", f"u{i}", "m0", ("ANN", "BOB")[i % 2], f"{PROSE} {i}")) for i in range(9)]
    lines.append(cut.join(("L9", "u0", "m0", "BOB", "")).rstrip())
    corpus, found, bad, said = begun(tmp_path / "a", {"lines.txt": "\n".join(lines)})
    assert "please confirm" not in said
    assert [item.text for item in found] == [f"{PROSE} {i}" for i in range(9)]
    assert [turn.speaker for item in found for turn in item.turns or ()] == [("ANN", "BOB")[i % 2] for i in range(9)]
    assert [item.reason for item in bad] == ["empty"]
    table = corpus.source[0] if corpus.source else corpus
    assert (table.delimiter, table.speaker_field) == ("+++$+++", "name")
    assert table.column_names == ("column_1", "column_2", "column_3", "name", "text")
    assert begun(tmp_path / "b", {"a.txt": f"{PROSE}\nA -- B\n" * 9})[0].format == "auto"


def test_lists_of_words_are_refused_with_the_way_to_read_them(tmp_path: Path) -> None:
    rows = [{"text": str([*PROSE.split(), str(i)]), "tag": i} for i in range(9)]
    files = {"a.jsonl": "".join(json.dumps(row) + "\n" for row in rows), "b.txt": PROSE}
    _, found, bad, said = begun(tmp_path, files)
    assert [item.name for item in found] == ["b.txt"]
    assert not bad
    assert "NOT READ" in said
    assert "Write each list as one text" in said


DATA = REPOSITORY.parent / "shared" / "data"


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("e2e/devset.csv", "e2e"),
        ("sst2/train.tsv", "glue"),
        ("wikitext2", "wikitext"),
        ("multidogo", "multidogo"),
        ("customersim/test.jsonl", "dialogue"),
        ("presidio_research", "json"),
        ("ner", "conll"),
    ],
)
@pytest.mark.slow
def test_real_corpora_are_recognised(name: str, format: str) -> None:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not below {DATA}")
    assert survey([str(DATA / name)]).settings.format == format


def test_a_corpus_that_is_known_to_be_damaged_may_lose_more_rows(tmp_path: Path) -> None:
    columns = "conversationId\tturnNumber\tutteranceId\tutterance\tslot-labels\tintent\n"
    row = "c1\t0\tu1\ti need a new seat please\tO O O O O O\topeningGreeting\n"
    for name, format, limit in (("a.tsv", "multidogo", 0.05), ("b.txt", "auto", 0.01)):
        (tmp_path / name).write_text(columns + row * 40 if format == "multidogo" else f"{PROSE}\n" * 40)
        path = write_starter(tmp_path / format, [str(tmp_path / name)], dialogues=0, seed=0)
        corpus = tomllib.loads(path.read_text())["corpus"]
        assert (corpus["format"], corpus["max_rejected_fraction"]) == (format, limit)
        assert ("; raised from 0.01, because" in path.read_text()) == (limit > 0.01)


@pytest.mark.parametrize(("speaker", "masks_names"), [("Arlie", True), ("Customer", False)])
def test_names_of_speakers_are_masked_if_there_are_any(tmp_path: Path, speaker: str, masks_names: bool) -> None:
    lines = [f"{name}: hello to you, my good friend {i}" for i in range(4) for name in (speaker, "Agent")]
    (tmp_path / "chat.txt").write_text("\n".join(lines) + "\n")
    path = write_starter(tmp_path / "p", [str(tmp_path / "chat.txt")], dialogues=1, seed=0)
    assert ("speakers" in tomllib.loads(path.read_text())["redact"]["policies"]) == masks_names


def owner_lines(config: Path) -> list[str]:
    lines = config.read_text().splitlines()
    return [line for line in lines if line.lstrip("# ").startswith("owner_")]


ROWS = [{"id": i, "text": f"{PROSE} {i}"} for i in range(40)]
CHAT = [{"role": "user", "content": PROSE}, {"role": "assistant", "content": "It is on its way."}]
OWNERS: dict[str, tuple[dict[str, str | bytes], list[str]]] = {
    "a field": (
        {"a.jsonl": lines(*({**row, "customer_id": f"c{row['id'] % 7}"} for row in ROWS))},
        ["field", "customer_id"],
    ),
    "the likelier field": (
        {"a.csv": "id,body,author,userid\n" + "".join(f'{i},"{PROSE} {i}",Ann {i % 5},{i % 9}\n' for i in range(40))},
        ["field", "userid"],
    ),
    "a field inside an object": (
        {"a.jsonl": lines(*({**row, "user": {"id": row["id"] % 7, "name": "x"}} for row in ROWS))},
        ["field", "user.id"],
    ),
    "dialogues with a customer": (
        {"a.jsonl": lines(*({"messages": [*CHAT, *CHAT], "user_id": f"u{i % 9}"} for i in range(40)))},
        ["field", "user_id"],
    ),
    "mails": ({f"{i}.eml": f"From: a@b.c\nSubject: Parcel {i}\n\n{PROSE}\n" for i in range(3)}, ["sender"]),
    "speakers with names": ({"a.txt": "Ann: Hello.\nBob: Hi.\nAnn: Well?\nBob: No.\n"}, ["sender"]),
    "one value for all": ({"a.jsonl": lines(*({**row, "customer_id": "x"} for row in ROWS))}, []),
    "prose": ({"a.jsonl": lines(*({**row, "user": f"{PROSE} {row['id']}"} for row in ROWS))}, []),
    "nobody": ({"a.jsonl": lines(*ROWS)}, []),
}


@pytest.mark.parametrize("name", OWNERS)
def test_whose_text_it_is_is_suggested_in_a_comment_and_never_set(tmp_path: Path, name: str) -> None:
    files, wanted = OWNERS[name]
    corpus, _, _, said = begun(tmp_path, files)
    assert corpus.owner_from == "none"
    found = owner_lines(tmp_path / "out/reticent.toml")
    assert all(line.startswith("# ") for line in found)
    assert ("whose text it is, is not set" in said) == bool(wanted)
    settings = tomllib.loads("\n".join(line.removeprefix("# ") for line in found))
    assert settings == (
        dict(zip(("owner_from", "owner_field"), wanted, strict=False)) | {"owner_missing": "stop"} if wanted else {}
    )


def test_a_suggestion_beside_files_of_other_kinds_says_where_theirs_is_set(tmp_path: Path) -> None:
    needs = "Files of another kind need owner_from in their own [[corpus.source]]."
    for name, files in {"one": {}, "two": OWNERS["mails"][0]}.items():
        begun(tmp_path / name, {**OWNERS["a field"][0], **files})
        assert (needs in (tmp_path / name / "out/reticent.toml").read_text()) == bool(files)


def test_the_suggested_settings_are_settings(tmp_path: Path) -> None:
    """The comment says "remove the marks": then the file still loads, and the reader finds the owners."""
    begun(tmp_path, OWNERS["a field"][0])
    path = tmp_path / "out/reticent.toml"
    path.write_text(path.read_text().replace("# owner_", "owner_"))
    corpus: Any = load_settings(path, {}).stages["corpus"]
    assert (corpus.owner_from, corpus.owner_field) == ("field", "customer_id")
    parts = scan(corpus.inputs, base_dir=tmp_path, options=corpus.read_options(), secret=b"k")
    items = [item for part in parts for piece in part.pieces for item in read_documents(piece, corpus.read_options())]
    assert {item.owners for item in items if isinstance(item, Document)} == {(f"c{i}",) for i in range(7)}
