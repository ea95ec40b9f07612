"""The reproduction of the papers: how cells run, share runs, and resume."""

import json
import math
from dataclasses import replace

import pytest
import torch
from support.reproduced import COMPUTED, TRAINED

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce import base, cache, corpora, results, running
from benchmarks.reproduce.cells import Train
from benchmarks.reproduce.papers import CELLS
from pipelines.settings.train import TrainConfig


@pytest.fixture
def place(tmp_path):
    return running.Workplace(data_dir=tmp_path, work=tmp_path / "work", results=tmp_path / "results")


def test_a_result_says_how_it_was_made_and_is_not_made_again(place):
    path = running.run_cell(COMPUTED, "small", 0, place)
    found = json.loads(path.read_text("utf-8"))
    assert found["value"] == pytest.approx(0.1586, abs=1e-4)
    assert {"device", "cpus", "commit", "seed", "wall_seconds", "cpu_seconds", "settings", "scale"} <= set(found)
    path.write_text(json.dumps({**found, "value": 7.0, "commit": "another"}), "utf-8")
    with pytest.raises(FileExistsError, match="--again"):
        running.run_cell(COMPUTED, "small", 0, place)
    assert json.loads(path.read_text("utf-8"))["value"] == 7.0
    running.run_cell(COMPUTED, "small", 0, place, again=True)
    assert json.loads(path.read_text("utf-8"))["value"] == found["value"]


def test_the_command_goes_on_where_it_was(place, patch, capsys):
    ran = []

    def trained(run, scale, seed, place, folder):
        ran.append((run.method, seed))
        if len(ran) == 3:
            raise KeyboardInterrupt
        return {"perplexity_per_word": 100.0 + seed}

    patch(running, "trained", trained)
    patch(running, "model_of", lambda *_: None)
    arguments = ["--data-dir", str(place.data_dir), "--results", str(place.results), "--only", "jft/table7"]
    with pytest.raises(KeyboardInterrupt):
        command.main([*arguments, "--seeds", "1"])
    assert command.main([*arguments, "--seeds", "1"]) == 0
    assert len(ran) == 6  # five cells, and the one that was interrupted a second time
    assert command.main([*arguments, "--seeds", "1"]) == 0
    assert len(ran) == 6
    assert "jft/table7/batch 256, 200 epochs, seed 0: 100.0 perplexity" in capsys.readouterr().out


def test_a_failed_run_leaves_no_result_and_does_not_stop_the_others(place, patch):
    def trained(run, scale, seed, place, folder):
        if run.settings(scale)["train.expected_batch_size"] == "512":
            raise running.FailedError("no memory")
        if run.settings(scale)["train.expected_batch_size"] == "256":
            raise ConnectionError("the server is gone")
        return {"perplexity_per_word": 1.0}

    patch(running, "trained", trained)
    patch(running, "model_of", lambda *_: None)
    only = ["--only", "jft/table7", "--seeds", "1"]
    assert command.main(["--data-dir", str(place.data_dir), "--results", str(place.results), *only]) == 1
    assert len(list(place.results.rglob("*.json"))) == 3


def test_a_run_serves_every_cell_that_shows_a_figure_of_it(place, patch):
    ran = []

    def trained(run, scale, seed, place, folder):
        ran.append(run.method)
        return {"perplexity_per_word": 3.0, "perplexity_per_word_after_phase_1": 4.0}

    patch(running, "trained", trained)
    asked = []
    patch(running, "model_of", lambda *_: asked.append(True))
    patch(running, "starting_point_of", lambda *_: {"key": "here", "perplexity_a_word": 9.0})
    patch(base, "key_of", lambda *_: "here")
    level = "WikiText-2, {}, high contextual"
    jft, redacted = (f"jft/table2/{level.format(name)}" for name in ("jft", "redacted"))
    found = {}
    for name in (jft, redacted):
        (cell,) = command.chosen([name])
        found[name] = json.loads(running.run_cell(cell, "small", 0, place).read_text("utf-8"))
    assert ran == ["jft/direct"]
    assert len(asked) == 1  # a figure of a finished run needs no model
    assert (found[jft]["value"], found[redacted]["value"]) == (3.0, 4.0)
    assert found[redacted]["same_run_as"] == jft
    assert "same_run_as" not in found[jft]
    (another,) = command.chosen(["jft/table2/WikiText-2, jft, low contextual"])
    running.run_cell(another, "small", 0, place)
    (cell,) = command.chosen([redacted])
    running.run_cell(cell, "small", 1, place)
    running.run_cell(cell, "small", 0, place, again=True)
    assert len(ran) == 4
    patch(base, "key_of", lambda *_: "another")
    (of_table6,) = command.chosen(["jft/table6/WikiText-2, jft, high contextual"])
    running.run_cell(of_table6, "small", 0, place)
    assert len(ran) == 5  # the finished run began with another starting point


