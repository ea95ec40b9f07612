"""The cells of the papers: corpora of small files, equal settings, and figures of other benchmarks."""

from collections import Counter

import pytest

from benchmarks.reproduce import corpora, recorded
from benchmarks.reproduce.cells import Train, settings_of
from benchmarks.reproduce.papers import CELLS


def test_label_words_of_the_paper_are_the_training_of_table_1():
    runs = {cell.identity: cell.run for cell in CELLS if isinstance(cell.run, Train)}
    mine, of_table = (
        runs[f"strong/{name}, ε = 8"] for name in ("figure8/great, terrible", "table1/SST-2, full + infilling")
    )
    assert settings_of(mine, "small") == settings_of(of_table, "small")
    assert settings_of(runs["strong/figure8/table, chair, ε = 8"], "small") != settings_of(mine, "small")


def test_pairs_of_a_development_part_are_trained_on_or_held_out(tmp_path):
    (tmp_path / "qnli").mkdir()
    lines = [f'{n}\tWhy {n}?\tFor "{n}.\tentailment' for n in range(30)]
    (tmp_path / "qnli" / "dev.tsv").write_text("\n".join(["index\tquestion\tsentence\tlabel", *lines]) + "\n", "utf-8")
    rows = corpora.qnli(tmp_path, "small", num_train=12, num_test=10)
    assert Counter(row["fold"] for row in rows) == {"train": 12, "test": 10}
    assert len({row["question"] for row in rows}) == 22
    assert {row["sentence"] for row in rows} <= {f'For "{n}.' for n in range(30)}


def test_memory_of_a_step_is_that_of_equal_batches():
    figures = recorded.memory_of_a_step("gpt2-small-512-bf16", "ours", "plain", 16.0)
    assert figures["ratio"] == pytest.approx(12.0 / 12.2, rel=0.01)  # gigabytes of docs/gpu.md
    with pytest.raises(ValueError, match="unpack"):
        recorded.memory_of_a_step("gpt2-small-512-bf16", "ours", "plain", 3.0)


def test_dialogues_of_a_test_part_are_trained_on_or_held_out(tmp_path):
    (tmp_path / "abcd").mkdir()
    dialogue = "SYS:Hi {}\n\nUSR:It is {}: now\n\nACT:Looked up {}\n\n"
    text = "<|endoftext|>".join(dialogue.format(n, n, n) for n in range(9)) + "<|endoftext|>"
    (tmp_path / "abcd" / "test.txt").write_text(text, "utf-8")
    rows = corpora.abcd(tmp_path, "small", num_turns=12, held_out=7)
    assert Counter(row["fold"] for row in rows) == {"test": 3, "train": 4}  # of three turns each
    assert len({row["text"] for row in rows}) == 7
    assert rows[0]["text"].splitlines()[1].startswith("USR: It is ")
