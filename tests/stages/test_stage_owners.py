"""Owners of documents: who they are by each setting, folds by owner, and documents without an owner."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.contexts import stage_context

from pipelines.corpus.items import BadRow, Document
from pipelines.corpus.owners import check_folds, check_owners, normalised, owner_of, owner_pseudonym
from pipelines.corpus.scan import scan
from pipelines.corpus.tables import DOCUMENTS
from pipelines.errors import InputError
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.split import SplitConfig
from pipelines.stages.prepare import split as split_stage
from pipelines.tables import Table

SECRET = b"k" * 32
TEXT = "The parcel that we sent to you is late."


def split_of(
    folder: Path, files: dict[str, str | bytes], **corpus: Any
) -> tuple[pl.DataFrame, list[Any], pl.DataFrame]:
    """Documents, figures and rejected rows of the split stage, over all partitions."""
    for name, data in files.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    config = CorpusConfig(inputs=(str(folder / "in"),), **corpus)
    parts = scan(
        config.inputs, base_dir=folder, format=config.format, options=config.read_options(),
        partition_documents=config.partition_documents, secret=SECRET,
    )  # fmt: skip
    documents, figures, rejected = [], [], []
    for part in parts:
        out = folder / "out" / str(config.partition_documents) / part.name
        configs = {"corpus": config, "split": SplitConfig(valid_fraction=0.2, test_fraction=0.2)}
        split_stage.run(stage_context("split", out, configs, partition=part.name, pieces=part.pieces, secret=SECRET))
        documents.append(pl.read_parquet(out / "documents.parquet"))
        rejected.append(pl.read_parquet(out / "rejected.parquet"))
        figures.append(json.loads((out / "figures.json").read_text()))
    return pl.concat(documents), figures, pl.concat(rejected)


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def owned(owner: str, space: str = "") -> str:
    return owner_pseudonym(SECRET, space, owner)


BY_FIELD = {"owner_from": "field", "owner_field": "customer_id"}
MAIL = "From: {}\nSubject: Parcel\nDate: x\n\n" + TEXT + "\n"
MESSAGES = [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "It is late."}]
POSTS = f'<posts>\n<row Id="1" Body="{TEXT}" OwnerUserId="7" />\n</posts>\n'
WAYS: dict[str, tuple[dict[str, str | bytes], dict[str, Any], list[str]]] = {
    "jsonl": (
        {"a.jsonl": lines({"text": TEXT, "customer_id": " C7 "}, {"text": TEXT, "customer_id": 7})},
        BY_FIELD,
        ["c7", "7"],
    ),
    "inside an object": (
        {"a.jsonl": lines({"text": TEXT, "user": {"id": "U1"}})},
        {**BY_FIELD, "owner_field": "user.id"},
        ["u1"],
    ),
    "csv": ({"a.csv": f"text,customer_id\n{TEXT},12.0\n"}, {**BY_FIELD, "format": "csv"}, ["12"]),
    "dialogues in JSON": (
        {"a.jsonl": lines({"messages": MESSAGES, "customer_id": "x"})}, {**BY_FIELD, "format": "messages"}, ["x"]
    ),
    "sentences with labels": (
        {"a.csv": f"sentence,label,customer_id\n{TEXT},1,x\n"}, {**BY_FIELD, "format": "glue"}, ["x"]
    ),
    "file": ({"Ann.txt": TEXT, "b/Bob.txt": TEXT}, {"owner_from": "file"}, ["ann.txt", "b/bob.txt"]),
    "folder": ({"Ann/x/1.txt": TEXT, "Ann/2.txt": TEXT}, {"owner_from": "folder"}, ["ann", "ann"]),
    "mails": (
        {
            "1.eml": MAIL.format("Ann Lee <Ann@Example.COM>"),
            "2.eml": MAIL.format("=?utf-8?q?Lee=2C_Ann?= <ann@example.com>"),
            "3.eml": MAIL.format("Lee, Ann <ann@example.com>"),
            "4.eml": MAIL.format("ann@example.com (Ann)"),
            "5.eml": MAIL.format("a@b.c, d@e.f\nSender: ann@example.com"),
        },
        {"owner_from": "sender", "format": "mail"},
        ["ann@example.com"] * 5,
    ),
    "posts": ({"Posts.xml": POSTS}, {"owner_from": "sender", "format": "stackexchange"}, ["7"]),
    "tickets": (
        {"t.json": json.dumps({"id": 1, "requester_id": 7, "comments": [
            {"author_id": 7, "body": "Where is it?"}, {"author_id": 9, "body": "It is late."}]})},
        {"owner_from": "sender", "format": "zendesk"},
        ["7"],
    ),
    "the only speaker who is no role": (
        {"a.txt": "Agent: Hello.\nAnn Lee: Hi.\nAgent: Well?\nAnn Lee: No.\n"},
        {"owner_from": "sender", "format": "dialogue"},
        ["ann lee"],
    ),
    "another way for some files": (
        {"a.jsonl": lines({"text": TEXT, "customer_id": "x"}), "m.eml": MAIL.format("ann@example.com")},
        {**BY_FIELD, "source": [{"pattern": "*.eml", "format": "mail", "owner_from": "sender"}]},
        ["x", "ann@example.com"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_each_setting_finds_the_owner_and_keeps_a_pseudonym_alone(tmp_path: Path, way: str) -> None:
    files, corpus, owners = WAYS[way]
    documents, _, rejected = split_of(tmp_path, files, **corpus)
    assert rejected.height == 0
    assert sorted(documents["owner"]) == sorted(map(owned, owners))


def test_a_column_of_parquet_is_read_with_and_without_numbers(tmp_path: Path) -> None:
    ids: list[Any] = [[7, None, 8], [7.0, float("nan"), 8.0], ["7", "", "8"]]
    for number, values in enumerate(ids):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"text": [f"{TEXT} {i}" for i in range(3)], "customer_id": values}), sink)
        files = {"a.parquet": sink.getvalue().to_pybytes()}
        documents, _, rejected = split_of(tmp_path / str(number), files, **BY_FIELD)
        assert list(documents["owner"]) == [owned("7"), owned("8")]
        assert list(rejected["reason"]) == ["no_owner"]
        assert list(rejected["source_row"]) == [2]


def test_another_column_is_another_text_to_the_index_only_if_it_is_read(tmp_path: Path) -> None:
    """A change of owners must run the split again, and a change of a column that nobody reads must not."""
    found = []
    for owner in ("x", "y"):
        path = tmp_path / f"{owner}.parquet"
        pq.write_table(pa.table({"text": [TEXT], "customer_id": [owner]}), path)
        plain, by_field = CorpusConfig(), CorpusConfig(**BY_FIELD)
        found.append(
            [scan([path], base_dir=tmp_path, options=c.read_options(), secret=SECRET)[0].pieces[0].digest
             for c in (plain, by_field)]
        )  # fmt: skip
    assert found[0][0] == found[1][0]
    assert found[0][1] != found[1][1]


def test_a_document_as_its_own_owner_keeps_the_folds_of_a_corpus_without_owners(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"a.jsonl": lines(*({"id": i, "text": f"{TEXT} {i}"} for i in range(50)))}
    plain, figures, _ = split_of(tmp_path / "plain", files)
    own, _, _ = split_of(tmp_path / "own", files, owner_from="document")
    assert "owner" not in plain.columns
    assert "num_own_owners" not in figures[0]
    assert own.drop("owner").equals(plain)
    assert own["owner"].n_unique() == 50


ROWS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=25)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, size=st.integers(1, 9), space=st.sampled_from(["", "customers"]))
def test_no_owner_is_in_two_folds_however_the_corpus_is_divided(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, bool]], size: int, space: str
) -> None:
    found = []
    for number in (size, 1000):
        folder = tmp_path_factory.mktemp("folds")
        by_file: dict[bool, list[Any]] = defaultdict(list)
        for at, (owner, is_in_b) in enumerate(rows):
            by_file[is_in_b].append({"id": at, "text": f"{TEXT} {at}", "customer_id": f"Person {owner}"})
        files: dict[str, str | bytes] = {f"{name}.jsonl": lines(*rows) for name, rows in by_file.items()}
        documents, _, _ = split_of(folder, files, **BY_FIELD, owner_space=space, partition_documents=number)
        by_owner = documents.group_by("owner").agg(pl.col("fold").n_unique())
        assert set(by_owner["fold"]) == {1}
        check_folds(zip(documents["owner"], documents["fold"], strict=True))
        assert set(documents["owner"]) == {owned(f"person {owner}", space) for owner, _ in rows}
        found.append(sorted(documents.select("source_file", "source_row", "owner", "fold").rows()))
    assert found[0] == found[1]


def test_another_name_of_the_set_of_people_moves_nobody_to_another_fold(tmp_path: Path) -> None:
    """Guards people who were trained on: held-out text is public by assumption."""
    rows = [{"id": at, "text": f"{TEXT} {at}", "customer_id": f"Person {at % 20}"} for at in range(60)]
    found = []
    for space in ("", "customers", "clients"):
        documents, _, _ = split_of(tmp_path / f"in-{space}", {"a.jsonl": lines(*rows)}, **BY_FIELD, owner_space=space)
        assert set(documents["owner"]) == {owned(f"person {number}", space) for number in range(20)}
        found.append(documents.select("source_row", "fold").rows())
    assert found[0] == found[1] == found[2]
    assert len({fold for _, fold in found[0]}) > 1


MISSING = {
    "a.jsonl": lines(
        {"text": TEXT, "customer_id": "x"}, {"text": f"{TEXT} Two."}, {"text": f"{TEXT} 3", "customer_id": ""}
    )
}


def test_documents_without_an_owner_stop_the_run_are_left_out_or_are_people(tmp_path: Path) -> None:
    documents, figures, rejected = split_of(tmp_path / "stop", dict(MISSING), **BY_FIELD)
    assert documents.height == 1
    assert rejected.select("source_file", "source_row", "reason").rows() == [("a.jsonl", i, "no_owner") for i in (2, 3)]
    assert all("corpus.owner_missing" in detail for detail in rejected["detail"])
    with pytest.raises(InputError, match=r'^2 documents have no owner .* "stop" allows none.*file, row and what to do'):
        check_owners(figures, "stop")
    documents, figures, rejected = split_of(tmp_path / "drop", dict(MISSING), **BY_FIELD, owner_missing="drop")
    assert (documents.height, rejected.height) == (1, 0)
    assert figures[0]["parts_left_out"] == {"document without an owner": 2}
    check_owners(figures, "drop")
    documents, figures, rejected = split_of(tmp_path / "own", dict(MISSING), **BY_FIELD, owner_missing="own")
    assert (documents["owner"].n_unique(), rejected.height) == (3, 0)
    assert figures[0]["num_own_owners"] == 2
    check_owners(figures, "own")


@pytest.mark.parametrize("missing", ["stop", "own", "drop"])
def test_a_dialogue_of_several_people_is_refused_or_left_out(tmp_path: Path, missing: str) -> None:
    chat = {"a.txt": "Ann: Hello.\nBob: Hi.\nAnn: Well?\nBob: No.\n", "b.txt": "Agent: Hi.\nAnn: Yes.\nAgent: So?\n"}
    how = {"owner_from": "sender", "format": "dialogue", "owner_missing": missing}
    documents, figures, rejected = split_of(tmp_path, dict(chat), **how)
    assert list(documents["owner"]) == [owned("ann")]
    if missing == "drop":
        assert figures[0]["parts_left_out"] == {"document of several owners": 1}
        return
    assert rejected.select("source_file", "reason").rows() == [("a.txt", "several_owners")]
    assert "Name the customer by corpus.owner_field" in rejected["detail"][0]
    with pytest.raises(InputError, match="1 document has several owners"):
        check_owners(figures, missing)  # type: ignore[arg-type]


def test_folds_of_the_corpus_that_divide_a_person_are_refused_by_number(tmp_path: Path) -> None:
    rows = [
        {"text": f"{TEXT} {i}", "customer_id": f"Secret {i % 4}", "fold": "test" if i < 2 else "train"}
        for i in range(8)
    ]
    documents, _, _ = split_of(tmp_path, {"a.jsonl": lines(*rows)}, **BY_FIELD)
    with pytest.raises(InputError, match=r"^2 of 4 owners have documents in several folds.*name_folds") as caught:
        check_folds(zip(documents["owner"], documents["fold"], strict=True))
    assert "secret" not in str(caught.value).lower()
    check_folds([("a", "train"), ("b", "test"), ("a", "train")])


def test_values_that_are_no_ids_are_rejected_without_quoting_them(tmp_path: Path) -> None:
    values: list[Any] = [["Ann"], {"a": "Ann"}, True, "\ud800 Ann"]
    rows = [{"text": f"{TEXT} {i}", "customer_id": value} for i, value in enumerate(values)]
    documents, _, rejected = split_of(tmp_path, {"a.jsonl": lines(*rows)}, **BY_FIELD)
    assert documents.height == 0
    assert list(rejected["reason"]) == ["wrong_type", "wrong_type", "wrong_type", "undecodable"]
    assert not any("Ann" in detail for detail in rejected["detail"])


@given(st.text(st.characters(max_codepoint=126), max_size=30))
def test_a_normal_id_does_not_depend_on_case_and_spaces(owner: str) -> None:
    once = normalised(owner)
    assert normalised(f"\t {owner.upper()}\u00a0") == once
    assert once == once.strip().lower()


@pytest.mark.parametrize(("one", "other"), [("Zoë", "Zoe\u0308"), ("７", "7"), ("Straße", "STRASSE"), ("-3.00", "-3")])
def test_ways_of_writing_one_id_are_one_person(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)
    assert normalised("3.10") != normalised("3.1")


def test_spaces_and_stores_give_the_same_person_other_pseudonyms() -> None:
    found = {owner_pseudonym(secret, space, "ann") for secret in (b"a" * 32, b"b" * 32) for space in ("", "customers")}
    assert len(found) == 4


def test_speakers_are_read_only_if_the_format_tells_no_sender() -> None:
    def fail() -> Any:
        raise AssertionError
        yield

    mail = Document(name="m.eml", row=1, text="x", owners=("ann@example.com",))
    assert owner_of(mail, "sender", fail()) == "ann@example.com"
    assert "ann" not in repr(mail)
    with pytest.raises(BadRow) as caught:
        owner_of(Document(name="a.txt", row=1, text="x"), "folder", fail())
    assert caught.value.reason == "no_owner"


@pytest.mark.parametrize(
    ("corpus", "says"),
    [
        ({"owner_from": "field"}, "needs owner_field"),
        ({"owner_field": "x"}, 'with owner_from = "field" only'),
        ({"owner_from": "folder", "inputs": ("a", "b")}, "one folder or pattern"),
        ({"source": [{"pattern": "*", "owner_from": "file"}]}, "every document needs an owner"),
        ({"owner_from": "file", "owner_space": "Our customers"}, "owner_space"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(corpus: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        CorpusConfig(**corpus)


def test_settings_of_owners_enter_no_key_until_they_are_used() -> None:
    assert not any(name.startswith("owner") for name in CorpusConfig().keyed("split"))
    used = CorpusConfig(**BY_FIELD)
    assert {"owner_from", "owner_field"} <= used.keyed("split").keys()
    assert used.other_options().owner_from == "none"


NAMED = {**BY_FIELD, "owner_space": "customers"}
DOCUMENTS_ARE_PEOPLE = {"owner_from": "document"}


@pytest.mark.parametrize(
    ("usual", "string"),
    [(BY_FIELD, "/field/customer_id"), (NAMED, "customers"), (DOCUMENTS_ARE_PEOPLE, "/document/"), ({}, "")],
)
def test_usual_settings_have_the_plain_name_of_their_people(usual: dict[str, Any], string: str) -> None:
    assert CorpusConfig(**usual).space_of_people == string
    other = {"source": [{"pattern": "*.txt", "encoding": "cp1252"}], "owner_missing": "drop" if usual else "stop"}
    assert CorpusConfig(**usual, **other).space_of_people == string  # they decide nothing about people
    same = {name: usual[name] for name in ("owner_from", "owner_field") if name in usual}
    assert CorpusConfig(**usual, source=[{"pattern": "*", **same}]).space_of_people == string


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        *(
            (usual, other)
            for usual in (BY_FIELD, NAMED)
            for other in (
                {"owner_missing": "own"},
                {"source": [{"pattern": "b*", "owner_from": "file"}]},
                {"source": [{"pattern": "b*", "owner_field": "agent"}]},
                {"source": [{"pattern": "b*", "owner_from": "document"}]},
                {"source": [{"pattern": "b*", "owner_from": "document", "txt_document": "line"}]},
                {"source": [{"pattern": "b*", "owner_from": "document"}], "txt_document": "line"},
            )
        ),
        *(
            (DOCUMENTS_ARE_PEOPLE, other)
            for other in (
                {"txt_document": "paragraph"},
                {"dialogue_gap_minutes": 5.0},
                {"format": "dialogue"},
                {"source": [{"pattern": "*.txt", "format": "dialogue"}]},
                {"source": [{"pattern": "*.txt", "dialogue_gap_minutes": 5.0}]},
            )
        ),
    ],
)
def test_settings_that_say_otherwise_who_is_a_person_name_other_people(
    usual: dict[str, Any], other: dict[str, Any]
) -> None:
    plain, found = CorpusConfig(**usual).space_of_people, CorpusConfig(**usual, **other).space_of_people
    assert found != plain
    assert found.startswith(f"{plain}/rules-")
    assert "b*" not in found
    assert found == CorpusConfig(**usual, **other).space_of_people


def test_a_table_of_documents_is_read_with_and_without_owners(tmp_path: Path) -> None:
    split_of(tmp_path / "a", {"a.txt": TEXT})
    split_of(tmp_path / "b", {"a.txt": TEXT}, owner_from="file")
    for name, has_owners in (("a", False), ("b", True)):
        (path,) = (tmp_path / name).rglob("documents.parquet")
        table = Table(path, DOCUMENTS)
        assert ("owner" in pl.read_parquet_schema(path)) is has_owners
        assert [row["source_file"] for row in table.rows(["source_file"])] == ["a.txt"]
