import json
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError
from support.contexts import stage_context
from support.imports import loaded_after
from support.tables import read_table

from pipelines.context import Partition
from pipelines.corpus.customersim import write_customersim
from pipelines.corpus.scan import scan
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.split import SplitConfig
from pipelines.stages.prepare.split import run

SECRET = b"k" * 32
TABLES = ("sentences", "documents", "rejected", "gold", "speakers")


def partitions(path: Path, corpus: CorpusConfig) -> list[Partition]:
    return scan(
        [path],
        base_dir=path.parent,
        format=corpus.format,
        options=corpus.read_options(),
        partition_documents=corpus.partition_documents,
        secret=SECRET,
    )


def execute(part: Partition, out: Path, corpus: CorpusConfig, split: SplitConfig | None = None) -> dict:
    configs = {"corpus": corpus, "split": split or SplitConfig()}
    more = {"pieces": part.pieces, "secret": SECRET}
    returned = run(stage_context("split", out, configs, partition=part.name, scratch=out, **more))
    figures = json.loads((out / "figures.json").read_text())
    assert {key: figures[key] for key in returned} == returned
    return figures


def rows(out: Path, table: str) -> list[dict]:
    return read_table(out / f"{table}.parquet", table).to_pylist()


def one(tmp_path: Path, corpus: CorpusConfig | None = None, split: SplitConfig | None = None, name: str = "in.jsonl"):
    chosen = corpus or CorpusConfig()
    (part,) = partitions(tmp_path / name, chosen)
    out = tmp_path / "out"
    return execute(part, out, chosen, split), out


def test_tables_and_figures_agree(tmp_path):
    text = "SYS: Who is it?\nUSR: Ann Lee.\n"
    lines = [
        json.dumps({"id": "d1", "text": text, "fold": "test", "domain": "x", "label": 3,
                    "spans": [{"start": 21, "end": 28, "label": "NAME"}]}),
        "not json",
        json.dumps({"id": "d2", "text": "No gold here. At all.", "fold": "train"}),
        json.dumps({"id": "d3", "text": "Empty gold.", "fold": "valid", "spans": []}),
    ]  # fmt: skip
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    figures, out = one(tmp_path)
    assert figures == {
        "num_documents": 3,
        "num_rows": 3,
        "num_documents_with_gold": 2,
        "num_gold_spans": 1,
        "num_rejected": 1,
        "num_empty": 0,
        "num_held_back": 0,
        "documents_by_other_language": {},
        "parts_left_out": {},
        "num_sentences": 5,
        "num_sentences_by_fold": {"test": 2, "train": 2, "valid": 1},
        "num_tokens": 4 + 3 + 4 + 3 + 3,
        "rejected_by_reason": {"bad_json": 1},
    }
    documents, sentences = rows(out, "documents"), rows(out, "sentences")
    assert [(d["source_id"], d["source_row"], d["num_sentences"], d["has_gold"]) for d in documents] == [
        ("d1", 1, 2, True),
        ("d2", 3, 2, False),
        ("d3", 4, 1, True),
    ]
    assert [(s["text"], s["speaker"], s["fold"]) for s in sentences] == [
        ("Who is it?", "SYS", "test"),
        ("Ann Lee.", "USR", "test"),
        ("No gold here.", None, "train"),
        ("At all.", None, "train"),
        ("Empty gold.", None, "valid"),
    ]
    assert (sentences[0]["domain"], sentences[0]["label"], sentences[2]["domain"]) == ("x", "3", None)
    assert [s["sentence_index"] for s in sentences] == [0, 1, 0, 1, 0]
    (gold,) = rows(out, "gold")
    assert gold == {
        "doc_id": documents[0]["doc_id"], "sentence_index": 1, "start": 0, "end": 7, "start_token": 0, "end_token": 2,
        "label": "NAME", "secret_id": 0,
    }  # fmt: skip
    (rejected,) = rows(out, "rejected")
    assert (rejected["source_file"], rejected["source_row"], rejected["reason"]) == ("in.jsonl", 2, "bad_json")


def test_doc_ids_hide_names_and_ids(tmp_path):
    (tmp_path / "john_smith.txt").write_text("Some text.")
    _, out = one(tmp_path, name="john_smith.txt")
    (document,) = rows(out, "documents")
    assert document["source_file"] == "john_smith.txt"
    (sentence,) = rows(out, "sentences")
    assert sentence["doc_id"] == document["doc_id"]
    assert int(sentence["doc_id"], 16) >= 0


def test_a_partition_of_rejected_rows_alone_still_has_all_tables(tmp_path):
    (tmp_path / "in.jsonl").write_text("{}\n{}\n")
    figures, out = one(tmp_path)
    assert figures["num_documents"] == 0
    assert figures["rejected_by_reason"] == {"missing_text": 2}
    assert [len(rows(out, table)) for table in TABLES] == [0, 0, 2, 0, 0]


