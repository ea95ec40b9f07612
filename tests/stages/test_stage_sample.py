"""The sample stage: training rows only, by number only, sorted, repeatable."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from support.contexts import artifact, stage_context
from support.tables import read_table, write_rows

from pipelines.errors import InputError
from pipelines.settings.sample import SampleConfig
from pipelines.stages.prepare.sample import run


def write_sentences(folder, doc_id, num_rows, text="plain text", fold_of=lambda i: "train"):
    rows = [{"sentence_index": i, "fold": fold_of(i)} for i in range(num_rows)]
    common = {"doc_id": doc_id, "text": text, "token_starts": [0, 6], "token_ends": [5, 10]}
    write_rows(folder / "sentences.parquet", "sentences", rows, **common)
    return folder


def context(tmp_path, folders, config, seed=5):
    out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
    parts = [artifact("split", folder, f"part{i}") for i, folder in enumerate(folders)]
    return stage_context("sample", out, {"sample": config}, {"split": parts}, scratch=tmp_path, seed=seed)


@pytest.fixture
def corpus(tmp_path):
    held_out = lambda i: "test" if i % 5 == 0 else "train"  # noqa: E731
    return [write_sentences(tmp_path / name, name, 50, fold_of=held_out) for name in ("zoe", "adam", "mia")]


def result(ctx):
    run(ctx)
    figures = json.loads((ctx.out.folder / "figures.json").read_text())
    return figures, read_table(ctx.out.folder / "sample.parquet", "sample").to_pylist()


def test_replicates_are_drawn_from_the_training_fold_in_corpus_order(tmp_path, corpus):
    figures, rows = result(context(tmp_path, corpus, SampleConfig(replicates=4, fraction=0.1)))
    assert figures["num_population_sentences"] == 120
    assert figures["num_population_tokens"] == 240
    assert figures["replicates"] == [{"num_sentences": 12}] * 4
    assert not figures["is_census"]
    assert figures["warnings"] == []
    assert len(rows) == 48
    order = {"zoe": 0, "adam": 1, "mia": 2}  # the corpus's order, not the alphabet's
    places = [(row["replicate"], order[row["doc_id"]], row["sentence_index"]) for row in rows]
    assert places == sorted(set(places))
    assert all(row["sentence_index"] % 5 for row in rows)
    assert all(row["partition"] == f"part{order[row['doc_id']]}" for row in rows)
    assert {row["inclusion_probability"] for row in rows} == {0.1}
    distinct = {(row["doc_id"], row["sentence_index"]) for row in rows}
    assert figures["num_distinct_sentences"] == len(distinct)
    assert len({place[1:] for place in places if place[0] == 0} & {p[1:] for p in places if p[0] == 1}) < 12


def test_the_sample_does_not_depend_on_the_text(tmp_path):
    plain = [write_sentences(tmp_path / "a", "doc", 300)]
    other = [write_sentences(tmp_path / "b", "doc", 300, text="other words of Jane Doe")]
    contexts = [context(tmp_path, folders, SampleConfig(fraction=0.05)) for folders in (plain, other, plain)]
    for ctx in contexts:
        run(ctx)
    first, second, again = [(ctx.out.folder / "sample.parquet").read_bytes() for ctx in contexts]
    assert first == second == again


def test_partition_borders_do_not_change_which_rows_are_drawn(tmp_path):
    whole = [write_sentences(tmp_path / "whole", "d", 100)]
    parts = [write_sentences(tmp_path / f"p{i}", f"d{i}", 25) for i in range(4)]
    _, one = result(context(tmp_path, whole, SampleConfig(replicates=2, fraction=0.2)))
    _, four = result(context(tmp_path, parts, SampleConfig(replicates=2, fraction=0.2)))
    numbers = [25 * int(row["doc_id"][1:]) + row["sentence_index"] for row in four]
    assert numbers == [row["sentence_index"] for row in one]


def test_another_seed_draws_other_rows(tmp_path, corpus):
    _, first = result(context(tmp_path, corpus, SampleConfig(fraction=0.1)))
    _, second = result(context(tmp_path, corpus, SampleConfig(fraction=0.1), seed=6))
    assert first != second


def test_a_census_takes_every_training_sentence(tmp_path, corpus):
    figures, rows = result(context(tmp_path, corpus, SampleConfig(replicates=2, fraction=1.0)))
    assert figures["is_census"]
    assert figures["num_distinct_sentences"] == 120
    assert len(rows) == 240


def test_few_sentences_are_warned_of(tmp_path, corpus):
    figures, rows = result(context(tmp_path, corpus, SampleConfig(replicates=3, min_sentences=7)))
    assert figures["replicates"] == [{"num_sentences": 7}] * 3
    assert "sample.min_sentences" in figures["warnings"][0]
    assert len(rows) == 21


def test_a_corpus_without_training_sentences_is_an_input_error(tmp_path):
    empty = [write_sentences(tmp_path / "a", "doc", 3, fold_of=lambda i: "test")]
    with pytest.raises(InputError, match="no training sentence"):
        run(context(tmp_path, empty, SampleConfig()))


@pytest.mark.parametrize("values", [{"fraction": 1.1}, {"replicates": 0}, {"min_sentences": 0}, {"fractions": 0.1}])
def test_settings_out_of_range_are_refused(values):
    with pytest.raises(ValidationError):
        SampleConfig(**values)


def write_lists(folder, num_rows, every):
    """Short sentences, of which each ``every``-th is a list of twenty codes."""
    rows = [
        {"sentence_index": i, "text": "A1, " * 20, "token_starts": list(range(40)), "token_ends": list(range(1, 41))}
        if i % every == every - 1
        else {"sentence_index": i, "text": "plain text", "token_starts": [0, 6], "token_ends": [5, 10]}
        for i in range(num_rows)
    ]
    write_rows(folder / "sentences.parquet", "sentences", rows, doc_id=folder.name, fold="train")
    return folder


def test_the_large_part_takes_lists_and_leaves_the_replicates_as_they_are(tmp_path):
    folders = [write_lists(tmp_path / name, 500, 50) for name in ("a", "b")]
    without, base = result(context(tmp_path, folders, SampleConfig(fraction=0.005, large_sentences=0)))
    figures, rows = result(context(tmp_path, folders, SampleConfig(fraction=0.005)))
    assert [row for row in rows if row["replicate"] < 10] == base
    more = [row for row in rows if row["replicate"] == 10]
    assert len(more) == figures["large"]["num_sentences"] == -(-without["num_distinct_sentences"] // 4)
    assert all(row["sentence_index"] % 50 == 49 for row in more)
    assert {row["inclusion_probability"] for row in more} == {len(more) / 20}
    assert figures["large"]["classes"][0]["most_tokens"] == 40
    assert without["large"]["num_sentences"] == 0
    assert figures["num_distinct_sentences"] == len({(row["doc_id"], row["sentence_index"]) for row in rows})
    _, again = result(context(tmp_path, folders, SampleConfig(fraction=0.005)))
    assert rows == again