def test_figures_of_finished_runs_are_taken_without_time(place, patch):
    patch(running, "trained", lambda *_: {"bleu": 3.0, "rouge_l": 4.0})
    patch(running, "model_of", lambda *_: None)
    patch(running, "starting_point_of", lambda *_: {"key": "here"})
    patch(base, "key_of", lambda *_: "here")
    (cell,) = command.chosen(["strong/table2/full, ε = 8, BLEU"])
    running.run_cell(cell, "small", 0, place)
    only = ["--only", "strong/table2", "--minutes", "0"]
    assert command.main(["--data-dir", str(place.data_dir), "--results", str(place.results), *only]) == 0
    assert [path.name for path in sorted(place.results.rglob("*.json"))] == [
        "full-eps-8-bleu.small.0.json",
        "full-eps-8-rouge-l.small.0.json",
    ]


def test_a_cell_that_names_the_default_is_of_the_same_run_as_one_that_leaves_it_out(place, patch):
    patch(running, "trained", lambda *_: {"accuracy_percent": 79.0})
    patch(running, "model_of", lambda *_: None)
    names = ("jft/table2/SST-2, DPSGD", "strong/table1/SST-2, full, ε = 3", "strong/table1/SST-2, full, ε = 8")
    cells = [cell for cell in CELLS if cell.identity in names]
    running.run_cell(cells[0], "small", 0, place)
    found = [running.of_same_run(cell, "small", 0, place) for cell in cells[1:]]
    assert [f and f["cell"] for f in found] == [names[0] if "ε = 3" in cell.identity else None for cell in cells[1:]]
    assert {"train.target_epsilon": f"{TrainConfig().target_epsilon:g}"} == corpora.DEFAULTS


def test_at_paper_scale_models_have_the_names_of_the_hub(place, tmp_path):
    models = {cell.run.model_at("paper") for cell in CELLS if isinstance(cell.run, Train)}
    assert {"openai-community/gpt2", "distilbert/distilgpt2", "FacebookAI/roberta-base"} <= models
    assert not {"base", "masked", "minilm"} & models
    assert running.model_of("openai-community/gpt2", "paper", place) is None
    here = replace(place, models={"openai-community/gpt2": str(tmp_path)})
    assert running.model_of("openai-community/gpt2", "paper", here) == tmp_path
    assert running.starting_point_of("openai-community/gpt2", tmp_path) == {"name": "openai-community/gpt2"}


@pytest.mark.slow
def test_a_model_in_a_folder_stands_for_one_of_the_hub(place, tmp_path, patch):
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path / "gpt2"
    base._tokenizer(["the cat sat on the mat ."] * 9, 300, folder)
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(vocab_size=300, n_embd=8, n_layer=1, n_head=1, n_positions=64)).save_pretrained(folder)
    rows = [
        {"id": f"{fold}-{number}", "text": f"Anna Miller met {number} friends in Paris .", "fold": fold}
        for fold, most in (("train", 40), ("test", 8))
        for number in range(most)
    ]
    corpus = replace(corpora.CORPORA["wikitext"], rows=lambda *_: rows)
    patch.item(corpora.CORPORA, "wikitext", corpus)
    # Passes enough that the order of rows, which is drawn for each stage, says little of what is learnt.
    short = {"train.epochs": "4", "train.jft_phase1_epochs": "4", "train.expected_batch_size": "20"}
    short |= {"train.context_length": "64", "train.public_learning_rate": "1e-2"}
    run = Train(corpus="wikitext", method="jft/direct", small=short)
    here = replace(place, models={"openai-community/gpt2": str(folder)})
    found = json.loads(running.run_cell(replace(TRAINED, run=run), "paper", 0, here).read_text("utf-8"))
    assert found["starting_point"] == {"name": "openai-community/gpt2"}
    redacted = replace(run, method="redacted")
    alone = json.loads(running.run_cell(replace(TRAINED, name="b", run=redacted), "paper", 0, here).read_text("utf-8"))
    # The redacted model is jft's after its first phase.
    before, after = (math.log(found["figures"][f"perplexity_per_word_{when}_phase_1"]) for when in ("before", "after"))
    learnt = before - math.log(alone["value"])
    assert learnt > 0.2
    assert before - after == pytest.approx(learnt, rel=0.1)
    assert found["figures"]["private_perplexity"] > 1


def test_headline_cells_come_first_and_one_seed_of_all_before_the_next(tmp_path):
    cells = [replace(TRAINED, name="b"), replace(TRAINED, name="a", headline=True)]
    order = [(cell.name, seed) for cell, seed in results.unfinished(tmp_path, cells, "small")]
    assert order == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]


def test_only_names_papers_tables_and_cells():
    assert command.chosen(["jft/table7"])[0].identity == "jft/table7/batch 256, 200 epochs"
    assert command.chosen(["crt/figure6/ε' = 1, γ = 0.1"])[0].printed == "0.2"
    with pytest.raises(SystemExit, match="no cell"):
        command.chosen(["jft/table70"])
    assert not any(isinstance(cell.run, Train) for cell in command.chosen([], quick=True))


def test_an_artifact_that_is_not_complete_is_gone_on_with(tmp_path):
    calls = []

    def make(folder):
        calls.append(folder)
        return None if len(calls) == 1 else {"num": len(calls)}

    key = cache.content_key({"b": 1, "a": [2]})
    assert key == cache.content_key({"a": [2], "b": 1}) != cache.content_key({"a": [2], "b": 2})
    assert cache.cached(tmp_path, key, make) is None
    assert cache.cached(tmp_path, key, make) == cache.cached(tmp_path, key, make) == tmp_path / key
    assert len(calls) == 2