def test_the_advice_for_a_long_txt_file_names_both_settings(tmp_path):
    (tmp_path / "in.txt").write_text("word " * 100)
    _, out = one(tmp_path, CorpusConfig(max_document_chars=100), name="in.txt")
    (rejected,) = rows(out, "rejected")
    assert 'corpus.txt_document = "paragraph"' in rejected["detail"]
    assert "raise corpus.max_document_chars" in rejected["detail"]


def test_bytes_do_not_depend_on_how_the_corpus_is_partitioned_or_repeated(tmp_path):
    write_customersim(tmp_path / "sim", 60, 3, file_dialogues=25)
    outcomes = []
    for size in (1000, 10):
        corpus = CorpusConfig(partition_documents=size)
        parts = partitions(tmp_path / "sim", corpus)
        outs = [tmp_path / f"{size}" / part.name for part in parts]
        figures = [execute(part, out, corpus) for part, out in zip(parts, outs, strict=True)]
        again = tmp_path / "again" / str(size)
        execute(parts[0], again, corpus)
        for file in again.iterdir():
            assert file.read_bytes() == (outs[0] / file.name).read_bytes()
        sentences = [row for out in outs for row in rows(out, "sentences")]
        outcomes.append([(s["text"], s["fold"], s["char_start"]) for s in sentences])
        doc_ids = [d["doc_id"] for out in outs for d in rows(out, "documents")]
        assert len(set(doc_ids)) == 60
        assert sum(f["num_documents_with_gold"] for f in figures) == 60
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("template_set", ["A", "B"])
def test_simulated_gold_arrives_intact(tmp_path, template_set):
    write_customersim(tmp_path / "sim", 40, 5, template_set)
    figures, out = one(tmp_path, name="sim")
    source = [json.loads(line) for line in (tmp_path / "sim" / "dialogues-00000.jsonl").read_text().splitlines()]
    wanted = [d["text"][s["start"] : s["end"]] for d in source for s in d["spans"]]
    by_key = {(s["doc_id"], s["sentence_index"]): s for s in rows(out, "sentences")}
    gold = rows(out, "gold")
    assert [by_key[g["doc_id"], g["sentence_index"]]["text"][g["start"] : g["end"]] for g in gold] == wanted
    assert figures["num_gold_spans"] == len(wanted)
    assert figures["num_sentences"] == sum(d["text"].count("\n") for d in source)
    for g in gold:
        s = by_key[g["doc_id"], g["sentence_index"]]
        assert s["token_starts"][g["start_token"]] <= g["start"]
        assert s["token_ends"][g["end_token"] - 1] >= g["end"]


def test_settings_are_checked():
    with pytest.raises(ValidationError, match="leave nothing to train on"):
        SplitConfig(valid_fraction=0.5, test_fraction=0.5)
    with pytest.raises(ValidationError, match="at least one file"):
        CorpusConfig(inputs=())
    assert set(CorpusConfig().keyed()) & CorpusConfig.UNKEYED == set()
    assert set(CorpusConfig.model_fields) >= CorpusConfig.UNKEYED
    for config in (CorpusConfig, SplitConfig):
        assert all(field.description for field in config.model_fields.values())


def test_importing_the_stage_is_cheap():
    assert not {"spacy", "pyarrow", "numpy", "faker"} & loaded_after(
        "import pipelines.settings.corpus, pipelines.settings.split"
    )


def whole(out: Path) -> list[dict]:
    sentences = rows(out, "sentences")
    for s in sentences:
        tokens = [s["text"][a:b] for a, b in zip(s["token_starts"], s["token_ends"], strict=True)]
        assert all(tokens)
        assert "".join(tokens) == "".join(s["text"].split())
    return sentences


def test_the_original_customersim_corpus(tmp_path, shared_data):
    corpus = CorpusConfig(partition_documents=500)
    parts = partitions(shared_data / "customersim" / "train.jsonl", corpus)
    assert len(parts) == 20
    figures = execute(parts[3], tmp_path / "out", corpus)
    assert (figures["num_documents"], figures["num_rejected"]) == (500, 0)
    sentences = whole(tmp_path / "out")
    assert {s["speaker"] for s in sentences} == {"SYS", "USR"}
    first = [s["speaker"] for s in sentences if s["sentence_index"] == 0]
    assert first == ["SYS"] * 500


def test_the_original_wikitext_corpus(tmp_path, shared_data):
    corpus = CorpusConfig(format="txt", txt_document="paragraph", partition_documents=200)
    parts = partitions(shared_data / "wikitext2" / "wiki.valid.raw", corpus)
    assert all(a.pieces[0].end_byte == b.pieces[0].start_byte for a, b in pairwise(parts))
    figures = execute(parts[2], tmp_path / "out", corpus)
    assert (figures["num_documents"], figures["num_rejected"]) == (200, 0)
    sentences = whole(tmp_path / "out")
    assert all(s["speaker"] is None for s in sentences)
    lengths = [len(s["token_starts"]) for s in sentences]
    assert 15 < sum(lengths) / len(lengths) < 35


