"""Every kind of bad input: a clear message, the right exit code, and the good rows kept."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest
from support.project import reticent

GOOD = {"id": "good", "text": "The parcel is late. Please look into it."}


def _config(folder: Path, inputs: str, extra: str = "") -> Path:
    path = folder / "reticent.toml"
    path.write_text(f"[corpus]\ninputs = {inputs}\n{extra}")
    return path


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ('["no-such-folder"]', "no-such-folder"),
        ('["empty"]', "nothing to read"),
        ('["folder.jsonl"]', "is a folder"),
        ('["*.jsonl.gone"]', "no file matches"),
    ],
)
def test_unusable_inputs_exit_3_before_anything_runs(tmp_path: Path, inputs: str, told: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.jsonl").mkdir()
    done = reticent("run", _config(tmp_path, inputs), cwd=tmp_path)
    assert done.returncode == 3
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [("[train]\nepohcs = 3\n", "did you mean epochs"), ('[train]\nepochs = "three"\n', "line 2"), ("[train", "TOML")],
)
def test_bad_settings_exit_2(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "reticent.toml"
    path.write_text(text)
    for command in ("run", "plan", "status"):
        done = reticent(command, path, cwd=tmp_path)
        assert done.returncode == 2
        assert told in done.stderr


def test_usage_errors_exit_2(tmp_path: Path) -> None:
    assert reticent("run", "--no-such-option", cwd=tmp_path).returncode == 2
    assert reticent("no-such-command", cwd=tmp_path).returncode == 2
    assert reticent("run", tmp_path / "none.toml", cwd=tmp_path).returncode == 3


@pytest.mark.slow
def test_bad_rows_are_rejected_with_file_row_and_reason_and_good_rows_survive(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    rows = [
        json.dumps(GOOD).encode(),
        b'{"id": "undecodable", "text": "caf\xe9"}',
        json.dumps({"id": "nul", "text": "a\0b"}).encode(),
        json.dumps({"id": "long", "text": "word " * 10_000}).encode(),
        json.dumps({"id": "no-text", "body": "x"}).encode(),
        json.dumps({"id": "type", "text": 7}).encode(),
        b"not json",
        json.dumps({"id": "good-2", "text": "All is well now, thank you."}).encode(),
    ]
    (corpus / "rows.jsonl").write_bytes(b"\n".join(rows) + b"\n")
    (corpus / "latin.txt").write_bytes(b"caf\xe9")
    (corpus / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"\0")
    os.mkfifo(corpus / "pipe.jsonl")
    config = _config(tmp_path, '["corpus"]', "max_rejected_fraction = 0.9\nmax_document_chars = 40_000\n")
    done = reticent("run", config, "--only", "split", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout.splitlines()[-1])["outputs"]
    rejected = pl.read_parquet(f"{outputs['rejected']}/*.parquet")
    found = {(r["source_file"], r["source_row"]): r["reason"] for r in rejected.to_dicts()}
    assert found == {
        ("rows.jsonl", 2): "undecodable",
        ("rows.jsonl", 3): "nul",
        ("rows.jsonl", 4): "over_long",
        ("rows.jsonl", 5): "missing_text",
        ("rows.jsonl", 6): "wrong_type",
        ("rows.jsonl", 7): "bad_json",
        ("latin.txt", 1): "undecodable",
        ("caf\\xe9.txt", 1): "nul",
        ("pipe.jsonl", 1): "not_a_file",
    }
    assert all(rejected["detail"].str.len_chars() > 10)
    sentences = pl.read_parquet(f"{outputs['sentences']}/*.parquet")
    assert sorted(sentences["text"]) == ["All is well now, thank you.", "Please look into it.", "The parcel is late."]

    strict = reticent("run", config, "--only", "split", cwd=tmp_path, RETICENT__CORPUS__MAX_REJECTED_FRACTION="0.5")
    assert strict.returncode == 3
    assert "9 of 11 rows were rejected" in strict.stderr
    assert "max_rejected_fraction" in strict.stderr
    assert "word" not in strict.stderr
