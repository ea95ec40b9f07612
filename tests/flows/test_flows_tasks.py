"""Tasks through the command line, from files as they are published to scores and to the texts that a model wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.project import reticent
from support.shared_server import run_json
from transformers import AutoModelForCausalLM, AutoTokenizer

SETTINGS = """
[corpus]
inputs = ["data"]
format = "{format}"
[redact]
policies = ["digits"]
conservative = "digits"
[estimate]
source = "none"
[train]
num_layers = 1
num_heads = 2
embedding_size = 16
context_length = 256
epochs = 1
expected_batch_size = 16
noise_multiplier = 1.0
max_new_tokens = 16
num_beams = 2
max_generated = 3
{train}
"""


def project(folder: Path, format: str, train: str, files: dict[str, str]) -> Path:
    (folder / "data").mkdir(parents=True)
    for name, text in files.items():
        (folder / "data" / name).write_text(text, encoding="utf-8")
    config = folder / "reticent.toml"
    config.write_text(SETTINGS.format(format=format, train=train), encoding="utf-8")
    return config


def training_figures(config: Path) -> dict[str, Any]:
    report = config.parent / "reticent-store/private/latest/report/report.json"
    figures: dict[str, Any] = json.loads(report.read_text())["training"]
    return figures


def episode(number: int) -> str:
    """A conversation in ParlAI's format: numbered lines, candidates behind an empty column."""
    told = "i have 3 dogs" if number % 3 == 0 else "i have dogs"
    return (
        f"1 your persona: {told} .\n2 your persona: i like to bake .\n"
        f"3 hello , who are you ?\ti am baker {'abcdefgh'[number % 8]} . i bake .\t\tno .|i ski .|i am baker .\n"
        f"4 __SILENCE__\t{told} , do you ?\t\tno .|yes .|{told} , do you ?\n"
    )


@pytest.mark.slow
def test_personachat_from_its_files_to_replies(tmp_path: Path) -> None:
    files = {
        "train_self_original.txt": "".join(map(episode, range(24))),
        "valid_self_original.txt": "".join(map(episode, range(24, 30))),
    }
    config = project(tmp_path / "p", "personachat", 'task = "response"\nevaluate_fold = "valid"', files)
    document = run_json(config)
    figures = training_figures(config)
    assert figures["task"] == "response"
    assert figures["record"] == "dialogue"
    assert figures["num_public_records"] + figures["num_private_records"] == 24
    assert figures["perplexity"] < figures["perplexity_at_initialisation"]
    assert figures["scores"]["num_outputs"] == 3
    assert figures["scores"]["num_available"] == 12  # two replies in each of six conversations
    assert 0 <= figures["scores"]["f1"] <= 1
    table = pl.read_parquet(config.parent / "reticent-store/private/latest/generated/*.parquet")
    assert table.columns == ["given", "text", "references"]
    for row in table.to_dicts():
        assert row["given"].startswith("<BOS><PERSONA>i have")
        assert row["given"].endswith("<SELF>")
        assert len(row["references"]) == 1
        assert "|" not in row["references"][0]  # candidates are no replies
    inspected = reticent("inspect", "train", "--config", config, cwd=config.parent)
    assert inspected.returncode == 0, inspected.stderr
    assert "dogs" not in inspected.stdout
    assert "(1 texts)" in inspected.stdout
    shown = reticent("inspect", "generated", "--config", config, "--show-text", cwd=config.parent)
    assert "dogs" in shown.stdout
    model = Path(document["outputs"]["model"])
    tokenizer = AutoTokenizer.from_pretrained(model)
    AutoModelForCausalLM.from_pretrained(model)
    assert {"<SELF>", "<PARTNER>", "<PERSONA>", "<PARTNER_PERSONA>"} <= set(tokenizer.get_vocab())


@pytest.mark.slow
def test_e2e_from_its_files_to_descriptions_with_all_references(tmp_path: Path) -> None:
    def rows(numbers: range) -> str:
        lines = ["mr,ref"]
        for number in numbers:
            name, near = f"The {'ABCDEF'[number % 6]} Mill", "Bar 7" if number % 3 == 0 else "All Bar One"
            lines.append(f'"name[{name}], near[{near}]","{name} is near {near}. Visit {number}."')
        return "\n".join(lines) + "\n"

    files = {"trainset.csv": rows(range(36)), "testset_w_refs.csv": rows(range(36, 60))}
    train = 'task = "table_to_text"\nmax_eval_sentences = 4'
    config = project(tmp_path / "p", "e2e", train, files)
    run_json(config, RETICENT__REDACT__POLICIES='["digits", "high_entity"]')
    figures = training_figures(config)
    assert figures["num_eval_sentences"] == 4
    table = pl.read_parquet(config.parent / "reticent-store/private/latest/generated/*.parquet")
    for row in table.to_dicts():
        assert row["given"].startswith("<BOS>name : The ")
        assert len(row["references"]) == 4  # six tables, 24 rows: all of the fold's, although four rows were scored
    private = pl.read_parquet(config.parent / "reticent-store/private/latest/private/*.parquet")
    pairs = private.filter(pl.col("redacted_text") != "<MASK>")["redacted_text"].str.split(" || ")
    assert pairs.list.len().unique().to_list() == [2]
