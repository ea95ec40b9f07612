"""Dedup against another corpus, and of whole documents, through the stages."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.commands.dedup_filter import write_filter
from pipelines.corpus.split import Splitter
from pipelines.errors import ConfigError, InputError
from tests.stages.test_stage_dedup import dedup, document, outcomes

KEPT = (False, None, 1)
OTHER = (True, None, 0)


def write(folder, kind, texts):
    if kind == "txt":
        (folder / "other.txt").write_text("\n".join(texts))
        return folder / "other.txt"
    if kind == "jsonl":
        (folder / "other.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
        return folder / "other.jsonl"
    if kind == "parquet":
        pq.write_table(pa.table({"text": texts}), folder / "other.parquet")
        return folder / "other.parquet"
    write(folder, "txt", texts)
    return folder / ("*.txt" if kind == "pattern" else "")


@pytest.mark.parametrize("backend", ["bloom", "exact"])
@pytest.mark.parametrize("kind", ["txt", "jsonl", "parquet", "pattern", "folder"])
def test_every_copy_of_what_another_corpus_holds_is_masked(tmp_path, kind, backend):
    (tmp_path / "other").mkdir()
    against = write(tmp_path / "other", kind, ["Good day.", "Never seen here."])
    corpus = {
        "p": document("a", "Good day.", "My name is Ann.", speaker="SYS"),
        "q": document("b", "Good day.", "My name is Ann.", "Bye.", speaker="SYS", domain="x")
        + document("c", "My name is Ann.", speaker="SYS")
        + document("d", "Good day.", fold="test"),
    }
    decisions, figures, _ = dedup(tmp_path, corpus, against=[str(against)], backend=backend)
    assert outcomes(decisions) == [OTHER, KEPT, OTHER, KEPT, KEPT, (True, "a:1", 2), KEPT]
    assert (figures["num_in_other"], figures["num_duplicates"], figures["has_other"]) == (2, 3, True)
    assert figures["num_in_scope"] == 6
    assert figures["stability"] == {"add_or_remove_one": 1, "replace_one": 1}


@pytest.mark.parametrize(("mode", "verify"), [("mask_all", True), ("mask_later", False)])
def test_against_goes_with_every_mode(tmp_path, mode, verify):
    (tmp_path / "o.txt").write_text("x")
    corpus = {"p": document("a", "x", "y", "x"), "q": document("b", "y", "x", "z")}
    decisions, _, _ = dedup(tmp_path, corpus, against=[str(tmp_path / "o.txt")], mode=mode, verify=verify)
    first = (True, None, 1) if mode == "mask_all" else KEPT
    second = (True, "a:1", 2) if verify else (True, None, 0)
    assert outcomes(decisions) == [OTHER, first, OTHER, second, OTHER, KEPT]


def test_normalisation_and_min_tokens_hold_for_the_other_corpus(tmp_path):
    (tmp_path / "o.txt").write_text("GOOD   day.\nok")
    short = {"token_starts": [0], "token_ends": [2]}
    corpus = {"p": document("a", "good day.") + document("b", "ok", **short)}
    decisions, _, _ = dedup(tmp_path, corpus, against=[str(tmp_path / "o.txt")], normalise="casefold", min_tokens=2)
    assert outcomes(decisions) == [OTHER, KEPT]


def test_whole_documents(tmp_path):
    corpus = {
        "p": document("a", "x", "y") + document("b", "x") + document("c", "y", "x"),
        "q": document("d", "x", "y") + document("e", "x", "y", speaker="S") + document("f", "x", "y", "y"),
        "r": document("g", "x", "x") + document("h", "x", "y"),
    }
    decisions, figures, _ = dedup(tmp_path, corpus, unit="document")
    expected = [KEPT] * 5 + [(True, "a:0", 2), (True, "a:1", 2)] + [KEPT] * 7 + [(True, "a:0", 3), (True, "a:1", 3)]
    assert outcomes(decisions) == expected
    assert figures["stability"] == {"add_or_remove_one": None, "replace_one": None}


def test_min_tokens_counts_the_tokens_of_a_whole_document(tmp_path):
    corpus = {"p": document("a", "x", "y") + document("b", "x", "y") + document("c", "z") + document("d", "z")}
    decisions, _, _ = dedup(tmp_path, corpus, unit="document", min_tokens=3)  # each sentence has two
    assert [row[0] for row in outcomes(decisions)] == [False, False, True, True, False, False]


def test_whole_documents_against_another_corpus(tmp_path):
    (tmp_path / "o.jsonl").write_text(json.dumps({"text": "One thing.\nTwo things."}))
    corpus = {
        "p": document("a", "One thing.", "Two things.", speaker="S") + document("b", "One thing."),
        "q": document("c", "Two things.", "One thing.") + document("d", "One thing.", "Two things."),
    }
    decisions, _, _ = dedup(tmp_path, corpus, unit="document", against=[str(tmp_path / "o.jsonl")])
    assert outcomes(decisions) == [OTHER, OTHER, KEPT, KEPT, KEPT, OTHER, OTHER]


def settings_file(folder, **dedup_settings):
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in dedup_settings.items())
    (folder / "reticent.toml").write_text(f"[dedup]\n{lines}")
    return folder / "reticent.toml"


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_a_saved_filter_stands_for_its_corpus(tmp_path, unit):
    (tmp_path / "o.txt").write_text("Good day.\nBye.")
    path = tmp_path / "o.bloom"
    found = write_filter(settings_file(tmp_path, unit=unit), {}, [str(tmp_path / "o.txt")], path)
    assert (found["num_documents"], found["num_items"]) == (1, 2 if unit == "sentence" else 1)
    corpus = {"p": document("a", "Good day.", "Bye.") + document("b", "Bye.")}
    alone, _, _ = dedup(tmp_path, corpus, unit=unit, against=[str(path)])
    assert outcomes(alone) == [OTHER, OTHER, OTHER if unit == "sentence" else KEPT]
    (tmp_path / "both").mkdir()
    (tmp_path / "more.txt").write_text("Ann.")
    more = {"p": [*corpus["p"], *document("c", "Ann.")]}
    both, figures, _ = dedup(tmp_path / "both", more, unit=unit, against=[str(path), str(tmp_path / "more.txt")])
    assert outcomes(both) == [*outcomes(alone), OTHER]
    assert figures["num_other_documents"] == 1
    (tmp_path / "wrong").mkdir()
    with pytest.raises(ConfigError, match=r"entry 2: .*hash_seed"):
        dedup(tmp_path / "wrong", corpus, unit=unit, against=[str(tmp_path / "more.txt"), str(path)], hash_seed=1)


def test_a_saved_filter_cuts_long_sentences_where_the_corpus_cuts_them(tmp_path):
    text = "a=1;b=2;c=3;d=4;e=5"
    (tmp_path / "o.txt").write_text(text)
    config = settings_file(tmp_path)
    config.write_text(config.read_text() + "[split]\ncut_fields = true\nmax_sentence_tokens = 8\n")
    found = write_filter(config, {}, [str(tmp_path / "o.txt")], tmp_path / "o.bloom")
    (pieces,) = Splitter(max_sentence_tokens=8, cut_fields=True).split([text])
    assert found["num_items"] == len(pieces) == 3


def test_a_missing_corpus_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"dedup\.against"):
        dedup(tmp_path, {"p": document("a", "x")}, against=[str(tmp_path / "none.txt")])


def test_rejected_rows_of_the_other_corpus_are_not_passed_over(tmp_path):
    (tmp_path / "o.jsonl").write_text('{"text": "x"}\n{"txt": "secret"}\n')
    with pytest.raises(InputError, match="1 rows of 2") as error:
        dedup(tmp_path, {"p": document("a", "x")}, against=[str(tmp_path / "o.jsonl")])
    assert "secret" not in str(error.value)