def test_documents_in_another_language_are_counted_or_held_back(tmp_path):
    german = "Das Paket ist noch nicht da, und ich warte schon seit zwei Wochen auf eine Antwort von Ihnen."
    texts = [
        "The parcel is late, and we are sorry for this and for all that.",
        german,
        "Kurz und gut.",
        german + " Ja.",
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text, "fold": "train"}) + "\n" for text in texts))
    named, out = one(tmp_path)
    assert (named["num_documents"], named["num_held_back"], named["num_rejected"]) == (4, 0, 0)
    assert named["documents_by_other_language"] == {"de": 2}
    assert not rows(out, "rejected")
    held, out = one(tmp_path, split=SplitConfig(other_languages="hold"))
    assert (held["num_documents"], held["num_held_back"], held["num_rejected"]) == (2, 2, 0)
    assert held["documents_by_other_language"] == {"de": 2}
    assert [(r["source_row"], r["reason"]) for r in rows(out, "rejected")] == [
        (2, "other_language"),
        (4, "other_language"),
    ]
    assert "Paket" not in str(rows(out, "rejected"))
    both, _ = one(tmp_path, split=SplitConfig(other_languages="hold", languages=("en", "de")))
    assert (both["num_documents"], both["documents_by_other_language"]) == (4, {})


def test_rows_that_are_left_out_are_counted_and_not_rejected(tmp_path):
    rows_of_dump = ['<row Id="1" Body="&lt;p&gt;One.&lt;/p&gt;&lt;pre&gt;x&lt;/pre&gt;" />', '<row Id="2" Body="" />']
    (tmp_path / "Posts.xml").write_text("<posts>\n" + "\n".join(rows_of_dump) + "\n</posts>\n")
    figures, _ = one(tmp_path, CorpusConfig(format="stackexchange"), name="Posts.xml")
    assert figures["parts_left_out"] == {"block of code": 1, "post without text": 1}
    assert (figures["num_documents"], figures["num_rejected"]) == (1, 0)


def test_names_of_speakers_are_in_one_table_alone(tmp_path):
    """A role is no name, and the same name has the same tag in its document."""
    (tmp_path / "in.txt").write_text(
        "Zorvan: hello\nAgent: hi\nQuux: bye\nZorvan: well\n<|endoftext|>\nQuux: again\nSYS: ok\n"
    )
    _, out = one(tmp_path, CorpusConfig(format="dialogue"), SplitConfig(valid_fraction=0, test_fraction=0), "in.txt")
    first, second = (row["doc_id"] for row in rows(out, "documents"))
    assert [(row["doc_id"], row["tag"], row["name"]) for row in rows(out, "speakers")] == [
        (first, "SPEAKER_1", "Zorvan"),
        (first, "SPEAKER_2", "Quux"),
        (second, "SPEAKER_1", "Quux"),
    ]
    assert [row["speaker"] for row in rows(out, "sentences")] == [
        *("SPEAKER_1", "Agent", "SPEAKER_2", "SPEAKER_1"),
        *("SPEAKER_1", "SYS"),
    ]
    for table in TABLES[:-1]:
        assert "Zorvan" not in str(rows(out, table))


def test_an_unnamed_document_has_no_speakers(tmp_path):
    (tmp_path / "in.txt").write_text("A story.\nIt has two lines: one, and two.\n")
    _, out = one(tmp_path, name="in.txt")
    assert rows(out, "speakers") == []


def test_a_name_that_is_no_tag_is_known_all_the_same(tmp_path):
    more = "once: no name\nagent: hi\nagent: ho\nwei li: a\nwei li: b\n"
    (tmp_path / "in.txt").write_text(f"Zorvan: hello\nJosé: hola\nZorvan: note: this\nJosé: sí\n{more}")
    _, out = one(tmp_path, CorpusConfig(format="dialogue"), SplitConfig(valid_fraction=0, test_fraction=0), "in.txt")
    found = [(row["tag"], row["name"]) for row in rows(out, "speakers")]
    assert found == [("SPEAKER_1", "Zorvan"), (None, "José"), (None, "wei li")]


def test_people_who_are_mentioned_are_in_the_table_of_speakers(tmp_path):
    """A Slack export names them in its list of users, and a mention in a message is replaced by that name."""
    channel = tmp_path / "export" / "general"
    channel.mkdir(parents=True)
    users = [
        {"id": "U1", "name": "zorvan", "real_name": "Zorvan Quux"},
        {"id": "U2", "name": "bo", "real_name": "Bo Marsh"},
    ]
    (tmp_path / "export" / "users.json").write_text(json.dumps(users))
    messages = [{"type": "message", "user": "U1", "text": "ask <@U2> about it", "ts": "1700000000.1"}]
    (channel / "2024-01-03.json").write_text(json.dumps(messages))
    config, out = CorpusConfig(format="slack"), tmp_path / "out"
    (part,) = (part for part in partitions(tmp_path / "export", config) if part.pieces[0].name.startswith("general/"))
    execute(part, out, config, None)
    assert [row["text"] for row in rows(out, "sentences")] == ["ask @Bo Marsh about it"]
    assert {row["name"] for row in rows(out, "speakers")} >= {"Zorvan Quux", "Bo Marsh"}
    assert "Zorvan" not in str(rows(out, "sentences"))
